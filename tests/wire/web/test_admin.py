"""The page for administrators: who sees which tokens and acts."""

from __future__ import annotations

import re

from penstock.auth import Mode
from penstock.model import DEFAULT_TENANT, Scope
from tests.wire.conftest import running
from tests.wire.web.markup import INERT, dangers


async def test_administrators_see_their_tenant_and_operators_all() -> None:
    async with running(Mode.TOKEN) as live:
        tenants = live.engine.tenants
        another = (await tenants.create("another")).id
        admin, everything = frozenset({Scope.ADMIN}), frozenset({Scope.READ, Scope.SEND, Scope.RECEIVE, Scope.MANAGE})
        operator = (await tenants.create_token(DEFAULT_TENANT, "operator-token", admin))[1]
        local = (await tenants.create_token(another, "local-token", admin))[1]
        limited = (await tenants.create_token(another, "limited", admin, queues="mine-*"))[1]
        worker = (await tenants.create_token(DEFAULT_TENANT, "worker", everything))[1]
        await live.engine.audit.note(another, "someone", "theirs", "".join(INERT))
        await live.engine.audit.note(DEFAULT_TENANT, "someone", "ours", "thing")
        async with live.client(operator) as first, live.client(local) as second:
            whole, part = (await first.get("/ui/admin")).text, (await second.get("/ui/admin")).text
        refused = []
        for token in (limited, worker, "nobody"):
            async with live.client(token) as client:
                answer = await client.get("/ui/admin")
                refused.append(answer.status_code)
                assert "local-token" not in answer.text

    assert ("operator-token" in whole, "local-token" in whole, "theirs" in whole, "ours" in whole) == (True,) * 4
    assert ("operator-token" in part, "local-token" in part, "theirs" in part, "ours" in part) == (
        False,
        True,
        True,
        False,
    )
    assert "<h2>Tenants</h2>" not in part
    assert refused == [403, 403, 403]
    assert dangers(whole) == []
    assert not any(secret in whole for secret in (operator, local, worker))


FORM = {"sec-fetch-site": "same-origin"}


async def test_operators_see_the_nodes_and_others_do_not() -> None:
    async with running(Mode.TOKEN) as live:
        await live.engine.nodes.seen("9.8.7")
        tenant = (await live.engine.tenants.create("shop")).id
        for owner, shown in ((DEFAULT_TENANT, True), (tenant, False)):
            text = (await live.engine.tenants.create_token(owner, "root", frozenset({Scope.ADMIN, Scope.READ})))[1]
            async with live.client(text) as client:
                assert ("9.8.7" in (await client.get("/ui/admin")).text) is shown


async def test_a_token_is_created_shown_once_and_revoked() -> None:
    async with running(Mode.TOKEN) as live:
        tenants = live.engine.tenants
        operator = (await tenants.create_token(DEFAULT_TENANT, "operator", frozenset({Scope.ADMIN})))[1]
        async with live.client(operator) as client:
            form = {"name": "billing", "scopes": ["read", "send"], "queues": "billing-*", "days": "30"}
            made = await client.post("/ui/admin/tokens/create", data=form, headers=FORM)
            [text] = set(re.findall(r"pst_[0-9a-f]{8}_[A-Za-z0-9_-]{43}", made.text))
            [token] = [one for one in await tenants.list_tokens() if one.name == "billing"]
            again = (await client.get("/ui/admin")).text

            assert (made.status_code, made.headers["cache-control"]) == (200, "no-store")
            assert text not in again
            assert (token.scopes, token.queues) == (frozenset({Scope.READ, Scope.SEND}), "billing-*")
            assert token.expires_at is not None
            principal = await live.authenticator.principal(f"Bearer {text}")
            assert principal.reaches("billing-1")

            wrong = {"id": str(token.id), "confirm": "other"}
            assert (await client.post("/ui/admin/tokens/revoke", data=wrong, headers=FORM)).status_code == 400
            right = {"id": str(token.id), "confirm": "billing"}
            gone = await client.post("/ui/admin/tokens/revoke", data=right, headers=FORM)
            assert (gone.status_code, gone.headers["location"]) == (303, "/ui/admin?done=revoked")
            [ended] = [one for one in await tenants.list_tokens() if one.name == "billing"]
            assert ended.revoked_at is not None


async def test_an_administrator_makes_and_revokes_tokens_of_the_own_tenant_only() -> None:
    async with running(Mode.TOKEN) as live:
        tenants = live.engine.tenants
        another = (await tenants.create("another")).id
        local = (await tenants.create_token(another, "local", frozenset({Scope.ADMIN})))[1]
        foreign = (await tenants.create_token(DEFAULT_TENANT, "foreign", frozenset({Scope.READ})))[0]
        reader = (await tenants.create_token(another, "reader", frozenset({Scope.READ})))[1]
        async with live.client(local) as client, live.client(reader) as weak:
            taken = {"name": "x", "scopes": "read", "tenant": "default"}
            assert (await client.post("/ui/admin/tokens/create", data=taken, headers=FORM)).status_code == 400
            revoked = {"id": str(foreign.id), "confirm": "foreign"}
            assert (await client.post("/ui/admin/tokens/revoke", data=revoked, headers=FORM)).status_code == 404
            assert (await client.post("/ui/admin/tokens/create", data={"name": "x"}, headers=FORM)).status_code == 400
            own = {"name": "own", "scopes": "send"}
            assert (await client.post("/ui/admin/tokens/create", data=own, headers=FORM)).status_code == 200
            assert (await weak.post("/ui/admin/tokens/create", data=own, headers=FORM)).status_code == 403
        found = {(one.name, one.tenant) for one in await tenants.list_tokens()}

    assert ("own", another) in found
    assert not any(name == "x" for name, _ in found)

"""The page for administrators: who sees which tokens and acts."""

from __future__ import annotations

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

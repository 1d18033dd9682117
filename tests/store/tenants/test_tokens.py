"""Tenants and their API tokens."""

from __future__ import annotations

import hashlib
from datetime import datetime, timedelta
from uuid import uuid4

import pytest

from penstock.clock import FakeClock
from penstock.errors import TokenNotFound
from penstock.model import DEFAULT_TENANT, Scope, TenantId, Token
from penstock.store import Store


async def add_token(store: Store, tenant: TenantId, now: datetime, prefix: str, **fields: datetime | None) -> Token:
    digest = hashlib.sha256(prefix.encode()).digest()
    scopes = frozenset({Scope.SEND, Scope.RECEIVE})
    return await store.add_token(tenant, "worker", prefix, digest, scopes, "orders-*", now, fields.get("expires_at"))


@pytest.fixture
def prefix() -> str:
    return uuid4().hex[:12]


async def test_the_default_tenant_is_there_from_the_start(store: Store) -> None:
    names = {tenant.id: tenant.name for tenant in await store.list_tenants()}

    assert names[DEFAULT_TENANT] == "default"


async def test_creating_a_tenant_again_answers_the_one_that_is_there(store: Store, clock: FakeClock) -> None:
    name = f"acme-{uuid4().hex}"
    first = await store.create_tenant(name, clock.now())
    clock.advance(seconds=5)

    again = await store.create_tenant(name, clock.now())

    assert again == first
    assert (first.name, first.created_at) == (name, clock.now() - timedelta(seconds=5))
    assert first in await store.list_tenants()


async def test_a_token_is_found_by_its_prefix(store: Store, tenant: TenantId, clock: FakeClock, prefix: str) -> None:
    expires_at = clock.now() + timedelta(days=1)
    token = await add_token(store, tenant, clock.now(), prefix, expires_at=expires_at)
    [tenant_name] = [known.name for known in await store.list_tenants() if known.id == tenant]

    assert await store.find_tokens(prefix) == [token]
    assert await store.find_tokens("nobody's") == []
    assert (token.tenant, token.tenant_name, token.name, token.prefix) == (tenant, tenant_name, "worker", prefix)
    assert token.sha256 == hashlib.sha256(prefix.encode()).digest()
    assert token.scopes == {Scope.SEND, Scope.RECEIVE}
    assert token.queues == "orders-*"
    assert (token.created_at, token.expires_at) == (clock.now(), expires_at)
    assert (token.revoked_at, token.last_seen_at) == (None, None)


async def test_tokens_of_one_prefix_are_all_found(
    store: Store, tenant: TenantId, clock: FakeClock, prefix: str
) -> None:
    tokens = [await add_token(store, tenant, clock.now(), prefix) for _ in range(2)]
    tokens[0] = await store.end_token(tokens[0].id, clock.now())

    found = await store.find_tokens(prefix)

    assert sorted(found, key=lambda token: token.id) == tokens


async def test_tokens_are_listed_by_tenant(store: Store, tenant: TenantId, clock: FakeClock, prefix: str) -> None:
    other = (await store.create_tenant(f"other-{uuid4().hex}", clock.now())).id
    mine = await add_token(store, tenant, clock.now(), prefix)
    theirs = await add_token(store, other, clock.now(), prefix)

    assert await store.list_tokens(tenant) == [mine]
    assert await store.list_tokens(other) == [theirs]
    everyones = await store.list_tokens(None)
    assert mine in everyones
    assert theirs in everyones


async def test_an_ended_token_keeps_the_earlier_end(
    store: Store, tenant: TenantId, clock: FakeClock, prefix: str
) -> None:
    token = await add_token(store, tenant, clock.now(), prefix)
    later = clock.now() + timedelta(hours=1)

    assert (await store.end_token(token.id, later)).revoked_at == later
    assert (await store.end_token(token.id, clock.now())).revoked_at == clock.now()
    assert (await store.end_token(token.id, later)).revoked_at == clock.now()


async def test_an_unknown_token_cannot_be_ended(store: Store, clock: FakeClock) -> None:
    with pytest.raises(TokenNotFound):
        await store.end_token(1_000_000_000, clock.now())


async def test_a_token_remembers_when_it_was_last_seen(
    store: Store, tenant: TenantId, clock: FakeClock, prefix: str
) -> None:
    token = await add_token(store, tenant, clock.now(), prefix)
    clock.advance(seconds=5)

    await store.saw_token(token.id, clock.now())

    [seen] = await store.find_tokens(prefix)
    assert seen.last_seen_at == clock.now()


async def test_the_secret_of_an_access_key_is_kept_and_never_shown(
    store: Store, tenant: TenantId, clock: FakeClock, prefix: str
) -> None:
    plain = await add_token(store, tenant, clock.now(), prefix)
    scopes = frozenset({Scope.SEND})
    key = await store.add_token(tenant, "sdk", prefix, b"-", scopes, "*", clock.now(), None, "wJalr/XUtn+FEMI")

    assert (plain.aws_secret, key.aws_secret) == (None, "wJalr/XUtn+FEMI")
    assert sorted(await store.find_tokens(prefix), key=lambda token: token.id) == [plain, key]
    assert await store.list_tokens(tenant) == [plain, key]
    assert (await store.end_token(key.id, clock.now())).aws_secret == "wJalr/XUtn+FEMI"
    assert "wJalr" not in f"{key} {key!r}"

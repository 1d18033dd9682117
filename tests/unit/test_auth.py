"""Tokens: shown once, kept hashed, found by prefix, judged alike."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from penstock import auth
from penstock.auth import Authenticator, Mode, Principal
from penstock.clock import FakeClock
from penstock.errors import Forbidden
from penstock.model import DEFAULT_TENANT, Scope, TenantId, Token

SECRET, PREFIX, SHA256 = auth.new_secret()


def token(clock: FakeClock) -> Token:
    return Token(
        id=1,
        tenant=TenantId(7),
        tenant_name="acme",
        name="ci",
        prefix=PREFIX,
        sha256=SHA256,
        scopes=frozenset({Scope.SEND}),
        queues="orders-*",
        created_at=clock.now(),
        expires_at=None,
        revoked_at=None,
        last_seen_at=None,
    )


class Shelf:
    def __init__(self, *tokens: Token) -> None:
        self.tokens = list(tokens)
        self.asked: list[str] = []
        self.seen: list[int] = []

    async def find(self, prefix: str) -> Sequence[Token]:
        self.asked.append(prefix)
        return [token for token in self.tokens if token.prefix == prefix]

    async def saw(self, token_id: int) -> None:
        self.seen.append(token_id)


@pytest.fixture
def shelf(clock: FakeClock) -> Shelf:
    return Shelf(token(clock))


@pytest.fixture
def authenticator(shelf: Shelf, clock: FakeClock) -> Authenticator:
    return Authenticator(Mode.TOKEN, clock, shelf.find, shelf.saw)


async def test_a_token_names_its_tenant_and_powers(authenticator: Authenticator) -> None:
    principal = await authenticator.principal(f"Bearer {SECRET}")

    assert principal == Principal(TenantId(7), frozenset({Scope.SEND}), "orders-*", "ci")


@pytest.mark.parametrize(
    "header",
    ["Bearer nonsense", "Bearer {secret}x", "Basic {secret}", "Bearer pst_{prefix}_", "Bearer", "x", "Bearer pst_a_b"],
)
async def test_anything_else_is_refused_after_a_look_up(
    header: str, authenticator: Authenticator, shelf: Shelf
) -> None:
    with pytest.raises(Forbidden, match="unknown, expired or revoked"):
        await authenticator.principal(header.format(secret=SECRET, prefix=PREFIX))
    assert len(shelf.asked) == 1


@pytest.mark.parametrize("mode", Mode)
async def test_no_header_is_refused_in_every_mode(mode: Mode, clock: FakeClock, shelf: Shelf) -> None:
    with pytest.raises(Forbidden, match="required"):
        await Authenticator(mode, clock, shelf.find, shelf.saw).principal(None)


async def test_open_mode_lets_any_header_pass(clock: FakeClock, shelf: Shelf) -> None:
    principal = await Authenticator(Mode.OPEN, clock, shelf.find, shelf.saw).principal("anything")

    assert principal.tenant == DEFAULT_TENANT
    assert shelf.asked == []


async def test_expired_and_revoked_tokens_are_refused(
    authenticator: Authenticator, shelf: Shelf, clock: FakeClock
) -> None:
    for ended in (
        replace(token(clock), expires_at=clock.now()),
        replace(token(clock), revoked_at=clock.now()),
    ):
        shelf.tokens = [ended]
        with pytest.raises(Forbidden):
            await authenticator.principal(f"Bearer {SECRET}")


async def test_a_verdict_is_remembered_only_briefly(
    authenticator: Authenticator, shelf: Shelf, clock: FakeClock
) -> None:
    await authenticator.principal(f"Bearer {SECRET}")
    shelf.tokens = []
    await authenticator.principal(f"Bearer {SECRET}")

    clock.advance(seconds=auth.REMEMBER_S)

    with pytest.raises(Forbidden):
        await authenticator.principal(f"Bearer {SECRET}")


async def test_use_is_noted_once_a_minute(authenticator: Authenticator, shelf: Shelf, clock: FakeClock) -> None:
    for _ in range(3):
        await authenticator.principal(f"Bearer {SECRET}")
        clock.advance(seconds=auth.REMEMBER_S)
    assert shelf.seen == [1]

    clock.advance(seconds=timedelta(seconds=auth.SEEN_S).total_seconds())
    await authenticator.principal(f"Bearer {SECRET}")

    assert shelf.seen == [1, 1]


def test_scopes_and_queues_bound_what_a_principal_may_do() -> None:
    principal = Principal(TenantId(7), frozenset({Scope.SEND}), "orders-*")

    principal.require(Scope.SEND, "orders-eu")
    with pytest.raises(Forbidden):
        principal.require(Scope.RECEIVE, "orders-eu")
    with pytest.raises(Forbidden):
        principal.require(Scope.SEND, "invoices")
    Principal(TenantId(7), frozenset({Scope.ADMIN})).require(Scope.MANAGE, "invoices")


async def test_an_access_key_is_no_token(authenticator: Authenticator, shelf: Shelf, clock: FakeClock) -> None:
    secret, key_id, sha256 = auth.new_aws_secret()
    text = f"pst_{key_id}_{secret}"
    for kept in (sha256, auth.digest(text)):
        shelf.tokens = [replace(token(clock), prefix=key_id, sha256=kept, aws_secret=secret)]
        for offered in (secret, key_id, text):
            with pytest.raises(Forbidden):
                await authenticator.principal(f"Bearer {offered}")


async def test_sigv4_mode_takes_tokens_at_other_doors(clock: FakeClock, shelf: Shelf) -> None:
    authenticator = Authenticator(Mode.SIGV4, clock, shelf.find, shelf.saw)

    assert (await authenticator.principal(f"Bearer {SECRET}")).tenant == TenantId(7)
    with pytest.raises(Forbidden):
        await authenticator.principal("anything")


def test_an_access_key_looks_like_one_of_aws() -> None:
    secret, key_id, kept = auth.new_aws_secret()

    assert re.fullmatch(r"PSAK[A-Z0-9]{16}", key_id)
    assert re.fullmatch(r"[A-Za-z0-9+/]{40}", secret)
    assert kept == auth.digest(secret)


def test_the_text_of_a_token_is_not_what_is_kept() -> None:
    text, prefix, kept = auth.new_secret()

    assert prefix in text
    assert text.encode() not in kept
    assert kept == auth.digest(text)
    assert auth.prefix_of(text) == prefix

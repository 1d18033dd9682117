"""One caller's requests wait behind each other while another caller is active."""

from __future__ import annotations

import asyncio

import pytest

from penstock.auth import Mode
from penstock.errors import RateLimited
from penstock.model import DEFAULT_TENANT, Scope
from penstock.wire.http import turns as module
from penstock.wire.http.limits import HttpLimits
from penstock.wire.http.messages import Request
from penstock.wire.http.turns import Turns, caller_of
from tests.wire.conftest import running
from tests.wire.http.parts import traffic, until
from tests.wire.raw import connected, request


def test_a_caller_that_is_alone_is_not_in_a_crowd() -> None:
    turns = Turns()
    seen: list[bool] = []
    for caller in (1, 1, 2, 2, 2):
        turns.note(caller)
        seen.append(turns.crowded)
        turns.sweep()

    assert seen == [False, False, True, False, False]


async def test_what_is_beyond_the_limit_waits_for_its_turn_in_order() -> None:
    turns = Turns(at_once=1)
    first = await turns.take(1)
    order: list[int] = []

    async def wait(number: int) -> None:
        turn = await turns.take(1)
        order.append(number)
        turn.end()

    waiting = [asyncio.create_task(wait(number)) for number in range(3)]
    (await turns.take(2)).end()  # others do not wait for it
    await asyncio.sleep(0)
    assert order == []
    first.end()
    first.end()
    await asyncio.gather(*waiting)

    assert order == [0, 1, 2]
    assert (turns._running, turns._lines) == ({}, {})


async def test_a_large_request_counts_as_several() -> None:
    def sized(count: int) -> Request:
        made = Request("POST", "/", b"", [], True)
        made.body = bytes(module.BYTES * (count - 1))
        return made

    turns = Turns(at_once=4)
    large = await turns.take(1, sized(9))  # nothing else runs
    waiting = [asyncio.create_task(turns.take(1, sized(count))) for count in (3, 1, 2)]
    await asyncio.sleep(0)
    assert turns.take_now(1) is None
    assert not any(task.done() for task in waiting)
    large.end()
    await asyncio.sleep(0)
    assert [task.done() for task in waiting] == [True, True, False]
    (await waiting[0]).end()

    for task in waiting[1:]:
        (await task).end()
    assert (turns._running, turns._lines) == ({}, {})


async def test_what_waits_too_long_is_refused() -> None:
    turns = Turns(at_once=1, wait_s=0.01)
    turn = await turns.take(1)

    with pytest.raises(RateLimited):
        await turns.take(1)
    turn.end()
    (await turns.take(1)).end()
    assert (turns._running, turns._lines) == ({}, {})


@pytest.mark.parametrize("came", [False, True])
async def test_a_turn_of_a_client_that_left_goes_to_the_next(came: bool) -> None:
    turns = Turns(at_once=1)
    turn = await turns.take(1)
    gone = asyncio.create_task(turns.take(1))
    following = asyncio.create_task(turns.take(1))
    await asyncio.sleep(0)
    if came:
        turn.end()
    gone.cancel()
    if not came:
        await asyncio.sleep(0)
        turn.end()
    (await asyncio.wait_for(following, 1)).end()

    assert (turns._running, turns._lines) == ({}, {})


@pytest.mark.parametrize("on_purpose", [True, False])
async def test_a_request_that_waits_gives_its_turn_away(on_purpose: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOCKED_S", 60 if on_purpose else 0.01)
    turns, waiting = Turns(at_once=1), Request("GET", "/", b"", [], True)
    await turns.take(1, waiting)
    waiting.wait_s = 20.0 if on_purpose else 0.0

    (await asyncio.wait_for(turns.take(1), 1)).end()


async def test_a_caller_that_is_alone_has_turns_when_too_much_is_in_flight(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.wire.http.protocol.ALONE", 0)
    async with running(Mode.TOKEN, limits=HttpLimits(turns=True)) as live:
        _, token = await live.engine.tenants.create_token(DEFAULT_TENANT, "a", frozenset(Scope))
        traffic(live).turns = turns = Turns(at_once=1, wait_s=0.05)
        await turns.take(hash(f"Bearer {token}".encode()))
        async with connected(live.port) as raw:
            assert (await raw.ask(request("GET", "/v1/queues", auth=f"Bearer {token}"))).status == 429


def test_a_signed_caller_is_its_key_and_its_address() -> None:
    def caller(header: bytes, address: str) -> int | None:
        made = Request("GET", "/", b"", [(b"authorization", header)], True)
        made.client = (address, 1)
        return caller_of(made)

    signed = b"AWS4-HMAC-SHA256 Credential=AKID/20260101/us-east-1/sqs/aws4_request, SignedHeaders=host, Signature=%b"
    assert caller(signed % b"1", "::1") == caller(signed % b"2", "::1") != caller(signed % b"1", "::2")
    assert caller(b"Bearer a", "::1") == caller(b"Bearer a", "::2") != caller(b"Bearer b", "::1")
    assert caller_of(Request("GET", "/", b"", [], True)) is None


async def test_requests_of_a_busy_caller_are_refused_and_others_are_served() -> None:
    async with running(Mode.TOKEN, limits=HttpLimits(turns=True)) as live:
        tokens = [(await live.engine.tenants.create_token(DEFAULT_TENANT, name, frozenset(Scope)))[1] for name in "ab"]
        traffic(live).turns = turns = Turns(at_once=1, wait_s=0.01)
        ask = [request("GET", "/v1/queues", auth=f"Bearer {token}") for token in tokens]
        async with connected(live.port) as one, connected(live.port) as other:
            assert [(await one.ask(each)).status for each in ask] == [200, 200]
            await until(lambda: turns._running == {})
            await turns.take(hash(f"Bearer {tokens[0]}".encode()))
            refused = await one.ask(ask[0])
            served = await other.ask(ask[1])

    assert (refused.status, refused.headers["retry-after"]) == (429, "1")
    assert served.status == 200

"""Who may use a private queue: signatures, their time, and that each works once."""

from __future__ import annotations

import secrets
from time import perf_counter

import pytest

from penstock.client.private import new_key, public_key
from penstock.clock import FakeClock
from penstock.engine import Engine
from penstock.engine.private.signatures import SeenRequests
from penstock.errors import Forbidden
from penstock.model.private import Party
from tests.store.private.keys import KEY, PUBLIC, sign


async def test_the_right_key_is_admitted_and_no_other(node: Engine, clock: FakeClock) -> None:
    made = await node.private.create(PUBLIC)

    assert await node.private.admit(Party.RECIPIENT, made.recipient_id, sign(KEY, clock)) == made
    for proof in (None, sign(new_key(), clock)):
        with pytest.raises(Forbidden):
            await node.private.admit(Party.RECIPIENT, made.recipient_id, proof)


async def test_anyone_may_send_until_the_queue_is_secured(node: Engine, clock: FakeClock) -> None:
    made = await node.private.create(PUBLIC)
    key = new_key()

    assert await node.private.admit(Party.SENDER, made.sender_id, None) == made
    await node.private.secure_as_sender(made.sender_id, public_key(key), sign(key, clock))

    with pytest.raises(Forbidden):
        await node.private.admit(Party.SENDER, made.sender_id, None)
    assert (await node.private.admit(Party.SENDER, made.sender_id, sign(key, clock))).number == made.number
    late = new_key()
    with pytest.raises(Forbidden):
        await node.private.secure_as_sender(made.sender_id, public_key(late), sign(late, clock))


async def test_a_sender_secures_only_with_a_key_it_holds(node: Engine, clock: FakeClock) -> None:
    made = await node.private.create(PUBLIC)

    with pytest.raises(Forbidden):
        await node.private.secure_as_sender(made.sender_id, PUBLIC, sign(new_key(), clock))


async def test_every_key_of_the_recipient_is_good(node: Engine, clock: FakeClock) -> None:
    second = new_key()
    made = await node.private.set_recipient_keys(await node.private.create(PUBLIC), [PUBLIC, public_key(second)])

    for key in (KEY, second):
        assert await node.private.admit(Party.RECIPIENT, made.recipient_id, sign(key, clock)) == made


async def test_a_request_is_good_once_and_in_its_time(node: Engine, clock: FakeClock) -> None:
    made = await node.private.create(PUBLIC)
    proof = sign(KEY, clock)
    moment = int(clock.now().timestamp())

    await node.private.admit(Party.RECIPIENT, made.recipient_id, proof)

    for refused in (proof, sign(KEY, clock, seconds=moment - 301), sign(KEY, clock, seconds=moment + 301)):
        with pytest.raises(Forbidden):
            await node.private.admit(Party.RECIPIENT, made.recipient_id, refused)
    await node.private.admit(Party.RECIPIENT, made.recipient_id, sign(KEY, clock, seconds=moment - 299))


def test_what_is_forgotten_cannot_be_repeated(clock: FakeClock) -> None:
    seen = SeenRequests(each=3)
    now = clock.now()
    moment = int(now.timestamp())
    proofs = [sign(KEY, clock, seconds=moment + second) for second in range(5)]

    assert [seen.accept(1, proof, now) for proof in proofs] == [True] * 5
    assert [seen.accept(1, proof, now) for proof in proofs] == [False] * 5
    assert seen.accept(2, proofs[0], now)


def test_a_flood_on_one_queue_harms_no_other(clock: FakeClock) -> None:
    seen = SeenRequests(most=10, each=5)
    now = clock.now()
    moment = int(now.timestamp())
    for _ in range(50):
        seen.accept(1, sign(KEY, clock, seconds=moment + 300), now)

    assert seen.accept(2, sign(KEY, clock), now)


async def test_refusals_take_about_the_same_time(node: Engine, clock: FakeClock) -> None:
    made = await node.private.secure(await node.private.create(PUBLIC), PUBLIC)
    deleted = await node.private.create(PUBLIC)
    await node.private.delete(deleted)
    unknown = secrets.token_bytes(24)
    stranger = new_key()

    async def least(party_id: bytes) -> float:
        times = []
        for _ in range(60):
            proof = sign(stranger, clock)
            start = perf_counter()
            with pytest.raises(Forbidden):
                await node.private.admit(Party.SENDER, party_id, proof)
            times.append(perf_counter() - start)
        return sorted(times)[5]

    taken = [await least(party_id) for party_id in (made.sender_id, deleted.sender_id, unknown)]
    assert max(taken) < 2 * min(taken)

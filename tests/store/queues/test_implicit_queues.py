"""Implicit queues: created by their first use; they number their messages and give up on poison."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.clock import FakeClock
from penstock.model import QueueSettings, Sent, TenantId
from penstock.store import Store
from tests.store.caller import Caller


@pytest.fixture
async def queue(caller: Caller) -> str:
    return await make(caller, "numbers")


async def make(caller: Caller, name: str, **settings: Any) -> str:
    await caller.store.create_queue(caller.tenant, name, QueueSettings(**settings), caller.clock.now(), implicit=True)
    return name


async def sequences(caller: Caller, *entries: tuple[str, str]) -> list[int | None]:
    sent = await caller.store.send_many([caller.entry(queue, body) for queue, body in entries], caller.clock.now())
    return [answer.sequence for answer in sent if isinstance(answer, Sent)]


async def test_a_queue_knows_whether_it_is_implicit(store: Store, tenant: TenantId, clock: FakeClock) -> None:
    await store.create_queue(tenant, "made", QueueSettings(), clock.now())
    first, created = await store.create_queue(tenant, "used", QueueSettings(), clock.now(), implicit=True)
    again, created_again = await store.create_queue(tenant, "used", QueueSettings(), clock.now(), implicit=True)

    assert (created, created_again) == (True, False)
    assert first == again == await store.get_queue(tenant, "used")
    assert [(found.name, found.implicit) for found in await store.list_queues(tenant)] == [
        ("made", False),
        ("used", True),
    ]


async def test_a_queue_that_exists_does_not_become_implicit(store: Store, tenant: TenantId, clock: FakeClock) -> None:
    await store.create_queue(tenant, "made", QueueSettings(), clock.now())

    found, created = await store.create_queue(tenant, "made", QueueSettings(max_length=1), clock.now(), implicit=True)

    assert (found.implicit, found.settings.max_length, created) == (False, None, False)


async def test_each_implicit_queue_counts_its_own_messages_from_one(caller: Caller, queue: str) -> None:
    other = await make(caller, "others")

    mixed = await sequences(caller, (queue, "a"), (other, "b"), (queue, "c"), (queue, "d"), (other, "e"))
    later = await sequences(caller, (queue, "f"))

    assert (mixed, later) == ([1, 1, 2, 3, 2], [4])


async def test_a_received_or_peeked_message_has_its_number(caller: Caller, queue: str) -> None:
    await caller.send(queue, "a", "b")

    [peeked] = await caller.store.peek(caller.tenant, queue, 1, caller.clock.now())
    found = await caller.receive(queue, 2)

    assert peeked.sequence == 1
    assert [message.sequence for message in found] == [1, 2]


async def test_other_queues_do_not_number_their_messages(caller: Caller) -> None:
    queue = await caller.make_queue()

    assert await sequences(caller, (queue, "a")) == [None]
    assert (await caller.receive_one(queue)).sequence is None


async def test_numbers_go_on_after_a_purge(caller: Caller, queue: str) -> None:
    await caller.send(queue, "a", "b")
    await caller.store.purge_queue(caller.tenant, queue)

    assert await sequences(caller, (queue, "c")) == [3]


async def test_what_is_refused_takes_no_number(caller: Caller) -> None:
    queue = await make(caller, "short", max_length=2, max_message_bytes=3)

    await caller.send_one(queue, "large")
    await caller.send_one(queue, "a", dedup_id="same")
    repeated = await caller.send_one(queue, "a", dedup_id="same")
    last = await caller.send_one(queue, "b")
    await caller.send_one(queue, "c")
    await caller.delete(queue, *await caller.receive(queue, 2))
    next_one = await caller.send_one(queue, "d")

    assert isinstance(repeated, Sent)
    assert repeated.duplicate
    assert [answer.sequence for answer in (last, next_one) if isinstance(answer, Sent)] == [2, 3]


async def test_a_dead_letter_keeps_its_number(caller: Caller, queue: str) -> None:
    grave = await make(caller, "grave")
    await caller.send(queue, "a", "b")
    await caller.receive(queue, 2, visibility_timeout_s=0)

    assert await caller.receive(queue, max_receives=1, dead_letter_queue=grave) == []
    assert sorted(message.sequence or 0 for message in await caller.receive(grave, 2)) == [1, 2]


async def test_poison_is_swept_from_implicit_queues_alone(caller: Caller, queue: str) -> None:
    made = await caller.make_queue()
    for name in (queue, made):
        await caller.send(name, "poison", priority=200)
        for _ in range(3):
            await caller.receive(name, visibility_timeout_s=0)
        await caller.send(name, "fresh")

    removed = await caller.store.sweep_poison(3, caller.clock.now(), 100)

    # Other tests share the database, and their poison may go with ours.
    assert removed >= 1
    assert await caller.peek(queue) == ["fresh"]
    assert await caller.peek(made) == ["poison", "fresh"]
    counts = {
        found.queue: found.total
        for _, found in await caller.store.queue_counts(caller.tenant, None, caller.clock.now())
    }
    assert counts == {queue: 1, made: 2}


async def test_poison_in_flight_is_left_until_it_comes_back(caller: Caller, queue: str) -> None:
    await caller.send(queue, "poison")
    await caller.receive(queue, visibility_timeout_s=0)
    await caller.receive(queue, visibility_timeout_s=30)

    await caller.store.sweep_poison(2, caller.clock.now(), 1000)
    held = await caller.store.queue_counts(caller.tenant, [queue], caller.clock.now())
    caller.clock.advance(seconds=31)
    await caller.store.sweep_poison(2, caller.clock.now(), 1000)
    after = await caller.store.queue_counts(caller.tenant, [queue], caller.clock.now())

    assert (held[0][1].total, after[0][1].total) == (1, 0)

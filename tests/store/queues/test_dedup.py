"""Deduplication: a second send within the window stores nothing and answers the first."""

from __future__ import annotations

import hashlib

import pytest

from penstock.errors import Invalid, QueueFull
from penstock.model import DedupScope, Sent
from tests.store.caller import Caller, failed
from tests.store.conftest import MakeQueue


@pytest.mark.parametrize("fifo", [False, True])
async def test_a_second_send_with_the_same_id_stores_nothing(caller: Caller, make_queue: MakeQueue, fifo: bool) -> None:
    queue = await make_queue(fifo=fifo)
    [first] = await caller.send(queue, "a", dedup_id="once", group_id="g")

    again = await caller.send_one(queue, "b", dedup_id="once", group_id="g")

    assert again == Sent(first, duplicate=True)
    assert [(m.body, m.dedup_id) for m in await caller.receive(queue, 10)] == [("a", "once")]


async def test_the_id_outlives_the_message(caller: Caller, make_queue: MakeQueue) -> None:
    queue = await make_queue()
    [first] = await caller.send(queue, "a", dedup_id="once")
    await caller.delete(queue, await caller.receive_one(queue))

    assert await caller.send_one(queue, "a", dedup_id="once") == Sent(first, duplicate=True)
    assert (await caller.counts(queue)).total == 0


async def test_the_id_is_free_after_the_window(caller: Caller, make_queue: MakeQueue) -> None:
    queue = await make_queue(dedup_window_s=10)
    [first] = await caller.send(queue, "a", dedup_id="once")

    caller.clock.advance(seconds=9)
    assert await caller.send_one(queue, "b", dedup_id="once") == Sent(first, duplicate=True)
    caller.clock.advance(seconds=1)
    [second] = await caller.send(queue, "c", dedup_id="once")
    assert second > first
    caller.clock.advance(seconds=9)
    assert await caller.send_one(queue, "d", dedup_id="once") == Sent(second, duplicate=True)
    assert await caller.bodies(queue) == ["a", "c"]


async def test_the_messages_window_wins_over_the_queues(caller: Caller, make_queue: MakeQueue) -> None:
    queue = await make_queue(dedup_window_s=10)
    [first] = await caller.send(queue, "a", dedup_id="once", dedup_window_s=60)

    caller.clock.advance(seconds=59)
    assert await caller.send_one(queue, "b", dedup_id="once", dedup_window_s=1) == Sent(first, duplicate=True)
    caller.clock.advance(seconds=1)
    assert isinstance(await caller.send_one(queue, "c", dedup_id="once"), Sent)
    assert await caller.bodies(queue) == ["a", "c"]


async def test_duplicates_within_one_batch_are_found(caller: Caller, make_queue: MakeQueue) -> None:
    queue, other = await make_queue(), await make_queue()
    entries = [caller.entry(name, body, dedup_id="once") for name, body in ((queue, "a"), (other, "b"), (queue, "c"))]

    first, second, third = await caller.store.send_many(entries, caller.clock.now())

    assert isinstance(first, Sent)
    assert third == Sent(first.id, duplicate=True)
    assert isinstance(second, Sent)
    assert not second.duplicate
    assert (await caller.bodies(queue), await caller.bodies(other)) == (["a"], ["b"])


async def test_a_duplicate_is_no_message_too_many(caller: Caller, make_queue: MakeQueue) -> None:
    queue = await make_queue(max_length=1)
    [first] = await caller.send(queue, "a", dedup_id="once")

    assert await caller.send_one(queue, "b", dedup_id="once") == Sent(first, duplicate=True)
    assert failed(await caller.send_one(queue, "b", dedup_id="other"), QueueFull)
    await caller.delete(queue, first)
    assert isinstance(await caller.send_one(queue, "b", dedup_id="other"), Sent)


async def test_a_refused_message_leaves_its_id_free(caller: Caller, make_queue: MakeQueue) -> None:
    queue = await make_queue(max_length=1)
    [blocker] = await caller.send(queue, "blocker")
    await caller.send_one(queue, "a", dedup_id="once")
    await caller.delete(queue, blocker)

    await caller.send(queue, "a", dedup_id="once")

    assert await caller.bodies(queue) == ["a"]


async def test_a_fifo_queue_needs_an_id_or_the_content(caller: Caller, make_queue: MakeQueue) -> None:
    queue = await make_queue(fifo=True)

    answer = await caller.send_one(queue, "a", group_id="g", dedup_id=None)

    assert failed(answer, Invalid, "dedup_id")


async def test_content_is_its_own_id(caller: Caller, make_queue: MakeQueue) -> None:
    queue = await make_queue(fifo=True, content_dedup=True)
    [first] = await caller.send(queue, "ä", group_id="g", dedup_id=None)

    again = await caller.send_one(queue, "ä", group_id="h", dedup_id=None)
    named = await caller.send_one(queue, "ä", group_id="g", dedup_id="named")

    assert again == Sent(first, duplicate=True)
    assert isinstance(named, Sent)
    assert not named.duplicate
    digest = hashlib.sha256("ä".encode()).hexdigest()
    assert [message.dedup_id for message in await caller.receive(queue, 10)] == [digest, "named"]


async def test_a_standard_queue_does_not_compare_content(caller: Caller, make_queue: MakeQueue) -> None:
    queue = await make_queue(content_dedup=True)
    await caller.send(queue, "a", "a")

    assert await caller.bodies(queue) == ["a", "a"]


async def test_ids_may_be_unique_per_group(caller: Caller, make_queue: MakeQueue) -> None:
    queue = await make_queue(fifo=True, dedup_scope=DedupScope.GROUP)
    [first] = await caller.send(queue, "a", group_id="a", dedup_id="once")
    await caller.send(queue, "b", group_id="b", dedup_id="once")

    assert await caller.send_one(queue, "c", group_id="a", dedup_id="once") == Sent(first, duplicate=True)
    assert await caller.bodies(queue) == ["a", "b"]


async def test_ids_are_unique_per_queue_otherwise(caller: Caller, make_queue: MakeQueue) -> None:
    queue = await make_queue(fifo=True)
    [first] = await caller.send(queue, "a", group_id="a", dedup_id="once")

    assert await caller.send_one(queue, "b", group_id="b", dedup_id="once") == Sent(first, duplicate=True)


async def test_a_purge_forgets_the_history(caller: Caller, make_queue: MakeQueue) -> None:
    queue = await make_queue()
    await caller.send(queue, "a", dedup_id="once")
    await caller.store.purge_queue(caller.tenant, queue)

    await caller.send(queue, "b", dedup_id="once")

    assert await caller.bodies(queue) == ["b"]


async def test_a_sweep_keeps_the_ids_still_in_their_window(caller: Caller, make_queue: MakeQueue) -> None:
    queue = await make_queue()
    await caller.send(queue, "a", dedup_id="short", dedup_window_s=5)
    [kept] = await caller.send(queue, "b", dedup_id="long", dedup_window_s=60)
    caller.clock.advance(seconds=5)

    await caller.sweep()

    assert await caller.send_one(queue, "c", dedup_id="long") == Sent(kept, duplicate=True)
    assert isinstance(await caller.send_one(queue, "d", dedup_id="short"), Sent)
    assert await caller.bodies(queue) == ["a", "b", "d"]

"""Dead letters: messages received too often go elsewhere, and the good ones behind them come."""

from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

import pytest

from penstock.errors import QueueNotFound
from penstock.model import Message, Outcome
from tests.store.caller import Caller, failed
from tests.store.conftest import MakeQueue


async def fail(caller: Caller, queue: str, times: int, limit: int = 1) -> Message:
    """Receive and give up so many times; the first message of the last receive."""
    for _ in range(times):
        messages = await caller.receive(queue, limit, visibility_timeout_s=1)
        caller.clock.advance(seconds=1)
    return messages[0]


async def test_a_message_moves_on_the_receive_that_would_be_one_too_many(caller: Caller, make_queue: MakeQueue) -> None:
    dead = await make_queue("dead")
    queue = await make_queue("orders", max_receives=2, dead_letter_queue=dead)
    await caller.send(queue, "poison", attributes='{"a": 1}', headers='{"h": 1}', trace="t", json=True)
    last = await fail(caller, queue, 2)
    assert await caller.bodies(dead) == []

    assert await caller.bodies(queue) == []

    letter = await caller.receive_one(dead)
    assert (letter.id, letter.body, letter.sent_at) == (last.id, "poison", last.sent_at)
    assert (letter.attributes, letter.headers, letter.trace, letter.json) == ('{"a": 1}', '{"h": 1}', "t", True)
    assert (letter.receives, letter.dead_letter_source) == (3, "orders")
    assert letter.lease > last.lease
    assert (await caller.state(queue), await caller.state(dead)) == ((0, 0, 0), (0, 1, 0))


async def test_a_receive_steps_over_poison_to_the_good_messages_behind(caller: Caller, make_queue: MakeQueue) -> None:
    dead = await make_queue()
    queue = await make_queue(max_receives=1, dead_letter_queue=dead)
    await caller.send(queue, *(f"bad-{number}" for number in range(5)))
    await fail(caller, queue, 1, limit=5)
    await caller.send(queue, "good-1", "good-2")

    assert await caller.bodies(queue, 2) == ["good-1", "good-2"]
    assert await caller.bodies(dead) == [f"bad-{number}" for number in range(5)]


async def test_a_timeout_of_zero_counts_towards_the_limit(caller: Caller, make_queue: MakeQueue) -> None:
    dead = await make_queue()
    queue = await make_queue(max_receives=2, dead_letter_queue=dead)
    await caller.send(queue, "a")

    seen = [await caller.bodies(queue, visibility_timeout_s=0) for _ in range(3)]

    assert seen == [["a"], ["a"], []]
    assert await caller.bodies(dead) == ["a"]


async def test_a_dead_letter_keeps_its_deadline(caller: Caller, make_queue: MakeQueue) -> None:
    dead = await make_queue(retention_s=1000)
    queue = await make_queue(max_receives=1, dead_letter_queue=dead, retention_s=100)
    await caller.send(queue, "a")
    await fail(caller, queue, 1)
    await caller.receive(queue)
    assert await caller.peek(dead) == ["a"]

    caller.clock.advance(seconds=99)

    assert await caller.peek(dead) == []


async def test_a_receipt_from_before_the_move_is_dead(caller: Caller, make_queue: MakeQueue) -> None:
    dead = await make_queue()
    queue = await make_queue(max_receives=1, dead_letter_queue=dead)
    await caller.send(queue, "a")
    old = await fail(caller, queue, 1)
    await caller.receive(queue)

    assert await caller.delete(queue, old, old.id) == [Outcome.ABSENT, Outcome.ABSENT]
    assert await caller.delete(dead, old) == [Outcome.STALE]
    assert await caller.bodies(dead) == ["a"]


async def test_without_its_dead_letter_queue_a_message_stays_receivable(caller: Caller, make_queue: MakeQueue) -> None:
    dead = await make_queue()
    queue = await make_queue(max_receives=1, dead_letter_queue=dead)
    await caller.send(queue, "a")
    await caller.store.drop_queue(caller.tenant, dead)

    await fail(caller, queue, 3)

    assert [(m.body, m.receives) for m in await caller.receive(queue)] == [("a", 4)]


async def test_a_full_dead_letter_queue_of_the_queues_policy_loses_nothing(
    caller: Caller, make_queue: MakeQueue
) -> None:
    dead = await make_queue(max_length=1)
    queue = await make_queue(max_receives=1, dead_letter_queue=dead)
    await caller.send(dead, "there first")
    await caller.send(queue, "a")
    await fail(caller, queue, 1)

    await caller.receive(queue)

    assert await caller.bodies(dead) == ["there first", "a"]


async def test_a_request_may_bring_its_own_policy(caller: Caller, make_queue: MakeQueue) -> None:
    queue, dead = await make_queue(), await make_queue()
    await caller.send(queue, "poison", "good")
    last = await fail(caller, queue, 2)

    assert await caller.bodies(queue, max_receives=2, dead_letter_queue=dead) == ["good"]

    letter = await caller.receive_one(dead)
    assert (letter.id, letter.body, letter.receives) == (last.id, "poison", 1)
    assert letter.lease > last.lease
    assert letter.dead_letter_source == queue


async def test_a_requests_limit_without_a_queue_deletes(caller: Caller, make_queue: MakeQueue) -> None:
    queue = await make_queue()
    await caller.send(queue, "poison", "good")
    await fail(caller, queue, 2)

    assert await caller.bodies(queue, max_receives=2) == ["good"]
    assert (await caller.counts(queue)).total == 1


async def test_a_requests_limit_wins_over_the_queues(caller: Caller, make_queue: MakeQueue) -> None:
    dead, other = await make_queue(), await make_queue()
    queue = await make_queue(max_receives=1, dead_letter_queue=dead)
    await caller.send(queue, "a")
    await fail(caller, queue, 1)

    assert await caller.bodies(queue, max_receives=5, dead_letter_queue=other, visibility_timeout_s=0) == ["a"]
    assert await caller.bodies(queue) == []
    assert (await caller.peek(dead), await caller.peek(other)) == (["a"], [])


async def test_a_full_dead_letter_queue_of_the_request_deletes_and_warns(
    caller: Caller, make_queue: MakeQueue, caplog: pytest.LogCaptureFixture
) -> None:
    queue, dead = await make_queue(f"work-{uuid4().hex}"), await make_queue("dead", max_length=1)
    await caller.send(queue, "a", "b", "c")
    await fail(caller, queue, 1, limit=3)

    assert await caller.bodies(queue, max_receives=1, dead_letter_queue=dead) == []

    assert len(await caller.bodies(dead)) == 1
    assert (await caller.counts(queue)).total == 0
    told = f"Dead-letter queue 'dead' is full: messages of queue '{queue}' that were received too often are deleted"
    assert [record.getMessage() for record in caplog.records if queue in record.getMessage()] == [told]


async def test_a_requests_dead_letter_queue_must_exist(caller: Caller, make_queue: MakeQueue) -> None:
    queue = await make_queue()
    await caller.send(queue, "a")
    await fail(caller, queue, 1)

    assert failed(await caller.ask(queue, max_receives=1, dead_letter_queue="absent"), QueueNotFound)

    assert [(m.body, m.receives) for m in await caller.receive(queue)] == [("a", 2)]


async def test_a_poison_head_leaves_its_group_and_the_group_goes_on(caller: Caller, make_queue: MakeQueue) -> None:
    dead = await make_queue("dead.fifo")
    queue = await make_queue("orders.fifo", max_receives=1, dead_letter_queue=dead)
    await caller.send(queue, "a1", "a2", group_id="a")
    await caller.send(queue, "b1", group_id="b")
    await fail(caller, queue, 1)

    assert sorted(await caller.bodies(queue)) == ["a2", "b1"]

    letter = await caller.receive_one(dead)
    assert (letter.body, letter.group_id, letter.dead_letter_source) == ("a1", "a", "orders.fifo")


@pytest.mark.parametrize("limit", [1, 2, 10])
async def test_dead_letters_of_a_group_keep_their_order(caller: Caller, make_queue: MakeQueue, limit: int) -> None:
    dead = await make_queue("dead.fifo")
    queue = await make_queue("orders.fifo", max_receives=1, dead_letter_queue=dead)
    await caller.send(queue, "a1", "a2", "a3", "a4", group_id="a")
    await fail(caller, queue, 1, limit=3)

    assert await caller.bodies(queue, limit) == ["a4"]

    assert await caller.bodies(dead, 2) == ["a1", "a2"]
    assert await caller.bodies(dead) == []


async def test_an_older_letter_goes_before_a_younger_one_of_its_group(caller: Caller, make_queue: MakeQueue) -> None:
    dead = await make_queue("dead.fifo")
    queue = await make_queue("orders.fifo", max_receives=1, dead_letter_queue=dead)
    await caller.send(queue, "old", group_id="a")
    await caller.send(dead, "young", group_id="a")
    await fail(caller, queue, 1)
    await caller.receive(queue)

    assert await caller.bodies(dead) == ["old", "young"]


async def test_a_letter_is_hidden_and_deleted_like_any_message(caller: Caller, make_queue: MakeQueue) -> None:
    dead = await make_queue()
    queue = await make_queue(max_receives=1, dead_letter_queue=dead)
    await caller.send(queue, "a")
    await fail(caller, queue, 1)
    await caller.receive(queue)
    letter = await caller.receive_one(dead)

    assert await caller.hide(dead, letter, 60) == (Outcome.DONE, caller.clock.now() + timedelta(seconds=60))
    assert await caller.delete(dead, letter) == [Outcome.DONE]
    assert (await caller.state(queue), await caller.state(dead)) == ((0, 0, 0), (0, 0, 0))

"""FIFO queues: order within a group, one batch in flight per group."""

from __future__ import annotations

from datetime import timedelta

import pytest

from penstock.errors import Invalid
from penstock.limits import DEFAULT_PRIORITY
from penstock.model import Outcome, Receive
from tests.store.caller import Caller, failed, received
from tests.store.conftest import MakeQueue


@pytest.fixture
async def queue(make_queue: MakeQueue) -> str:
    return await make_queue(fifo=True)


async def test_a_group_is_required(caller: Caller, queue: str) -> None:
    assert failed(await caller.send_one(queue, "a"), Invalid, "group_id")
    assert (await caller.counts(queue)).total == 0


async def test_a_group_comes_in_order(caller: Caller, queue: str) -> None:
    for body in "abc":
        await caller.send(queue, body, group_id="g")

    assert await caller.bodies(queue) == ["a", "b", "c"]


async def test_priority_does_not_disturb_the_order(caller: Caller, queue: str) -> None:
    await caller.send(queue, "a", group_id="g", priority=1)
    await caller.send(queue, "b", group_id="h", priority=1000)
    await caller.send(queue, "c", group_id="g", priority=1000)

    messages = await caller.receive(queue, 10)

    assert [message.body for message in messages] == ["a", "c", "b"]
    assert {message.priority for message in messages} == {DEFAULT_PRIORITY}


async def test_a_receive_takes_as_many_of_one_group_as_fit_then_the_next(caller: Caller, queue: str) -> None:
    for body, group in (("a1", "a"), ("b1", "b"), ("a2", "a"), ("b2", "b"), ("a3", "a"), ("c1", "c")):
        await caller.send(queue, body, group_id=group)

    assert await caller.bodies(queue, 4) == ["a1", "a2", "a3", "b1"]
    assert await caller.bodies(queue, 4) == ["c1"]


async def test_a_group_with_a_message_in_flight_is_locked_whole(caller: Caller, queue: str) -> None:
    await caller.send(queue, "a1", "a2", "a3", group_id="a")
    [held] = await caller.receive(queue)

    await caller.send(queue, "a4", group_id="a")
    await caller.send(queue, "b1", group_id="b")

    assert await caller.bodies(queue) == ["b1"]
    assert await caller.bodies(queue) == []
    assert await caller.delete(queue, held) == [Outcome.DONE]
    assert await caller.bodies(queue) == ["a2", "a3", "a4"]


async def test_a_group_opens_when_its_last_message_in_flight_is_gone(caller: Caller, queue: str) -> None:
    await caller.send(queue, "a1", "a2", "a3", group_id="a")
    [first, second] = await caller.receive(queue, 2)

    await caller.delete(queue, second)
    assert await caller.bodies(queue) == []
    await caller.delete(queue, first)
    assert await caller.bodies(queue) == ["a3"]


async def test_expired_leases_open_the_group_at_its_oldest_message(caller: Caller, queue: str) -> None:
    await caller.send(queue, "a1", "a2", "a3", group_id="a")
    await caller.receive(queue, 2, visibility_timeout_s=5)

    caller.clock.advance(seconds=5)

    assert await caller.bodies(queue) == ["a1", "a2", "a3"]


async def test_a_released_message_is_the_groups_next(caller: Caller, queue: str) -> None:
    await caller.send(queue, "a1", "a2", "a3", group_id="a")
    held = await caller.receive_one(queue)

    await caller.release(queue, held)

    assert [(m.body, m.receives) for m in await caller.receive(queue, 10)] == [("a1", 2), ("a2", 1), ("a3", 1)]


async def test_a_released_message_comes_before_what_is_still_in_flight(caller: Caller, queue: str) -> None:
    await caller.send(queue, "a1", "a2", "a3", group_id="a")
    [first, second] = await caller.receive(queue, 2)

    await caller.release(queue, first)

    [again] = await caller.receive(queue, 10)
    assert again.body == "a1"
    await caller.release(queue, second)
    assert await caller.bodies(queue) == []
    await caller.delete(queue, again)
    assert await caller.bodies(queue) == ["a2", "a3"]


async def test_a_message_in_flight_holds_up_all_after_it(caller: Caller, queue: str) -> None:
    await caller.send(queue, "a1", "a2", "a3", group_id="a")
    [first, second, third] = await caller.receive(queue, 3)

    await caller.release(queue, third)
    assert await caller.bodies(queue) == []
    await caller.release(queue, second)
    assert await caller.bodies(queue) == []
    await caller.release(queue, first)
    assert await caller.bodies(queue) == ["a1", "a2", "a3"]


async def test_leases_of_one_batch_may_end_at_different_times(caller: Caller, queue: str) -> None:
    await caller.send(queue, "a1", "a2", "a3", group_id="a")
    [first, second, _] = await caller.receive(queue, 3, visibility_timeout_s=10)
    await caller.hide(queue, second, 20)

    caller.clock.advance(seconds=10)
    [again] = await caller.receive(queue, 10, visibility_timeout_s=20)
    assert again.body == "a1"
    assert again.lease > first.lease
    assert received(await caller.ask(queue)).next_due_at == caller.clock.now() + timedelta(seconds=10)
    await caller.delete(queue, again)
    caller.clock.advance(seconds=10)
    assert await caller.bodies(queue) == ["a2", "a3"]


async def test_a_group_that_was_received_goes_to_the_end_of_the_line(caller: Caller, queue: str) -> None:
    for body in ("a1", "a2", "b1", "c1"):
        await caller.send(queue, body, group_id=body[0])
    assert await caller.bodies(queue, 2, visibility_timeout_s=10) == ["a1", "a2"]
    assert await caller.bodies(queue, 1, visibility_timeout_s=5) == ["b1"]

    caller.clock.advance(seconds=10)

    assert await caller.bodies(queue, visibility_timeout_s=0) == ["c1", "a1", "a2", "b1"]
    assert await caller.bodies(queue, 1) == ["c1"]


async def test_an_expired_lease_deletes_nothing(caller: Caller, queue: str) -> None:
    await caller.send(queue, "a1", "a2", group_id="a")
    held = await caller.receive_one(queue, visibility_timeout_s=5)
    caller.clock.advance(seconds=5)

    assert await caller.delete(queue, held) == [Outcome.EXPIRED]
    assert await caller.bodies(queue) == ["a1", "a2"]
    assert await caller.delete(queue, held) == [Outcome.STALE]


async def test_an_expired_lease_hides_nothing(caller: Caller, queue: str) -> None:
    await caller.send(queue, "a1", "a2", group_id="a")
    [_, second] = await caller.receive(queue, 2, visibility_timeout_s=5)
    caller.clock.advance(seconds=5)
    await caller.receive(queue, 1)

    assert await caller.hide(queue, second, 60) == (Outcome.EXPIRED, None)
    assert await caller.state(queue) == (1, 1, 0)


async def test_an_id_alone_deletes_from_the_middle_of_a_group(caller: Caller, queue: str) -> None:
    [first, second, _] = await caller.send(queue, "a1", "a2", "a3", group_id="a")

    assert await caller.delete(queue, second, first) == [Outcome.DONE, Outcome.DONE]
    assert await caller.bodies(queue) == ["a3"]


async def test_a_timeout_of_zero_does_not_lock_the_group(caller: Caller, queue: str) -> None:
    await caller.send(queue, "a1", "a2", group_id="a")

    assert await caller.bodies(queue, visibility_timeout_s=0) == ["a1", "a2"]
    assert [(m.body, m.receives) for m in await caller.receive(queue, 10)] == [("a1", 2), ("a2", 2)]


async def test_a_delayed_head_blocks_its_group(caller: Caller, queue: str) -> None:
    await caller.send(queue, "a1", group_id="a", delay_s=10)
    await caller.send(queue, "a2", group_id="a")
    await caller.send(queue, "b1", group_id="b")

    assert await caller.bodies(queue) == ["b1"]
    caller.clock.advance(seconds=10)
    assert await caller.bodies(queue) == ["a1", "a2"]


async def test_a_delayed_message_ends_what_its_group_can_give(caller: Caller, queue: str) -> None:
    await caller.send(queue, "a1", group_id="a")
    await caller.send(queue, "a2", group_id="a", delay_s=10)
    await caller.send(queue, "a3", group_id="a")

    held = await caller.receive(queue, 10)
    assert [message.body for message in held] == ["a1"]
    await caller.delete(queue, *held)
    assert await caller.bodies(queue) == []
    caller.clock.advance(seconds=10)
    assert await caller.bodies(queue) == ["a2", "a3"]


async def test_a_delay_that_ends_does_not_unlock_a_group(caller: Caller, queue: str) -> None:
    await caller.send(queue, "a1", group_id="a")
    await caller.send(queue, "a2", group_id="a", delay_s=10)
    held = await caller.receive_one(queue, visibility_timeout_s=30)

    caller.clock.advance(seconds=10)
    assert await caller.bodies(queue) == []
    await caller.delete(queue, held)
    assert await caller.bodies(queue) == ["a2"]


async def test_the_queues_delay_keeps_the_order(caller: Caller, make_queue: MakeQueue) -> None:
    queue = await make_queue(fifo=True, delay_s=10)
    await caller.send(queue, "a1", "a2", group_id="a")

    assert await caller.state(queue) == (0, 0, 2)
    caller.clock.advance(seconds=10)
    assert await caller.bodies(queue) == ["a1", "a2"]


async def test_messages_behind_their_group_count_as_visible(caller: Caller, queue: str) -> None:
    await caller.send(queue, "a1", "a2", "a3", group_id="a")
    await caller.receive(queue)

    assert await caller.state(queue) == (2, 1, 0)


async def test_an_expired_head_makes_way(caller: Caller, queue: str) -> None:
    await caller.send(queue, "a1", group_id="a", retention_s=60)
    await caller.send(queue, "a2", group_id="a")
    caller.clock.advance(seconds=60)

    assert await caller.peek(queue) == ["a2"]
    assert await caller.bodies(queue) == ["a2"]


async def test_an_expired_message_in_the_middle_is_stepped_over(caller: Caller, queue: str) -> None:
    await caller.send(queue, "a1", group_id="a")
    await caller.send(queue, "a2", group_id="a", retention_s=60)
    await caller.send(queue, "a3", group_id="a")
    caller.clock.advance(seconds=60)

    assert await caller.bodies(queue, 2) == ["a1", "a3"]


async def test_sweeping_a_head_lets_its_group_go_on(caller: Caller, queue: str) -> None:
    await caller.send(queue, "a1", group_id="a", retention_s=60)
    await caller.send(queue, "a2", group_id="a")
    await caller.send(queue, "b1", group_id="b", retention_s=60)
    await caller.send(queue, "b2", group_id="b")
    await caller.receive(queue, 1, visibility_timeout_s=1000)
    caller.clock.advance(seconds=60)

    await caller.sweep()

    assert await caller.state(queue) == (2, 0, 0)
    assert await caller.bodies(queue) == ["a2", "b2"]


async def test_peek_shows_what_a_receive_would_give(caller: Caller, queue: str) -> None:
    await caller.send(queue, "a1", "a2", group_id="a")
    await caller.send(queue, "b1", "b2", group_id="b")
    await caller.receive(queue)

    assert await caller.peek(queue) == ["b1", "b2"]
    assert await caller.bodies(queue) == ["b1", "b2"]


async def test_shuffle_keeps_the_order_within_groups(caller: Caller, queue: str) -> None:
    for number in range(3):
        for group in "abcdefgh":
            await caller.send(queue, f"{group}{number}", group_id=group)
    bodies = []

    while batch := await caller.receive(queue, 5, shuffle=True):
        bodies += [message.body for message in batch]
        await caller.delete(queue, *batch)

    assert len(bodies) == 24
    for group in "abcdefgh":
        assert [body for body in bodies if body[0] == group] == [f"{group}{number}" for number in range(3)]


async def test_requests_of_one_call_never_share_a_group(caller: Caller, queue: str) -> None:
    for body, group in (("a1", "a"), ("b1", "b"), ("a2", "a"), ("a3", "a")):
        await caller.send(queue, body, group_id=group)
    requests = [Receive(tenant=caller.tenant, queue=queue, limit=2) for _ in range(3)]

    answers = await caller.store.receive_many(requests, caller.clock.now())

    assert [[m.body for m in received(answer).messages] for answer in answers] == [["a1", "a2"], ["b1"], []]


async def test_one_call_may_delete_from_many_groups(caller: Caller, queue: str) -> None:
    for group in "abc":
        await caller.send(queue, f"{group}1", f"{group}2", group_id=group)
    held = [message for _ in range(3) for message in await caller.receive(queue)]
    assert [message.body for message in held] == ["a1", "b1", "c1"]

    await caller.delete(queue, *held)

    assert await caller.bodies(queue) == ["a2", "b2", "c2"]


async def test_a_long_group_passes_through_in_order(caller: Caller, queue: str) -> None:
    bodies = [f"{number}" for number in range(300)]
    await caller.send(queue, *bodies, group_id="g")
    seen = []

    while batch := await caller.receive(queue, 7):
        seen += [message.body for message in batch]
        await caller.delete(queue, *batch)

    assert seen == bodies

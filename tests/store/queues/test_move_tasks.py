"""Redrive: move tasks carry dead letters back, within their rate."""

from __future__ import annotations

from uuid import uuid4

import pytest

from penstock.errors import Conflict, MoveInProgress, QueueNotFound, TaskNotFound
from penstock.model import MoveState, Outcome
from tests.store.caller import Caller
from tests.store.conftest import MakeQueue


async def bury(caller: Caller, queue: str, *bodies: str, **fields: str) -> None:
    """Send messages and fail each until it is a dead letter; the queue allows one receive."""
    await caller.send(queue, *bodies, **fields)
    await caller.receive(queue, len(bodies), visibility_timeout_s=1)
    caller.clock.advance(seconds=1)
    assert await caller.bodies(queue) == []


@pytest.fixture
async def dead(make_queue: MakeQueue) -> str:
    return await make_queue("dead")


@pytest.fixture
async def queue(make_queue: MakeQueue, dead: str) -> str:
    return await make_queue("orders", max_receives=1, dead_letter_queue=dead)


async def test_a_task_tells_what_it_will_do(caller: Caller, queue: str, dead: str) -> None:
    await bury(caller, queue, "a", "b")

    task = await caller.start_move(dead, rate=7)

    assert (task.tenant, task.source, task.destination, task.rate) == (caller.tenant, dead, None, 7)
    assert (task.state, task.moved, task.to_move, task.failure) == (MoveState.RUNNING, 0, 2, None)
    assert task.started_at == caller.clock.now()
    assert await caller.last_move(dead) == task


async def test_letters_return_to_where_they_came_from(
    caller: Caller, make_queue: MakeQueue, queue: str, dead: str
) -> None:
    other = await make_queue("invoices", max_receives=1, dead_letter_queue=dead)
    await bury(caller, queue, "order")
    await bury(caller, other, "invoice")
    await caller.start_move(dead)

    assert sorted(await caller.run_moves()) == ["invoices", "orders"]

    task = await caller.last_move(dead)
    assert (task.state, task.moved, task.to_move) == (MoveState.COMPLETED, 2, 2)
    assert (await caller.bodies(queue), await caller.bodies(other)) == (["order"], ["invoice"])
    assert await caller.state(dead) == (0, 0, 0)


async def test_a_returned_message_starts_over(caller: Caller, queue: str, dead: str) -> None:
    [sent] = await caller.send(queue, "a")
    old = await caller.receive_one(queue, visibility_timeout_s=1)
    caller.clock.advance(seconds=1)
    await caller.receive(queue)
    await caller.start_move(dead)
    await caller.run_moves()

    assert await caller.delete(queue, old) == [Outcome.STALE]
    message = await caller.receive_one(queue)

    assert (message.id, message.receives, message.dead_letter_source) == (sent, 1, None)
    assert message.lease > old.lease


async def test_letters_may_go_to_another_queue(caller: Caller, make_queue: MakeQueue, queue: str, dead: str) -> None:
    other = await make_queue("other")
    await bury(caller, queue, "a")
    await caller.send(dead, "sent here")
    await caller.start_move(dead, other)

    assert await caller.run_moves() == [other]

    assert sorted(await caller.bodies(other)) == ["a", "sent here"]
    assert (await caller.last_move(dead)).destination == other


async def test_a_task_keeps_to_its_rate(caller: Caller, queue: str, dead: str) -> None:
    await bury(caller, queue, *(f"{number}" for number in range(10)))
    await caller.start_move(dead, rate=2)
    moved = []

    for seconds in (0, 1, 0.5, 0.25, 0.25, 2, 60):
        caller.clock.advance(seconds=seconds)
        await caller.run_moves()
        moved.append((await caller.last_move(dead)).moved)

    assert moved == [0, 2, 3, 3, 4, 8, 10]
    assert (await caller.last_move(dead)).state is MoveState.COMPLETED
    assert await caller.bodies(queue) == [f"{number}" for number in range(10)]


async def test_the_oldest_go_first(caller: Caller, queue: str, dead: str) -> None:
    await bury(caller, queue, "a", "b", "c")
    await caller.start_move(dead, rate=1)
    caller.clock.advance(seconds=2)

    await caller.run_moves()

    assert (await caller.bodies(queue), await caller.peek(dead)) == (["a", "b"], ["c"])


async def test_a_letter_in_flight_stays(caller: Caller, queue: str, dead: str) -> None:
    await bury(caller, queue, "a", "b")
    held = await caller.receive_one(dead)
    await caller.start_move(dead)

    await caller.run_moves()

    task = await caller.last_move(dead)
    assert (task.state, task.moved, task.to_move) == (MoveState.COMPLETED, 1, 2)
    assert await caller.delete(dead, held) == [Outcome.DONE]
    assert await caller.bodies(queue) == ["b"]


async def test_an_empty_queue_is_done_at_once(caller: Caller, dead: str) -> None:
    await caller.start_move(dead)

    assert await caller.run_moves() == []
    assert (await caller.last_move(dead)).state is MoveState.COMPLETED


async def test_order_is_kept_on_the_way_back(caller: Caller, make_queue: MakeQueue) -> None:
    dead = await make_queue("dead.fifo")
    queue = await make_queue("orders.fifo", max_receives=1, dead_letter_queue=dead)
    await bury(caller, queue, "a1", "a2", "a3", group_id="a")
    await caller.send(queue, "a4", group_id="a")
    await caller.start_move(dead)

    await caller.run_moves()

    assert await caller.bodies(queue) == ["a1", "a2", "a3", "a4"]


async def test_a_group_in_flight_stays_locked_when_older_messages_return(caller: Caller, make_queue: MakeQueue) -> None:
    dead = await make_queue("dead.fifo")
    queue = await make_queue("orders.fifo", max_receives=1, dead_letter_queue=dead)
    await bury(caller, queue, "a1", group_id="a")
    await caller.send(queue, "a2", "a3", group_id="a")
    held = await caller.receive_one(queue)
    await caller.start_move(dead)
    await caller.run_moves()

    assert await caller.bodies(queue) == []
    await caller.delete(queue, held)
    assert await caller.bodies(queue) == ["a1", "a3"]


async def test_a_task_fails_when_the_source_of_a_letter_is_gone(caller: Caller, queue: str, dead: str) -> None:
    await bury(caller, queue, "a")
    await caller.store.drop_queue(caller.tenant, queue)
    await caller.make_queue(queue)
    await caller.start_move(dead)

    await caller.run_moves()

    task = await caller.last_move(dead)
    assert (task.state, task.moved) == (MoveState.FAILED, 0)
    assert task.failure
    assert await caller.bodies(dead) == ["a"]
    assert await caller.bodies(queue) == []


async def test_a_task_fails_when_its_destination_is_gone(
    caller: Caller, make_queue: MakeQueue, queue: str, dead: str
) -> None:
    other = await make_queue("other")
    await bury(caller, queue, "a")
    await caller.start_move(dead, other)
    await caller.store.drop_queue(caller.tenant, other)

    await caller.run_moves()

    assert (await caller.last_move(dead)).state is MoveState.FAILED
    assert await caller.bodies(dead) == ["a"]


async def test_one_task_runs_per_source(caller: Caller, make_queue: MakeQueue, dead: str) -> None:
    other = await make_queue("other")
    await caller.start_move(dead)
    await caller.start_move(other, dead)

    with pytest.raises(MoveInProgress):
        await caller.start_move(dead, other)

    await caller.run_moves()
    await caller.start_move(dead, other)


async def test_a_cancelled_task_moves_nothing_more(caller: Caller, queue: str, dead: str) -> None:
    await bury(caller, queue, "a", "b", "c")
    task = await caller.start_move(dead, rate=1)
    caller.clock.advance(seconds=1)
    await caller.run_moves()

    cancelled = await caller.store.cancel_move(caller.tenant, task.id, caller.clock.now())
    caller.clock.advance(seconds=10)
    await caller.run_moves()

    assert (cancelled.id, cancelled.state, cancelled.moved) == (task.id, MoveState.CANCELLED, 1)
    assert await caller.last_move(dead) == cancelled
    assert await caller.bodies(queue) == ["a"]
    with pytest.raises(Conflict):
        await caller.store.cancel_move(caller.tenant, task.id, caller.clock.now())


async def test_an_unknown_task_is_not_found(caller: Caller, dead: str) -> None:
    task = await caller.start_move(dead)
    stranger = (await caller.store.create_tenant(f"stranger-{uuid4().hex}", caller.clock.now())).id

    for tenant, task_id in ((caller.tenant, task.id + 1_000_000), (stranger, task.id)):
        with pytest.raises(TaskNotFound):
            await caller.store.cancel_move(tenant, task_id, caller.clock.now())


async def test_unknown_queues_are_not_found(caller: Caller, dead: str) -> None:
    with pytest.raises(QueueNotFound):
        await caller.start_move("absent")
    with pytest.raises(QueueNotFound):
        await caller.start_move(dead, "absent")
    with pytest.raises(QueueNotFound):
        await caller.store.list_moves(caller.tenant, "absent", 10)
    assert await caller.store.list_moves(caller.tenant, dead, 10) == []


async def test_tasks_are_listed_newest_first(caller: Caller, dead: str) -> None:
    started = []
    for _ in range(3):
        started.append((await caller.start_move(dead)).id)
        await caller.run_moves()

    listed = await caller.store.list_moves(caller.tenant, dead, 2)

    assert [task.id for task in listed] == started[:0:-1]


async def test_without_a_rate_a_step_moves_a_thousand(caller: Caller, make_queue: MakeQueue, dead: str) -> None:
    other = await make_queue("other")
    await caller.send(dead, *(f"{number}" for number in range(1500)))
    await caller.start_move(dead, other)

    await caller.run_moves()
    half = await caller.last_move(dead)
    await caller.run_moves()
    whole = await caller.last_move(dead)

    assert (half.state, half.moved) == (MoveState.RUNNING, 1000)
    assert (whole.state, whole.moved) == (MoveState.COMPLETED, 1500)
    assert (await caller.counts(other)).total == 1500

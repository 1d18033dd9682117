"""Moves to a dead-letter queue, and home again, that meet others."""

from __future__ import annotations

import asyncio

import pytest

from penstock.clock import FakeClock
from penstock.model import MoveState, Outcome
from tests.store.caller import Caller
from tests.store.conftest import MakeQueue
from tests.store.postgres_only.conftest import Connect
from tests.store.postgres_only.races.steps import LONG_AGO_S, hold, start, swept_clean
from tests.store.postgres_only.sessions import Session, Watcher


class TestDeadLetters:
    async def test_a_delete_during_the_move_of_its_message_comes_too_late(
        self, make_queue: MakeQueue, caller: Caller, alice: Session, bob: Session, watcher: Watcher, clock: FakeClock
    ) -> None:
        await make_queue("dead")
        await make_queue("work", max_receives=1, dead_letter_queue="dead")
        await caller.send("work", "a")
        message = await caller.receive_one("work", visibility_timeout_s=5)
        clock.advance(seconds=LONG_AGO_S)
        await alice.begin()
        assert await alice.bodies("work") == []
        deleting = start(bob.delete("work", message))
        await watcher.blocked(bob)
        await alice.commit()

        assert await deleting == [Outcome.ABSENT]
        assert await caller.bodies("dead") == ["a"]
        assert (await caller.counts("work")).total == 0

    async def test_a_message_being_deleted_is_not_moved(
        self, make_queue: MakeQueue, caller: Caller, alice: Session, bob: Session, clock: FakeClock
    ) -> None:
        await make_queue("dead")
        await make_queue("work", max_receives=1, dead_letter_queue="dead")
        await caller.send("work", "a")
        message = await caller.receive_one("work", visibility_timeout_s=5)
        clock.advance(seconds=LONG_AGO_S)
        await alice.begin()
        assert await alice.delete("work", message) == [Outcome.DONE]

        assert await bob.bodies("work") == []

        await alice.commit()
        assert await bob.bodies("work") == await bob.bodies("dead") == []

    @pytest.mark.parametrize("name", ["work", "work.fifo"])
    async def test_a_group_held_in_the_dead_letter_queue_is_no_reason_to_receive_once_more(
        self, make_queue: MakeQueue, caller: Caller, connect: Connect, name: str, clock: FakeClock
    ) -> None:
        await make_queue("dead.fifo")
        await make_queue(name, max_receives=1, dead_letter_queue="dead.fifo")
        await caller.send(name, "a", group_id="g")
        await caller.receive_one(name, visibility_timeout_s=5)
        clock.advance(seconds=LONG_AGO_S)
        holder = await hold(connect, "dead.fifo", "g")

        assert await caller.bodies(name) == []

        await holder.commit()
        assert await caller.bodies(name) == []
        assert sorted(await caller.bodies("dead.fifo")) == ["a", "held"]

    async def test_many_receivers_move_each_message_once(
        self, make_queue: MakeQueue, caller: Caller, connect: Connect, clock: FakeClock
    ) -> None:
        await make_queue("dead")
        await make_queue("work", max_receives=1, dead_letter_queue="dead")
        await caller.send("work", *map(str, range(100)))
        await caller.receive("work", 100, visibility_timeout_s=5)
        clock.advance(seconds=LONG_AGO_S)
        sessions = [await connect("receiver") for _ in range(5)]

        found = await asyncio.gather(*(session.bodies("work") for session in sessions))

        assert found == [[]] * len(sessions)
        assert await caller.state("dead") == (100, 0, 0)
        assert sorted(await caller.bodies("dead", 1000), key=int) == list(map(str, range(100)))

    async def test_two_nodes_move_each_message_home_once(
        self, make_queue: MakeQueue, caller: Caller, connect: Connect
    ) -> None:
        await make_queue("dead")
        await make_queue("home")
        await caller.send("dead", *map(str, range(2500)))
        await caller.start_move("dead", "home")
        nodes = [await connect("node") for _ in range(3)]

        async def run(node: Session) -> None:
            while (await node.last_move("dead")).state is MoveState.RUNNING:
                await node.run_moves()

        await asyncio.gather(*map(run, nodes))

        task = await caller.last_move("dead")
        assert (task.state, task.moved) == (MoveState.COMPLETED, 2500)
        assert await caller.state("dead") == (0, 0, 0)
        assert await caller.state("home") == (2500, 0, 0)

    async def test_a_task_that_another_node_carries_on_is_left_to_it(
        self, make_queue: MakeQueue, caller: Caller, alice: Session, bob: Session
    ) -> None:
        await make_queue("dead")
        await make_queue("home")
        await caller.send("dead", "a", "b")
        await caller.start_move("dead", "home")
        await alice.begin()
        assert await alice.run_moves() == ["home"]

        assert await bob.run_moves() == []

        await alice.commit()
        assert (await bob.last_move("dead")).moved == 2

    async def test_a_message_being_received_is_not_moved_home(
        self, make_queue: MakeQueue, caller: Caller, alice: Session, bob: Session
    ) -> None:
        await make_queue("dead")
        await make_queue("home")
        await caller.send("dead", "a", "b")
        await caller.start_move("dead", "home")
        await alice.begin()
        held = await alice.receive_one("dead")
        await bob.run_moves()
        await alice.commit()

        assert held.body == "a"
        assert await bob.bodies("home") == ["b"]
        assert await alice.delete("dead", held) == [Outcome.DONE]

    async def test_a_delete_during_the_move_home_comes_too_late(
        self, make_queue: MakeQueue, caller: Caller, alice: Session, bob: Session, watcher: Watcher, clock: FakeClock
    ) -> None:
        await make_queue("dead")
        await make_queue("home")
        await caller.send("dead", "a")
        message = await caller.receive_one("dead", visibility_timeout_s=5)
        clock.advance(seconds=LONG_AGO_S)
        await caller.start_move("dead", "home")
        await alice.begin()
        assert await alice.run_moves() == ["home"]
        deleting = start(bob.delete("dead", message))
        await watcher.blocked(bob)
        await alice.commit()

        assert await deleting == [Outcome.ABSENT]
        assert await caller.state("dead") == (0, 0, 0)
        assert await caller.state("home") == (1, 0, 0)
        assert await caller.hide("home", message, 60) == (Outcome.ABSENT, None)
        assert await caller.bodies("home") == ["a"]

    @pytest.mark.parametrize("moved", [True, False], ids=["commit", "rollback"])
    async def test_a_purge_during_the_move_home_takes_what_has_not_moved(
        self, make_queue: MakeQueue, caller: Caller, alice: Session, bob: Session, watcher: Watcher, moved: bool
    ) -> None:
        await make_queue("dead")
        await make_queue("home")
        await caller.send("dead", "a", "b")
        await caller.start_move("dead", "home")
        await alice.begin()
        assert await alice.run_moves() == ["home"]
        await bob.store.purge_queue(bob.tenant, "dead")
        await (alice.commit() if moved else alice.rollback())
        while (await caller.last_move("dead")).state is MoveState.RUNNING:
            await caller.run_moves()

        assert await caller.state("dead") == (0, 0, 0)
        assert await caller.bodies("home") == (["a", "b"] if moved else [])
        await swept_clean(caller, watcher)

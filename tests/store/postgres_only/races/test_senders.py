"""Sends that meet others: what is rolled back, the order of a group, equal deduplication ids, bounded queues."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from penstock.clock import FakeClock
from penstock.errors import QueueFull
from penstock.model import Sent
from tests.store.caller import Caller, failed
from tests.store.conftest import MakeQueue
from tests.store.postgres_only.conftest import Connect
from tests.store.postgres_only.races.steps import LONG_AGO_S, hold, start
from tests.store.postgres_only.sessions import Session, Watcher


class TestSenders:
    async def test_a_send_that_is_rolled_back_never_appears(
        self, alice: Session, bob: Session, queue: str, fifo: str
    ) -> None:
        await alice.begin()
        await alice.send(queue, "a", dedup_id="once")
        await alice.send(fifo, "b", group_id="g", dedup_id="once")
        await alice.rollback()

        assert await bob.bodies(queue) == await bob.bodies(fifo) == []
        assert (await bob.counts(queue)).sent == (await bob.counts(fifo)).sent == 0
        assert isinstance(sent := await bob.send_one(queue, "a", dedup_id="once"), Sent)
        assert not sent.duplicate

    async def test_an_open_send_is_not_seen_and_holds_up_nobody(self, alice: Session, bob: Session, queue: str) -> None:
        await alice.begin()
        await alice.send(queue, "a")

        await bob.send(queue, "b")
        assert await bob.bodies(queue) == ["b"]

        await alice.commit()
        assert await bob.bodies(queue) == ["a"]

    async def test_those_of_one_group_are_ordered_by_their_commits(
        self, alice: Session, bob: Session, watcher: Watcher, fifo: str
    ) -> None:
        await alice.begin()
        [first] = await alice.send(fifo, "first", group_id="g")
        sending = start(bob.send(fifo, "second", group_id="g"))
        await watcher.blocked(bob)
        [third] = await alice.send(fifo, "still first", group_id="g")
        await alice.commit()
        [last] = await sending

        assert first < third < last
        assert await alice.bodies(fifo) == ["first", "still first", "second"]

    async def test_the_next_of_a_group_takes_the_place_of_one_that_is_rolled_back(
        self, alice: Session, bob: Session, watcher: Watcher, fifo: str
    ) -> None:
        await alice.begin()
        await alice.send(fifo, "never", group_id="g")
        sending = start(bob.send(fifo, "only", group_id="g"))
        await watcher.blocked(bob)
        await alice.rollback()
        await sending

        assert await alice.bodies(fifo) == ["only"]

    async def test_an_open_fifo_send_blocks_neither_receivers_nor_other_groups(
        self, caller: Caller, alice: Session, bob: Session, fifo: str, clock: FakeClock
    ) -> None:
        await caller.send(fifo, "g1", "g2", group_id="g")
        await caller.send(fifo, "h1", group_id="h")
        await alice.begin()
        await alice.send(fifo, "g3", group_id="g")

        await bob.send(fifo, "h2", group_id="h")
        assert await bob.bodies(fifo) == ["g1", "g2", "h1", "h2"]

        clock.advance(seconds=LONG_AGO_S)
        assert await bob.bodies(fifo) == ["h1", "h2"]

    async def test_an_open_send_to_a_group_whose_head_expired_leaves_the_other_groups_alone(
        self, caller: Caller, alice: Session, bob: Session, fifo: str, clock: FakeClock
    ) -> None:
        await caller.send(fifo, "g1", group_id="g", retention_s=60)
        await caller.send(fifo, "h1", group_id="h")
        clock.advance(seconds=61)
        await alice.begin()
        await alice.send(fifo, "g2", group_id="g")

        assert await bob.bodies(fifo) == ["h1"]

        await alice.commit()
        assert await bob.bodies(fifo) == ["g2"]

    async def test_batches_that_name_the_same_groups_in_another_order_do_not_deadlock(
        self, connect: Connect, alice: Session, bob: Session, watcher: Watcher, fifo: str
    ) -> None:
        carol, dave = await hold(connect, fifo, "m"), await hold(connect, fifo, "n")

        def batch(session: Session, groups: str) -> asyncio.Task[Any]:
            entries = [session.entry(fifo, f"{group} of {session.name}", group_id=group) for group in groups]
            return start(session.store.send_many(entries, session.clock.now()))

        there, back = batch(alice, "xmy"), batch(bob, "ynx")
        await watcher.blocked(alice, bob)
        await carol.commit()
        await dave.commit()
        answers = [*await there, *await back]

        assert all(isinstance(answer, Sent) for answer in answers)

    @pytest.mark.parametrize("name", ["work", "work.fifo"])
    async def test_an_equal_dedup_id_waits_and_yields_one_message(
        self, make_queue: MakeQueue, alice: Session, bob: Session, watcher: Watcher, name: str
    ) -> None:
        await make_queue(name)
        await alice.begin()
        [first] = await alice.send(name, "a", dedup_id="once", group_id="g")
        sending = start(bob.send_one(name, "b", dedup_id="once", group_id="h"))
        await watcher.blocked(bob)
        await alice.commit()

        assert await sending == Sent(first, duplicate=True)
        assert await bob.bodies(name) == ["a"]
        assert (await bob.counts(name)).sent == 1

    @pytest.mark.parametrize("name", ["work", "work.fifo"])
    async def test_an_equal_dedup_id_is_free_again_after_a_rollback(
        self, make_queue: MakeQueue, alice: Session, bob: Session, watcher: Watcher, name: str
    ) -> None:
        await make_queue(name)
        await alice.begin()
        await alice.send(name, "a", dedup_id="once", group_id="g")
        sending = start(bob.send_one(name, "b", dedup_id="once", group_id="h"))
        await watcher.blocked(bob)
        await alice.rollback()

        answer = await sending
        assert isinstance(answer, Sent)
        assert not answer.duplicate
        assert await bob.bodies(name) == ["b"]

    async def test_two_nodes_do_not_both_take_the_last_place_of_a_bounded_queue(
        self, make_queue: MakeQueue, alice: Session, bob: Session, watcher: Watcher
    ) -> None:
        await make_queue("small", max_length=1)
        await alice.begin()
        await alice.send("small", "a")
        sending = start(bob.send_one("small", "b"))
        await watcher.blocked(bob)
        await alice.commit()

        assert failed(await sending, QueueFull)

    async def test_an_open_send_of_a_user_to_a_bounded_queue_holds_up_nobody(
        self, make_queue: MakeQueue, alice: Session, bob: Session
    ) -> None:
        await make_queue("small", max_length=10)
        await alice.connection.execute("set penstock.node = ''")
        await alice.begin()
        await alice.send("small", "a")

        await bob.send("small", "b")
        assert await bob.bodies("small") == ["b"]

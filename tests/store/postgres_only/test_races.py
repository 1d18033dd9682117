"""Sessions that meet: who waits, who passes, and what is left when both are done.

Every session gives up on a lock after a few seconds, so that a wait nobody planned is a failure, not a hang.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from penstock.clock import FakeClock
from penstock.errors import QueueFull, QueueNotFound, Unsupported
from penstock.model import MoveState, Outcome, Receive, Sent
from tests.store.caller import Caller, failed, received
from tests.store.conftest import MakeQueue
from tests.store.postgres_only.conftest import Connect
from tests.store.postgres_only.sessions import Session, Watcher, until

LONG_AGO_S = 60
"""Longer than any visibility timeout of these tests."""


@pytest.fixture
async def queue(make_queue: MakeQueue) -> str:
    return await make_queue("work")


@pytest.fixture
async def fifo(make_queue: MakeQueue) -> str:
    return await make_queue("work.fifo")


def start(work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    return asyncio.create_task(work)


class TestReceivers:
    async def test_two_never_share_a_message(self, caller: Caller, connect: Connect, queue: str) -> None:
        await caller.send(queue, *map(str, range(300)))
        sessions = [await connect("receiver") for _ in range(6)]
        together = asyncio.Barrier(len(sessions))

        async def drain(session: Session) -> list[str]:
            await together.wait()
            found: list[str] = []
            while bodies := await session.bodies(queue, 7):
                found += bodies
            return found

        found = await asyncio.gather(*map(drain, sessions))

        assert sorted(int(body) for bodies in found for body in bodies) == list(range(300))

    async def test_one_does_not_wait_for_the_uncommitted_claim_of_another(
        self, caller: Caller, alice: Session, bob: Session, queue: str
    ) -> None:
        await caller.send(queue, "a", "b")
        await alice.begin()
        assert await alice.bodies(queue, 1) == ["a"]

        assert await bob.bodies(queue, 10) == ["b"]
        assert await bob.bodies(queue, 10) == []

    async def test_a_claim_that_is_rolled_back_never_was(
        self, caller: Caller, alice: Session, bob: Session, queue: str
    ) -> None:
        await caller.send(queue, "a")
        await alice.begin()
        await alice.receive_one(queue)
        await alice.rollback()

        again = await bob.receive_one(queue)

        assert (again.body, again.receives) == ("a", 1)

    async def test_one_does_not_wait_for_another_that_brings_back_what_is_due(
        self, caller: Caller, alice: Session, bob: Session, queue: str, clock: FakeClock
    ) -> None:
        await caller.send(queue, "a", "b")
        await caller.receive(queue, 2, visibility_timeout_s=5)
        clock.advance(seconds=LONG_AGO_S)
        await alice.begin()
        assert await alice.bodies(queue, 1) == ["a"]

        assert await bob.bodies(queue) == []

        await alice.commit()
        assert await bob.bodies(queue) == ["b"]

    async def test_two_never_share_a_group(self, caller: Caller, connect: Connect, fifo: str) -> None:
        for group in "abc":
            await caller.send(fifo, *(f"{group}{number}" for number in range(5)), group_id=group)
        sessions = [await connect("receiver") for _ in range(6)]
        together = asyncio.Barrier(len(sessions))

        async def receive(session: Session) -> list[str]:
            await together.wait()
            return [body[0] for body in await session.bodies(fifo, 2)]

        groups = [set(found) for found in await asyncio.gather(*map(receive, sessions))]

        assert sorted(group for found in groups for group in found) == ["a", "b", "c"]

    async def test_the_follower_of_an_uncommitted_head_stays(
        self, caller: Caller, alice: Session, bob: Session, fifo: str
    ) -> None:
        await caller.send(fifo, "a1", "a2", group_id="a")
        await alice.begin()
        assert await alice.bodies(fifo, 1) == ["a1"]

        assert await bob.bodies(fifo) == []

        await alice.rollback()
        assert await bob.bodies(fifo) == ["a1", "a2"]

    async def test_one_is_not_told_to_look_again_at_once_for_a_message_someone_holds(
        self, caller: Caller, alice: Session, bob: Session, queue: str, fifo: str, clock: FakeClock
    ) -> None:
        for name in (queue, fifo):
            await caller.send(name, "a", group_id="g")
            await caller.receive_one(name, visibility_timeout_s=5)
        clock.advance(seconds=LONG_AGO_S)
        await alice.begin()
        await alice.receive_one(queue)
        await alice.send(fifo, "b", group_id="g")

        assert received(await bob.ask(queue)).next_due_at is None
        assert received(await bob.ask(fifo)).next_due_at is None

    async def test_one_does_not_wait_for_another_that_sets_a_message_of_the_group_aside(
        self, make_queue: MakeQueue, caller: Caller, alice: Session, bob: Session, clock: FakeClock
    ) -> None:
        await make_queue("dead.fifo")
        await make_queue("work.fifo", max_receives=1, dead_letter_queue="dead.fifo")
        [poison] = await caller.send("work.fifo", "a", group_id="g")
        await caller.receive_one("work.fifo", visibility_timeout_s=5)
        clock.advance(seconds=LONG_AGO_S)
        await alice.begin()
        await alice.connection.execute("select from penstock.messages where id = $1 for update", poison)

        assert await bob.bodies("work.fifo") == []

        await alice.commit()
        assert await bob.bodies("work.fifo") == []
        assert await bob.bodies("dead.fifo") == ["a"]


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


class TestDelete:
    async def test_a_receive_passes_over_a_message_being_deleted(
        self, caller: Caller, alice: Session, bob: Session, queue: str, clock: FakeClock
    ) -> None:
        await caller.send(queue, "a")
        message = await caller.receive_one(queue, visibility_timeout_s=5)
        clock.advance(seconds=LONG_AGO_S)
        await alice.begin()
        assert await alice.delete(queue, message) == [Outcome.DONE]

        assert await bob.bodies(queue) == []

        await alice.commit()
        assert await bob.bodies(queue) == []
        assert (await bob.counts(queue)).total == 0

    async def test_a_delete_that_is_rolled_back_never_was(
        self, caller: Caller, alice: Session, bob: Session, queue: str
    ) -> None:
        [sent] = await caller.send(queue, "a")
        await alice.begin()
        await alice.delete(queue, sent)
        await alice.rollback()

        assert await bob.bodies(queue) == ["a"]

    @pytest.mark.parametrize(
        ("end", "outcome"),
        [(Session.commit, Outcome.STALE), (Session.rollback, Outcome.DONE)],
        ids=["commit", "rollback"],
    )
    async def test_a_delete_waits_for_the_receive_that_may_make_it_stale(
        self,
        caller: Caller,
        alice: Session,
        bob: Session,
        watcher: Watcher,
        queue: str,
        clock: FakeClock,
        end: Callable[[Session], Coroutine[Any, Any, None]],
        outcome: Outcome,
    ) -> None:
        await caller.send(queue, "a")
        message = await caller.receive_one(queue, visibility_timeout_s=5)
        clock.advance(seconds=LONG_AGO_S)
        await alice.begin()
        await alice.receive_one(queue)
        deleting = start(bob.delete(queue, message))
        await watcher.blocked(bob)
        await end(alice)

        assert await deleting == [outcome]
        assert (await caller.counts(queue)).total == (1 if outcome is Outcome.STALE else 0)

    @pytest.mark.parametrize(
        ("end", "outcome"),
        [(Session.commit, Outcome.STALE), (Session.rollback, Outcome.DONE)],
        ids=["commit", "rollback"],
    )
    async def test_a_change_of_visibility_waits_for_the_receive_that_may_make_it_stale(
        self,
        caller: Caller,
        alice: Session,
        bob: Session,
        watcher: Watcher,
        queue: str,
        clock: FakeClock,
        end: Callable[[Session], Coroutine[Any, Any, None]],
        outcome: Outcome,
    ) -> None:
        await caller.send(queue, "a")
        message = await caller.receive_one(queue, visibility_timeout_s=5)
        clock.advance(seconds=LONG_AGO_S)
        await alice.begin()
        await alice.receive_one(queue)
        hiding = start(bob.hide(queue, message, 100))
        await watcher.blocked(bob)
        await end(alice)

        answer = await hiding
        assert answer[0] is outcome
        assert await bob.bodies(queue) == []

    async def test_a_receive_passes_over_a_message_being_hidden(
        self, caller: Caller, alice: Session, bob: Session, queue: str, clock: FakeClock
    ) -> None:
        await caller.send(queue, "a")
        message = await caller.receive_one(queue, visibility_timeout_s=5)
        clock.advance(seconds=LONG_AGO_S)
        await alice.begin()
        await alice.hide(queue, message, 100)

        assert await bob.bodies(queue) == []

        await alice.commit()
        assert await bob.bodies(queue) == []

    async def test_two_deletes_of_one_message_succeed_once(
        self, caller: Caller, alice: Session, bob: Session, watcher: Watcher, queue: str
    ) -> None:
        await caller.send(queue, "a")
        message = await caller.receive_one(queue)
        await alice.begin()
        await alice.delete(queue, message)
        deleting = start(bob.delete(queue, message))
        await watcher.blocked(bob)
        await alice.commit()

        assert await deleting == [Outcome.ABSENT]
        assert (await caller.counts(queue)).total == 0


class TestGroups:
    """Whatever meets, a group never gets stuck and never has two batches in flight."""

    async def test_a_send_during_the_delete_of_the_last_message_in_flight_is_received(
        self, caller: Caller, alice: Session, bob: Session, watcher: Watcher, fifo: str
    ) -> None:
        await caller.send(fifo, "a", group_id="g")
        message = await caller.receive_one(fifo)
        await alice.begin()
        assert await alice.delete(fifo, message) == [Outcome.DONE]
        sending = start(bob.send(fifo, "b", group_id="g"))
        await watcher.blocked(bob)
        assert await caller.bodies(fifo) == []
        await alice.commit()
        await sending

        assert await caller.bodies(fifo) == ["b"]

    async def test_a_delete_of_the_last_message_in_flight_during_a_send_frees_what_was_sent(
        self, caller: Caller, alice: Session, bob: Session, watcher: Watcher, fifo: str
    ) -> None:
        await caller.send(fifo, "a", group_id="g")
        message = await caller.receive_one(fifo)
        await alice.begin()
        await alice.send(fifo, "b", group_id="g")
        deleting = start(bob.delete(fifo, message))
        await watcher.blocked(bob)
        await alice.commit()

        assert await deleting == [Outcome.DONE]
        assert await caller.bodies(fifo) == ["b"]

    @pytest.mark.parametrize("deleted", [0, 1], ids=["head", "follower"])
    async def test_a_delete_by_id_waits_for_an_open_receive_of_its_group(
        self, caller: Caller, alice: Session, bob: Session, watcher: Watcher, fifo: str, deleted: int
    ) -> None:
        sent = await caller.send(fifo, "a", "b", "c", group_id="g")
        await alice.begin()
        assert await alice.bodies(fifo, 1) == ["a"]
        deleting = start(bob.delete(fifo, sent[deleted]))
        await watcher.blocked(bob)
        await alice.rollback()

        assert await deleting == [Outcome.DONE]
        assert await caller.bodies(fifo) == (["b", "c"] if deleted == 0 else ["a", "c"])

    async def test_a_delete_by_id_and_a_receive_do_not_deadlock(
        self, caller: Caller, alice: Session, bob: Session, carol: Session, watcher: Watcher, fifo: str
    ) -> None:
        """The receiver holds the head and wants the follower; the delete holds the follower and wants the head."""
        _, follower = await caller.send(fifo, "a", "b", group_id="g")
        await carol.begin()
        await carol.connection.execute("select from penstock.messages where id = $1 for update", follower)
        deleting = start(bob.delete(fifo, follower))
        await watcher.blocked(bob)
        receiving = start(alice.bodies(fifo, 2))
        await settled(watcher, alice, receiving)
        await carol.commit()

        assert await deleting == [Outcome.DONE]
        assert await receiving in (["a"], [])

    async def test_deletes_that_name_the_same_groups_in_another_order_do_not_deadlock(
        self, caller: Caller, connect: Connect, alice: Session, bob: Session, watcher: Watcher, fifo: str
    ) -> None:
        for group in "xymn":
            await caller.send(fifo, f"{group}1", f"{group}2", group_id=group)
        held = {message.body: message for message in await caller.receive(fifo, 10)}
        carol, dave = await hold(connect, fifo, "m"), await hold(connect, fifo, "n")
        there = start(alice.delete(fifo, *(held[body] for body in ("x1", "m1", "y1"))))
        back = start(bob.delete(fifo, *(held[body] for body in ("y2", "n1", "x2"))))
        await watcher.blocked(alice, bob)
        await carol.commit()
        await dave.commit()

        assert [*await there, *await back] == [Outcome.DONE] * 6

    async def test_changes_that_name_the_same_groups_in_another_order_do_not_deadlock(
        self, caller: Caller, connect: Connect, alice: Session, bob: Session, watcher: Watcher, fifo: str
    ) -> None:
        for group in "xymn":
            await caller.send(fifo, f"{group}1", f"{group}2", group_id=group)
        held = {message.body: message for message in await caller.receive(fifo, 10)}
        carol, dave = await hold(connect, fifo, "m"), await hold(connect, fifo, "n")

        def hide(session: Session, *bodies: str) -> asyncio.Task[Any]:
            changes = [(session.handle(fifo, held[body]), 100) for body in bodies]
            return start(session.store.change_visibility_many(changes, session.clock.now()))

        there, back = hide(alice, "x1", "m1", "y1"), hide(bob, "y2", "n1", "x2")
        await watcher.blocked(alice, bob)
        await carol.commit()
        await dave.commit()

        assert [answer[0] for answer in (*await there, *await back)] == [Outcome.DONE] * 6

    async def test_a_sweep_of_an_expired_follower_and_a_receive_do_not_deadlock(
        self,
        caller: Caller,
        alice: Session,
        bob: Session,
        carol: Session,
        watcher: Watcher,
        fifo: str,
        clock: FakeClock,
    ) -> None:
        await caller.send(fifo, "a", group_id="g")
        [follower] = await caller.send(fifo, "b", group_id="g", retention_s=60)
        await caller.send(fifo, "c", group_id="g")
        early = clock.now()
        clock.advance(seconds=61)
        await carol.begin()
        await carol.connection.execute("select from penstock.messages where id = $1 for update", follower)
        sweeping = start(bob.store.sweep(clock.now(), 1000))
        await settled(watcher, bob, sweeping)
        receiving = start(alice.store.receive_many([Receive(tenant=alice.tenant, queue=fifo, limit=3)], early))
        await settled(watcher, alice, receiving)
        await carol.commit()
        await sweeping
        await receiving

        await bob.sweep()
        assert (await caller.counts(fifo)).total == 2

    async def test_a_move_out_of_a_group_and_a_receive_do_not_deadlock(
        self, make_queue: MakeQueue, caller: Caller, alice: Session, bob: Session, carol: Session, watcher: Watcher
    ) -> None:
        await make_queue("dead.fifo")
        await make_queue("home.fifo")
        *_, last = await caller.send("dead.fifo", "a", "b", "c", group_id="g")
        await caller.start_move("dead.fifo", "home.fifo")
        await carol.begin()
        await carol.connection.execute("select from penstock.messages where id = $1 for update", last)
        receiving = start(alice.bodies("dead.fifo", 3))
        await settled(watcher, alice, receiving)
        moving = start(bob.store.run_moves(bob.clock.now()))
        await settled(watcher, bob, moving)
        await carol.commit()
        bodies = await receiving
        await moving

        assert bodies in (["a", "b", "c"], ["a", "b"], ["a"], [])
        assert (await caller.counts("dead.fifo")).total + (await caller.counts("home.fifo")).total == 3

    async def test_a_group_is_never_stuck_nor_received_twice_at_once(
        self, caller: Caller, connect: Connect, fifo: str
    ) -> None:
        total, in_flight, delivered = 120, 0, list[int]()
        deleters = [await connect("worker") for _ in range(4)]
        sender = await connect("sender")

        async def send() -> None:
            for number in range(total):
                await sender.send(fifo, str(number), group_id="g")

        async def work(session: Session) -> None:
            nonlocal in_flight
            while len(delivered) < total:
                messages = await session.receive(fifo, 3)
                if not messages:
                    await asyncio.sleep(0)
                    continue
                in_flight += 1
                assert in_flight == 1
                delivered.extend(int(message.body) for message in messages)
                in_flight -= 1
                assert await session.delete(fifo, *messages) == [Outcome.DONE] * len(messages)

        async with asyncio.timeout(20):
            await asyncio.gather(send(), *map(work, deleters))

        assert delivered == list(range(total))

    @pytest.mark.parametrize("isolation", ["repeatable_read", "serializable"])
    async def test_a_transaction_that_cannot_see_the_group_as_it_is_may_not_send_to_it(
        self, caller: Caller, alice: Session, fifo: str, isolation: str
    ) -> None:
        await caller.send(fifo, "a", group_id="g")
        message = await caller.receive_one(fifo)
        await alice.begin(isolation)
        await alice.counts(fifo)
        await caller.delete(fifo, message)

        with pytest.raises(Unsupported):
            await alice.send(fifo, "b", group_id="g")

    @pytest.mark.parametrize("isolation", ["repeatable_read", "serializable"])
    async def test_a_transaction_that_cannot_see_the_group_as_it_is_may_not_delete_from_it(
        self, caller: Caller, alice: Session, fifo: str, isolation: str
    ) -> None:
        await caller.send(fifo, "a", group_id="g")
        message = await caller.receive_one(fifo)
        await alice.begin(isolation)
        await alice.counts(fifo)
        await caller.send(fifo, "b", group_id="g")

        with pytest.raises(Unsupported):
            await alice.delete(fifo, message)


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


class TestQueues:
    async def test_a_purge_waits_for_nobody_and_takes_what_is_claimed(
        self, caller: Caller, alice: Session, bob: Session, queue: str
    ) -> None:
        await caller.send(queue, "a", "b")
        await alice.begin()
        held = await alice.receive_one(queue)

        assert await bob.store.purge_queue(bob.tenant, queue) == 2

        assert await alice.delete(queue, held) == [Outcome.ABSENT]
        await alice.commit()
        assert await caller.bodies(queue) == []
        assert (await caller.counts(queue)).total == 0

    @pytest.mark.parametrize("name", ["work", "work.fifo"])
    async def test_a_send_that_began_before_a_purge_goes_with_it_and_a_later_one_stays(
        self, make_queue: MakeQueue, caller: Caller, alice: Session, bob: Session, watcher: Watcher, name: str
    ) -> None:
        await make_queue(name)
        await alice.begin()
        await alice.send(name, "before", group_id="g")
        await bob.store.purge_queue(bob.tenant, name)
        await bob.send(name, "after", group_id="g")
        await alice.commit()

        assert await caller.bodies(name) == ["after"]
        assert (await caller.counts(name)).total == 1
        await swept_clean(caller, watcher)

    async def test_a_receive_waits_for_no_purge(self, caller: Caller, alice: Session, bob: Session, queue: str) -> None:
        await caller.send(queue, "a")
        await alice.begin()
        await alice.store.purge_queue(alice.tenant, queue)

        assert await bob.bodies(queue) == ["a"]

    async def test_a_drop_waits_for_no_receive_and_no_send(
        self, caller: Caller, alice: Session, bob: Session, watcher: Watcher, queue: str
    ) -> None:
        await caller.send(queue, "a")
        await alice.begin()
        held = await alice.receive_one(queue)
        await alice.send(queue, "b")

        assert await bob.store.drop_queue(bob.tenant, queue)

        await alice.commit()
        [answer] = await alice.delete(queue, held)
        assert isinstance(answer, QueueNotFound)
        await swept_clean(caller, watcher)

    async def test_a_queue_made_again_has_nothing_of_the_one_dropped(
        self, make_queue: MakeQueue, caller: Caller, alice: Session, bob: Session, queue: str
    ) -> None:
        await alice.begin()
        await alice.send(queue, "old")
        await bob.store.drop_queue(bob.tenant, queue)
        await make_queue(queue)
        await bob.send(queue, "new")
        await alice.commit()

        assert await caller.bodies(queue) == ["new"]

    async def test_two_that_create_one_queue_get_the_same(self, alice: Session, bob: Session, watcher: Watcher) -> None:
        await alice.begin()
        await alice.make_queue("same", delay_s=1)
        creating = start(bob.make_queue("same", delay_s=1))
        await watcher.blocked(bob)
        await alice.commit()
        await creating

        assert [queue.name for queue in await bob.store.list_queues(bob.tenant)] == ["same"]

    async def test_two_changes_of_one_queue_both_stay(
        self, alice: Session, bob: Session, watcher: Watcher, queue: str, clock: FakeClock
    ) -> None:
        await alice.begin()
        await alice.store.update_queue(alice.tenant, queue, {"delay_s": 7}, clock.now())
        changing = start(bob.store.update_queue(bob.tenant, queue, {"retention_s": 77}, clock.now()))
        await watcher.blocked(bob)
        await alice.commit()

        settings = (await changing).settings
        assert (settings.delay_s, settings.retention_s) == (7, 77)

    async def test_a_purge_of_a_queue_being_dropped_finds_none(
        self, alice: Session, bob: Session, watcher: Watcher, queue: str
    ) -> None:
        await alice.begin()
        await alice.store.drop_queue(alice.tenant, queue)
        purging = start(bob.store.purge_queue(bob.tenant, queue))
        await watcher.blocked(bob)
        await alice.commit()

        with pytest.raises(QueueNotFound):
            await purging

    async def test_a_queue_dropped_under_a_batch_fails_its_own_entries_only(
        self, make_queue: MakeQueue, alice: Session, bob: Session, carol: Session, watcher: Watcher, fifo: str
    ) -> None:
        await make_queue("gone.fifo")
        await carol.begin()
        await carol.send(fifo, "c", group_id="g")
        entries = [bob.entry(fifo, "b", group_id="g"), bob.entry("gone.fifo", "b", group_id="g")]
        sending = start(bob.store.send_many(entries, bob.clock.now()))
        await watcher.blocked(bob)
        await alice.store.drop_queue(alice.tenant, "gone.fifo")
        await carol.commit()
        kept, lost = await sending

        assert isinstance(kept, Sent)
        assert isinstance(lost, Sent) or failed(lost, QueueNotFound)
        assert await alice.bodies(fifo) == ["c", "b"]

    async def test_a_queue_dropped_under_a_batch_of_deletes_fails_its_own_entries_only(
        self, make_queue: MakeQueue, caller: Caller, connect: Connect, bob: Session, watcher: Watcher, fifo: str
    ) -> None:
        await make_queue("gone.fifo")
        for name in (fifo, "gone.fifo"):
            await caller.send(name, "a", group_id="g")
        handles = [bob.handle(name, await caller.receive_one(name)) for name in (fifo, "gone.fifo")]
        holder = await hold(connect, fifo, "g")
        deleting = start(bob.store.delete_many(handles, bob.clock.now()))
        await watcher.blocked(bob)
        await caller.store.drop_queue(caller.tenant, "gone.fifo")
        await holder.commit()
        kept, lost = await deleting

        assert kept is Outcome.DONE
        assert lost in (Outcome.DONE, Outcome.ABSENT) or failed(lost, QueueNotFound)


class TestSweep:
    async def test_it_waits_for_nobody(
        self, make_queue: MakeQueue, caller: Caller, connect: Connect, fifo: str, clock: FakeClock
    ) -> None:
        """With a send, a receive and a delete open, in a living queue and in an abandoned one."""
        alice, bob, carol = await connect("sender"), await connect("receiver"), await connect("deleter")
        for name in ("plain", "left"):
            await make_queue(name)
            await caller.send(name, "a", "b", retention_s=60)
        for group in "gh":
            await caller.send(fifo, "a", "b", group_id=group, retention_s=60)
        for session in (alice, bob, carol):
            await session.begin()
        for name in ("plain", "left", fifo):
            await alice.send(name, "open", group_id="new")
            await bob.receive(name)
            await carol.delete(name, (await carol.receive(name))[0])
        await caller.store.drop_queue(caller.tenant, "left")
        clock.advance(seconds=61)

        await (await connect("sweeper")).sweep()

        for session in (alice, bob, carol):
            await session.commit()
        await caller.sweep()
        assert await caller.bodies("plain") == await caller.bodies(fifo) == ["open"]
        assert (await caller.counts("plain")).total == (await caller.counts(fifo)).total == 1

    async def test_two_at_once_do_the_work_once(
        self, caller: Caller, alice: Session, bob: Session, queue: str, clock: FakeClock
    ) -> None:
        await caller.send(queue, *"abc", retention_s=60)
        clock.advance(seconds=61)
        await alice.begin()
        assert await alice.store.sweep(clock.now(), 1000) >= 3

        assert await bob.store.sweep(clock.now(), 1000) == 0

        await alice.commit()
        assert await caller.state(queue) == (0, 0, 0)

    async def test_what_is_counted_survives_it(self, caller: Caller, alice: Session, bob: Session, queue: str) -> None:
        await caller.send(queue, *"abc")
        await alice.begin()
        await alice.send(queue, "d")
        await bob.sweep()
        await bob.receive(queue, 2)
        await alice.commit()

        assert await caller.state(queue) == (2, 2, 0)
        await bob.sweep()
        assert await caller.state(queue) == (2, 2, 0)


async def hold(connect: Connect, queue: str, group: str) -> Session:
    """A session that holds the lock of a group until it commits."""
    session = await connect("holder")
    await session.begin()
    await session.send(queue, "held", group_id=group)
    return session


async def settled(watcher: Watcher, session: Session, task: asyncio.Task[Any]) -> None:
    """The session has done what it can: it is done, or waits for a lock."""
    waiting = start(watcher.blocked(session))
    await asyncio.wait([waiting, task], return_when=asyncio.FIRST_COMPLETED)
    if not waiting.done():
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)


async def swept_clean(caller: Caller, watcher: Watcher) -> None:
    """Sweeps leave nothing in bins that no queue has, once nobody from before can write there."""

    async def left() -> int:
        await caller.sweep()
        return await watcher.unreachable()

    await until(left, 0)

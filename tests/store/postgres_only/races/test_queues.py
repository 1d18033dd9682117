"""Purges, drops and changes of a queue while others use it."""

from __future__ import annotations

import pytest

from penstock.clock import FakeClock
from penstock.errors import QueueFull, QueueNotFound
from penstock.model import Outcome, Sent
from tests.store.caller import Caller, failed
from tests.store.conftest import MakeQueue
from tests.store.postgres_only.conftest import Connect
from tests.store.postgres_only.races.steps import hold, settled, start, swept_clean
from tests.store.postgres_only.sessions import Session, Watcher


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

    async def test_a_send_that_waits_during_a_purge_is_in_line_with_those_after_it(
        self, caller: Caller, connect: Connect, alice: Session, bob: Session, watcher: Watcher, fifo: str
    ) -> None:
        holder = await hold(connect, fifo, "g")
        waiting = start(alice.send(fifo, "waited", group_id="g"))
        await watcher.blocked(alice)
        await caller.store.purge_queue(caller.tenant, fifo)
        await bob.begin()
        await bob.send(fifo, "first", group_id="g")
        await holder.commit()
        await settled(watcher, alice, waiting)
        await bob.commit()
        await waiting

        assert await caller.bodies(fifo, limit=1) == ["first"]
        assert await caller.bodies(fifo, limit=1) == []

    async def test_a_send_that_waits_during_a_purge_counts_with_those_after_it(
        self, make_queue: MakeQueue, caller: Caller, connect: Connect, alice: Session, bob: Session, watcher: Watcher
    ) -> None:
        small = await make_queue("small", max_length=1)
        holder = await connect("holder")
        await holder.begin()
        await holder.send(small, "held")
        waiting = start(alice.send_one(small, "waited"))
        await watcher.blocked(alice)
        await caller.store.purge_queue(caller.tenant, small)
        await bob.begin()
        await bob.send(small, "first")
        await holder.commit()
        await settled(watcher, alice, waiting)
        await bob.commit()

        assert failed(await waiting, QueueFull)
        assert await caller.bodies(small) == ["first"]

    async def test_a_send_that_waits_during_a_drop_fails(
        self, caller: Caller, connect: Connect, alice: Session, watcher: Watcher, fifo: str
    ) -> None:
        holder = await hold(connect, fifo, "g")
        waiting = start(alice.send_one(fifo, "late", group_id="g"))
        await watcher.blocked(alice)
        await caller.store.drop_queue(caller.tenant, fifo)
        await holder.commit()

        assert failed(await waiting, QueueNotFound)

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
        assert failed(lost, QueueNotFound)
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

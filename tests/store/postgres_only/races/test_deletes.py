"""Deletes and changes of visibility that meet a receive, or each other."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from penstock.clock import FakeClock
from penstock.model import Outcome
from tests.store.caller import Caller
from tests.store.postgres_only.races.steps import LONG_AGO_S, start
from tests.store.postgres_only.sessions import Session, Watcher


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

    async def test_a_message_that_is_being_brought_back_can_still_be_hidden(
        self, caller: Caller, alice: Session, bob: Session, watcher: Watcher, queue: str, clock: FakeClock
    ) -> None:
        await caller.send(queue, "a")
        message = await caller.receive_one(queue, visibility_timeout_s=5)
        clock.advance(seconds=LONG_AGO_S)
        await alice.begin()
        assert await alice.peek(queue) == ["a"]
        hiding = start(bob.hide(queue, message, 100))
        await watcher.blocked(bob)
        await alice.commit()

        assert (await hiding)[0] is Outcome.DONE
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

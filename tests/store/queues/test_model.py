"""A store under random use, beside a model small enough to be believed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import count, takewhile
from typing import Any, TypeVar
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from penstock.clock import FakeClock
from penstock.model import Message, Outcome
from penstock.store import Store
from tests.effort import examples
from tests.store.caller import Caller
from tests.store.conftest import STORES, build

Result = TypeVar("Result")
Run = Callable[[Coroutine[Any, Any, Result]], Result]

SETTINGS = settings(
    max_examples=examples(40),
    stateful_step_count=40,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)

GROUPS = st.sampled_from("abc")
DELAYS = st.sampled_from([0, 0, 0, 3])
TIMEOUTS = st.sampled_from([0, 1, 5, 5, 20])
SECONDS = st.sampled_from([-1, 0, 2, 7])


@dataclass
class Held:
    """A message as the model knows it."""

    id: int
    group: str
    priority: int
    visible_at: datetime
    place: int
    """In the line of FIFO groups."""
    lease: int = 0


@dataclass
class Model:
    """What a queue does, with nothing but a list."""

    fifo: bool
    messages: list[Held] = field(default_factory=list)
    places: Iterator[int] = field(default_factory=count)

    def next(self, limit: int, now: datetime) -> list[Held]:
        if self.fifo:
            groups = [self._available(group, now) for group in {message.group for message in self.messages}]
            order = sorted((group for group in groups if group), key=lambda group: group[0].place)
            return [message for group in order for message in group][:limit]
        visible = [message for message in self.messages if message.visible_at <= now]
        return sorted(visible, key=lambda message: (-message.priority, message.id))[:limit]

    def _available(self, group: str, now: datetime) -> list[Held]:
        """All up to the first that is hidden: by a delay, or because it is in flight."""
        members = [message for message in self.messages if message.group == group]
        return list(takewhile(lambda message: message.visible_at <= now, members))

    def judge(self, delivery: Message, now: datetime) -> tuple[Outcome, Held | None]:
        for message in self.messages:
            if message.id == delivery.id:
                if message.lease != delivery.lease:
                    return Outcome.STALE, None
                if self.fifo and message.visible_at <= now:
                    return Outcome.EXPIRED, None
                return Outcome.DONE, message
        return Outcome.ABSENT, None

    def state(self, now: datetime) -> tuple[int, int, int]:
        hidden = [message for message in self.messages if message.visible_at > now]
        in_flight = sum(1 for message in hidden if message.lease)
        return len(self.messages) - len(hidden), in_flight, len(hidden) - in_flight


class Machine(RuleBasedStateMachine):
    def __init__(self, store: Store, run: Run[Any], fifo: bool) -> None:
        super().__init__()
        self.run = run
        self.clock = FakeClock()
        self.model = Model(fifo)
        self.deliveries: list[Message] = []
        tenant = run(store.create_tenant(f"tenant-{uuid4().hex}", self.clock.now()))
        self.caller = Caller(store, tenant.id, self.clock)
        self.queue: str = run(self.caller.make_queue(fifo=fifo))

    @rule(group=GROUPS, priority=st.sampled_from([1, 100, 1000]), delay=DELAYS, count=st.integers(1, 3))
    def send(self, group: str, priority: int, delay: int, count: int) -> None:
        bodies = [group] * count
        ids = self.run(self.caller.send(self.queue, *bodies, group_id=group, priority=priority, delay_s=delay))

        visible_at = self.clock.now() + timedelta(seconds=delay)
        self.model.messages += [
            Held(message_id, group, priority, visible_at, next(self.model.places)) for message_id in ids
        ]

    @rule(limit=st.integers(1, 4), timeout=TIMEOUTS)
    def receive(self, limit: int, timeout: int) -> None:
        expected = self.model.next(limit, self.clock.now())

        messages = self.run(self.caller.receive(self.queue, limit, visibility_timeout_s=timeout))

        assert [message.id for message in messages] == [message.id for message in expected]
        for message in expected:
            message.visible_at = self.clock.now() + timedelta(seconds=timeout)
            message.place = next(self.model.places)
        for message, found in zip(expected, messages, strict=True):
            assert found.lease > message.lease
            message.lease = found.lease
        self.deliveries += messages

    @precondition(lambda self: self.deliveries)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        delivery = data.draw(st.sampled_from(self.deliveries))
        expected, message = self.model.judge(delivery, self.clock.now())

        assert self.run(self.caller.delete(self.queue, delivery)) == [expected]

        if message is not None:
            self.model.messages.remove(message)

    @precondition(lambda self: self.deliveries)
    @rule(data=st.data(), seconds=SECONDS)
    def change_visibility(self, data: st.DataObject, seconds: int) -> None:
        delivery = data.draw(st.sampled_from(self.deliveries))
        expected, message = self.model.judge(delivery, self.clock.now())
        visible_at = None if message is None else self.clock.now() + timedelta(seconds=max(seconds, 0))

        assert self.run(self.caller.hide(self.queue, delivery, seconds)) == (expected, visible_at)

        if message is not None and visible_at is not None:
            message.visible_at = visible_at

    @rule(seconds=st.sampled_from([1, 2, 5, 20]))
    def advance(self, seconds: int) -> None:
        self.clock.advance(seconds=seconds)

    @invariant()
    def counts_agree(self) -> None:
        assert self.run(self.caller.state(self.queue)) == self.model.state(self.clock.now())


@pytest.mark.hypothesis
@pytest.mark.parametrize("fifo", [False, True], ids=["standard", "fifo"])
@pytest.mark.parametrize("kind", STORES)
def test_a_queue_behaves_like_its_model(request: pytest.FixtureRequest, kind: str, fifo: bool) -> None:
    store = build(kind, request)

    class Bound(Machine):
        def __init__(self) -> None:
            super().__init__(store, runner.run, fifo)

    with asyncio.Runner() as runner:
        runner.run(store.open())
        try:
            run_state_machine_as_test(Bound, settings=SETTINGS)
        finally:
            runner.run(store.close())

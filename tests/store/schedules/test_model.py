"""Schedules under random use on two nodes, beside a model of their times."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from penstock.clock import FakeClock
from penstock.engine import Engine
from penstock.model.schedules import TargetKind
from penstock.store import Store
from tests.store.caller import Caller
from tests.store.machines import Run, run_machine

QUEUE = "fired"
ROUNDS = 20


@dataclass
class Known:
    """A schedule as the model knows it."""

    step: timedelta
    catchup: bool
    next_at: datetime
    active: bool = True
    fired: list[datetime] = field(default_factory=list)

    def fire(self, now: datetime) -> None:
        if not self.active or self.next_at > now:
            return
        self.fired.append(self.next_at)
        self.next_at += self.step
        while self.next_at <= now:
            if self.catchup:
                self.fired.append(self.next_at)
            self.next_at += self.step

    def resume(self, now: datetime) -> None:
        self.active = True
        while self.next_at <= now:
            self.next_at += self.step


class Machine(RuleBasedStateMachine):
    def __init__(self, store: Store, run: Run[Any]) -> None:
        super().__init__()
        self.run = run
        self.clock = FakeClock()
        tenant = run(store.create_tenant(f"tenant-{uuid4().hex}", self.clock.now()))
        self.caller = Caller(store, tenant.id, self.clock)
        self.nodes = [Engine(store, self.clock), Engine(store, self.clock)]
        self.known: dict[str, Known] = {}
        self.ended: dict[str, Known] = {}
        self.made = 0
        run(self.caller.make_queue(QUEUE))

    @precondition(lambda self: len(self.known) < 4)
    @rule(node=st.integers(0, 1), seconds=st.sampled_from([10, 60, 3600]), catchup=st.booleans())
    def create(self, node: int, seconds: int, catchup: bool) -> None:
        self.made += 1
        name = f"schedule-{self.made}"
        given = {
            "every": f"{seconds}s", "target_kind": TargetKind.QUEUE, "target": QUEUE, "body": name, "catchup": catchup,
            "catchup_limit": 1000,
        }  # fmt: skip

        found = self.run(self.nodes[node].schedules.create(self.caller.tenant, name, given))

        assert found.next_fire_at > self.clock.now()
        self.known[name] = Known(timedelta(seconds=seconds), catchup, found.next_fire_at)

    @rule(first=st.integers(0, 1), seconds=st.sampled_from([0, 5, 10, 61, 700]))
    def pass_time(self, first: int, seconds: int) -> None:
        """Both nodes look for due schedules, one after the other. Rounds are for all tenants of the database."""
        self.clock.advance(seconds=seconds)
        for node in (self.nodes[first], self.nodes[1 - first]):
            for _ in range(ROUNDS):
                if self.run(node.schedules.fire_due())[0] == 0:
                    break
        for schedule in self.known.values():
            schedule.fire(self.clock.now())

    @precondition(lambda self: self.known)
    @rule(node=st.integers(0, 1), data=st.data(), status=st.sampled_from(["active", "paused"]))
    def change_status(self, node: int, data: st.DataObject, status: str) -> None:
        name = data.draw(st.sampled_from(sorted(self.known)))
        schedule = self.known[name]

        self.run(self.nodes[node].schedules.patch(self.caller.tenant, name, {"status": status}))

        if status == "paused":
            schedule.active = False
        elif not schedule.active:
            schedule.resume(self.clock.now())

    @precondition(lambda self: self.known)
    @rule(node=st.integers(0, 1), data=st.data())
    def delete(self, node: int, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.known)))

        assert self.run(self.nodes[node].schedules.delete(self.caller.tenant, name))

        self.ended[name] = self.known.pop(name)

    def teardown(self) -> None:
        for name in sorted(self.known):
            self.run(self.nodes[0].schedules.delete(self.caller.tenant, name))
        found: dict[str, list[datetime]] = {}
        while messages := self.run(self.caller.receive(QUEUE, 1000, visibility_timeout_s=40_000)):
            for message in messages:
                moment = json.loads(message.headers or "{}")["_schedule"]["scheduled_for"]
                found.setdefault(message.body, []).append(datetime.fromisoformat(moment))
        expected = {name: known.fired for name, known in {**self.known, **self.ended}.items() if known.fired}
        assert {name: sorted(times) for name, times in found.items()} == expected


@pytest.mark.hypothesis
@pytest.mark.parametrize("kind", ["postgres", "sqlite-memory"])
def test_schedules_behave_like_their_model(request: pytest.FixtureRequest, kind: str) -> None:
    run_machine(request, kind, Machine)


@pytest.mark.parametrize("start", [datetime(2026, 3, 28, 12, tzinfo=UTC), datetime(2026, 10, 24, 12, tzinfo=UTC)])
async def test_an_occurrence_fires_once_across_a_change_of_the_clocks(store: Store, start: datetime) -> None:
    clock = FakeClock(start)
    tenant = await store.create_tenant(f"tenant-{uuid4().hex}", clock.now())
    caller = Caller(store, tenant.id, clock)
    nodes = [Engine(store, clock), Engine(store, clock)]
    await caller.make_queue(QUEUE)
    given = {"cron": "*/30 * * * *", "timezone": "Europe/Berlin", "target": QUEUE, "target_kind": TargetKind.QUEUE}
    await nodes[0].schedules.create(tenant.id, "berlin", {**given, "body": "x", "catchup": True})

    for _ in range(96):
        clock.advance(seconds=900)
        for node in nodes:
            await node.schedules.fire_due()

    await nodes[0].schedules.delete(tenant.id, "berlin")
    messages = await caller.receive(QUEUE, 1000)
    times = [json.loads(message.headers or "{}")["_schedule"]["scheduled_for"] for message in messages]
    moments = [datetime.fromisoformat(time) for time in times]
    assert len(set(moments)) == len(moments)
    assert moments == sorted(moments)
    assert moments[-1] - moments[0] == timedelta(hours=23, minutes=30)

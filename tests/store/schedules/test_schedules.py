"""Schedules: the contract of every store, through the engine that computes their times."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from penstock.clock import FakeClock
from penstock.engine import Engine
from penstock.engine.schedules.schedules import FULL_LOOK, plan
from penstock.errors import Invalid, QueueNotFound, ScheduleExists, ScheduleNotFound, StreamNotFound, Unsupported
from penstock.loops.scheduler import Scheduler
from penstock.model import TenantId
from penstock.model.jobs import LeaseRequest
from penstock.model.schedules import ScheduleStatus, TargetKind, TimetableKind
from penstock.model.topics import NewSubscription
from penstock.store import Store
from tests.store.caller import Caller
from tests.store.conftest import MakeQueue


@pytest.fixture
def engine(store: Store, clock: FakeClock) -> Engine:
    return Engine(store, clock)


@pytest.fixture
def schedules(engine: Engine, tenant: TenantId, make_queue: MakeQueue, caller: Caller) -> Owner:
    return Owner(engine, tenant, caller)


class Owner:
    """One tenant's schedules. Rounds fire everyone's: what other tenants left behind in the database as well."""

    def __init__(self, engine: Engine, tenant: TenantId, caller: Caller) -> None:
        self.engine = engine
        self.tenant = tenant
        self.caller = caller

    async def create(self, name: str = "tick", **given: Any) -> None:
        given = {"every": "1m", "target_kind": TargetKind.QUEUE, "target": "orders", "body": '{"n": 1}'} | given
        given = {field: value for field, value in given.items() if value is not None}
        if given["target_kind"] is TargetKind.QUEUE:
            await self.caller.make_queue(given["target"])
        await self.engine.schedules.create(self.tenant, name, given)

    async def get(self, name: str = "tick") -> Any:
        return await self.engine.schedules.get(self.tenant, name)

    async def patch(self, name: str = "tick", **given: Any) -> Any:
        return await self.engine.schedules.patch(self.tenant, name, given)

    async def subscribe(
        self, queue: str, topic: str | None = None, pattern: str | None = None, **attributes: str
    ) -> None:
        await self.caller.make_queue(queue)
        new = NewSubscription(
            tenant=self.tenant,
            topic=topic,
            pattern=pattern,
            protocol="sqs",
            endpoint=queue,
            target=queue,
            confirmed=True,
            attributes={"RawMessageDelivery": "true", **attributes},
        )
        await self.engine.topics.subscribe(new)

    async def fire(self) -> None:
        for _ in range(50):
            due, _ = await self.engine.schedules.fire_due()
            if not due:
                return

    async def marks(self, queue: str = "orders") -> list[dict[str, Any]]:
        """The `_schedule` headers of all messages, which are received by this."""
        found = await self.caller.receive(queue, 1000, visibility_timeout_s=3600)
        return [json.loads(message.headers or "{}")["_schedule"] for message in found]

    async def times(self, queue: str = "orders") -> list[str]:
        return [mark["scheduled_for"][11:19] for mark in await self.marks(queue)]


@pytest.fixture(autouse=True)
async def _alone(store: Store, clock: FakeClock) -> None:
    """No schedule of an earlier test is due: they share a database, and rounds know no tenants."""
    for _ in range(100):
        found = await store.schedules.due(clock.now() + timedelta(days=4000), 1000)
        for schedule in found:
            await store.schedules.delete(schedule.tenant, schedule.name)
        if not found:
            return


async def test_a_due_schedule_sends_its_message_and_moves_on(schedules: Owner, clock: FakeClock) -> None:
    await schedules.create(headers='{"trace":"abc"}', priority=7)
    clock.advance(seconds=60)

    await schedules.fire()

    [message] = await schedules.caller.receive("orders", 10)
    assert (message.body, message.json, message.priority) == ('{"n": 1}', True, 7)
    assert json.loads(message.headers or "") == {
        "trace": "abc",
        "_schedule": {"name": "tick", "scheduled_for": "2026-01-01T00:01:00Z", "out_of_band": False},
    }
    found = await schedules.get()
    assert found.next_fire_at == datetime(2026, 1, 1, 0, 2, tzinfo=UTC)
    assert found.last_fire_at == datetime(2026, 1, 1, 0, 1, tzinfo=UTC)
    assert found.fires == 1


async def test_nothing_fires_before_its_time(schedules: Owner, clock: FakeClock) -> None:
    await schedules.create()
    clock.advance(seconds=59.999)

    await schedules.fire()

    assert await schedules.times() == []


async def test_a_firing_made_for_a_time_that_is_no_longer_next_does_nothing(
    schedules: Owner, store: Store, clock: FakeClock
) -> None:
    await schedules.create()
    clock.advance(seconds=60)
    [due] = await store.schedules.due(clock.now(), 10)
    firing = plan(due, clock.now())

    first = await store.schedules.fire([firing], clock.now())
    second = await store.schedules.fire([firing], clock.now())
    clock.advance(seconds=60)
    third = await store.schedules.fire([firing], clock.now())

    assert [len(first), len(second), len(third)] == [1, 0, 0]
    assert await schedules.times() == ["00:01:00"]


async def test_a_firing_for_a_schedule_changed_meanwhile_does_nothing(
    schedules: Owner, store: Store, clock: FakeClock
) -> None:
    """What comes next was worked out from the settings before, also where both have the same next time."""
    await schedules.create()
    clock.advance(seconds=60)
    [due] = await store.schedules.due(clock.now(), 10)
    # The clock of the node that takes the change is a little behind.
    clock.advance(seconds=-1)
    changed = await schedules.patch(every="1d", start_at=due.next_fire_at)
    clock.advance(seconds=1)

    assert changed.next_fire_at == due.next_fire_at
    assert await store.schedules.fire([plan(due, clock.now())], clock.now()) == []
    await schedules.fire()
    assert await schedules.times() == ["00:01:00"]
    assert (await schedules.get()).next_fire_at - due.next_fire_at == timedelta(days=1)


async def test_a_firing_for_a_schedule_paused_meanwhile_does_nothing(
    schedules: Owner, store: Store, clock: FakeClock
) -> None:
    await schedules.create()
    clock.advance(seconds=60)
    [due] = await store.schedules.due(clock.now(), 10)
    await schedules.patch(status=ScheduleStatus.PAUSED)

    assert await store.schedules.fire([plan(due, clock.now())], clock.now()) == []


async def test_without_catchup_the_first_missed_fire_stands_for_all(schedules: Owner, clock: FakeClock) -> None:
    await schedules.create()
    clock.advance(seconds=10 * 60 + 5)

    await schedules.fire()

    assert await schedules.times() == ["00:01:00"]
    assert (await schedules.get()).next_fire_at == datetime(2026, 1, 1, 0, 11, tzinfo=UTC)


async def test_catchup_fires_what_was_missed_in_order(schedules: Owner, clock: FakeClock) -> None:
    await schedules.create(catchup=True)
    clock.advance(seconds=4 * 60 + 5)

    await schedules.fire()

    assert await schedules.times() == ["00:01:00", "00:02:00", "00:03:00", "00:04:00"]
    assert (await schedules.get()).fires == 4


async def test_catchup_is_bounded(schedules: Owner, clock: FakeClock) -> None:
    await schedules.create(catchup=True, catchup_limit=3)
    clock.advance(seconds=3600)

    await schedules.fire()

    assert await schedules.times() == ["00:01:00", "00:02:00", "00:03:00"]
    assert (await schedules.get()).next_fire_at == datetime(2026, 1, 1, 1, 1, tzinfo=UTC)


async def test_a_one_shot_is_gone_once_it_has_fired(schedules: Owner, clock: FakeClock) -> None:
    await schedules.create(every=None, fire_at="2026-01-01T00:00:30Z")
    clock.advance(seconds=31)

    await schedules.fire()

    assert await schedules.times() == ["00:00:30"]
    with pytest.raises(ScheduleNotFound):
        await schedules.get()


async def test_a_moment_that_has_passed_is_refused(schedules: Owner) -> None:
    with pytest.raises(Invalid, match="in the past") as caught:
        await schedules.create(every=None, fire_at="2025-12-31T23:59:59Z")

    assert caught.value.field == "fire_at"


async def test_a_failing_schedule_leaves_its_neighbours_alone_and_waits_longer_each_time(
    schedules: Owner, clock: FakeClock, store: Store
) -> None:
    await schedules.create("bad", target="missing")
    await schedules.create("good", target="orders")
    await store.drop_queue(schedules.tenant, "missing")
    clock.advance(seconds=60)

    waits = []
    for _ in range(4):
        await schedules.fire()
        failed = await schedules.get("bad")
        waits.append((failed.due_at - clock.now()).total_seconds())
        clock.advance(seconds=waits[-1])

    assert await schedules.times() == ["00:01:00"]
    assert waits == [1, 2, 4, 8]
    assert failed.consecutive_failures == 4
    assert "missing" in failed.last_error
    assert failed.next_fire_at == datetime(2026, 1, 1, 0, 1, tzinfo=UTC)


async def test_a_timetable_that_can_no_longer_be_read_fails_alone(
    schedules: Owner, clock: FakeClock, store: Store
) -> None:
    await schedules.create("bad", target="orders")
    await schedules.create("good", target="orders")
    bad = await schedules.get("bad")
    broken = replace(bad.settings, kind=TimetableKind.CRON, expression="0 0 * * *", timezone="Atlantis/Poseidonis")
    await store.schedules.update(replace(bad, settings=broken), clock.now())
    clock.advance(seconds=60)

    await schedules.fire()

    assert await schedules.times() == ["00:01:00"]
    failed = await schedules.get("bad")
    assert (failed.consecutive_failures, "Atlantis" in failed.last_error) == (1, True)


async def test_too_many_failures_pause_it_and_a_success_forgets_them(
    schedules: Owner, clock: FakeClock, store: Store
) -> None:
    await schedules.create(failure_threshold=3)
    await store.drop_queue(schedules.tenant, "orders")
    clock.advance(seconds=60)
    for _ in range(2):
        await schedules.fire()
        clock.advance(seconds=10)
    assert (await schedules.get()).status is ScheduleStatus.ACTIVE

    await schedules.fire()

    found = await schedules.get()
    assert (found.status, found.consecutive_failures) == (ScheduleStatus.PAUSED, 3)

    await schedules.caller.make_queue("orders")
    resumed = await schedules.patch(status=ScheduleStatus.ACTIVE)
    assert (resumed.consecutive_failures, resumed.last_error) == (0, None)
    clock.advance(seconds=60)
    await schedules.fire()
    assert await schedules.times() == ["00:02:00"]


async def test_a_catch_up_that_fails_half_way_leaves_nothing_behind(
    schedules: Owner, clock: FakeClock, make_queue: MakeQueue
) -> None:
    await make_queue("short", max_length=2)
    await schedules.create(target="short", catchup=True)
    clock.advance(seconds=300)

    await schedules.fire()

    assert await schedules.times("short") == []
    assert (await schedules.caller.counts("short")).total == 0
    assert (await schedules.get()).consecutive_failures == 1


async def test_what_passed_while_it_was_paused_is_not_made_up_for(schedules: Owner, clock: FakeClock) -> None:
    await schedules.create(catchup=True)
    await schedules.patch(status=ScheduleStatus.PAUSED)
    clock.advance(seconds=3600)
    await schedules.fire()
    assert await schedules.times() == []

    resumed = await schedules.patch(status=ScheduleStatus.ACTIVE)

    assert resumed.next_fire_at == datetime(2026, 1, 1, 1, 1, tzinfo=UTC)


async def test_a_change_that_was_worked_out_before_a_fire_is_not_written(
    schedules: Owner, store: Store, clock: FakeClock
) -> None:
    await schedules.create()
    before = await schedules.get()
    clock.advance(seconds=60)
    await schedules.fire()

    assert await store.schedules.update(replace(before, status=ScheduleStatus.PAUSED), clock.now()) is None
    assert (await schedules.get()).next_fire_at == datetime(2026, 1, 1, 0, 2, tzinfo=UTC)


async def test_a_fifo_queue_is_fed_by_group_and_time(schedules: Owner, clock: FakeClock) -> None:
    await schedules.create("daily.report", target="reports.fifo", catchup=True)
    clock.advance(seconds=125)

    await schedules.fire()

    found = await schedules.caller.receive("reports.fifo", 10)
    assert [message.group_id for message in found] == ["daily.report", "daily.report"]
    assert [message.dedup_id for message in found] == [
        "daily.report@2026-01-01T00:01:00Z",
        "daily.report@2026-01-01T00:02:00Z",
    ]


async def test_a_run_by_hand_is_out_of_band_and_moves_nothing(schedules: Owner, clock: FakeClock) -> None:
    await schedules.create()
    before = await schedules.get()
    await schedules.patch(status=ScheduleStatus.PAUSED)
    clock.advance(seconds=5)

    fired = await schedules.engine.schedules.run(schedules.tenant, "tick")

    [message] = await schedules.caller.receive("orders", 10)
    assert fired.ids == (message.id,)
    assert json.loads(message.headers or "")["_schedule"] == {
        "name": "tick",
        "scheduled_for": "2026-01-01T00:00:05Z",
        "out_of_band": True,
    }
    assert (await schedules.get()).next_fire_at == before.next_fire_at


async def test_a_run_at_a_queue_that_is_gone_says_so(schedules: Owner, store: Store) -> None:
    await schedules.create()
    await store.drop_queue(schedules.tenant, "orders")

    with pytest.raises(QueueNotFound):
        await schedules.engine.schedules.run(schedules.tenant, "tick")


async def test_jitter_delays_a_fire_but_not_its_time(schedules: Owner, clock: FakeClock) -> None:
    await schedules.create(jitter_s=30)
    found = await schedules.get()
    late = (found.due_at - found.next_fire_at).total_seconds()
    assert 0 < late < 30

    clock.advance(seconds=60 + late / 2)
    await schedules.fire()
    assert await schedules.times() == []
    clock.advance(seconds=late / 2 + 0.001)
    await schedules.fire()

    assert await schedules.times() == ["00:01:00"]


async def test_jitter_longer_than_the_rhythm_is_refused(schedules: Owner) -> None:
    with pytest.raises(Invalid, match="jitter"):
        await schedules.create(jitter_s=61)


async def test_a_name_is_taken_once(schedules: Owner) -> None:
    await schedules.create()

    with pytest.raises(ScheduleExists):
        await schedules.create()


async def test_put_creates_then_changes_then_leaves_alone(schedules: Owner, clock: FakeClock) -> None:
    await schedules.caller.make_queue("orders")
    engine, tenant = schedules.engine.schedules, schedules.tenant
    given = {"every": "1m", "target_kind": TargetKind.QUEUE, "target": "orders"}

    made, created = await engine.put(tenant, "tick", given)
    clock.advance(seconds=30)
    same, created_again = await engine.put(tenant, "tick", given)
    other, _ = await engine.put(tenant, "tick", {**given, "every": "1h"})

    assert (created, created_again) == (True, False)
    assert same == made
    assert other.next_fire_at == datetime(2026, 1, 1, 1, tzinfo=UTC)
    assert other.id == made.id


async def test_put_forgets_what_it_does_not_say_and_patch_keeps_it(schedules: Owner) -> None:
    await schedules.create(priority=9, catchup=True)

    patched = await schedules.patch(catchup=False)
    put, _ = await schedules.engine.schedules.put(
        schedules.tenant, "tick", {"every": "1m", "target_kind": TargetKind.QUEUE, "target": "orders"}
    )

    assert (patched.settings.priority, patched.settings.catchup) == (9, False)
    assert put.settings.priority is None


async def test_a_patch_of_the_time_zone_reads_the_expression_again(schedules: Owner) -> None:
    await schedules.create(every=None, cron="0 9 * * *")

    patched = await schedules.patch(timezone="America/New_York")

    assert patched.next_fire_at == datetime(2026, 1, 1, 14, tzinfo=UTC)


async def test_listing_is_by_name_and_by_what_is_asked_for(schedules: Owner) -> None:
    for name in ("b-two", "a-one", "b-one"):
        await schedules.create(name)
    await schedules.patch("b-one", status=ScheduleStatus.PAUSED)
    engine, tenant = schedules.engine.schedules, schedules.tenant

    async def names(**wanted: Any) -> list[str]:
        return [found.name for found in await engine.list(tenant, **wanted)]

    assert await names() == ["a-one", "b-one", "b-two"]
    assert await names(prefix="b-") == ["b-one", "b-two"]
    assert await names(status=ScheduleStatus.PAUSED) == ["b-one"]
    assert await names(kind=TargetKind.TOPIC) == []


async def test_tenants_do_not_see_each_others_schedules(schedules: Owner, store: Store, clock: FakeClock) -> None:
    await schedules.create()
    stranger = (await store.create_tenant(f"stranger-{schedules.tenant}", clock.now())).id

    with pytest.raises(ScheduleNotFound):
        await store.schedules.get(stranger, "tick")
    assert await store.schedules.delete(stranger, "tick") is False
    assert list(await schedules.engine.schedules.list(stranger)) == []


async def test_delete_is_done_once(schedules: Owner) -> None:
    await schedules.create()

    assert await schedules.engine.schedules.delete(schedules.tenant, "tick") is True
    assert await schedules.engine.schedules.delete(schedules.tenant, "tick") is False


async def test_a_schedule_for_a_queue_that_does_not_exist_is_refused(schedules: Owner) -> None:
    with pytest.raises(QueueNotFound):
        await schedules.engine.schedules.create(
            schedules.tenant, "tick", {"every": "1m", "target_kind": TargetKind.QUEUE, "target": "nowhere"}
        )


class TestTargets:
    async def test_an_event_reaches_every_pattern_that_fits(self, schedules: Owner, clock: FakeClock) -> None:
        for queue, pattern in (("all", "#"), ("eu", "orders.*.eu"), ("us", "orders.*.us")):
            await schedules.subscribe(queue, pattern=pattern)
        await schedules.create(target_kind=TargetKind.TOPIC, target="orders.new.eu", catchup=True)
        clock.advance(seconds=125)

        await schedules.fire()

        assert await schedules.times("all") == await schedules.times("eu") == ["00:01:00", "00:02:00"]
        assert await schedules.times("us") == []

    async def test_a_topic_of_that_name_comes_before_an_event(self, schedules: Owner, clock: FakeClock) -> None:
        await schedules.engine.topics.create(schedules.tenant, "news")
        await schedules.subscribe("letters", topic="news")
        await schedules.create(target_kind=TargetKind.TOPIC, target="news", headers='{"a":1}')
        clock.advance(seconds=60)

        await schedules.fire()
        fired = await schedules.engine.schedules.run(schedules.tenant, "tick")

        assert [mark["out_of_band"] for mark in await schedules.marks("letters")] == [False, True]
        assert len(fired.ids) == 1

    async def test_a_fifo_topic_is_fed_in_order(self, schedules: Owner, clock: FakeClock) -> None:
        await schedules.engine.topics.create(schedules.tenant, "news.fifo")
        await schedules.subscribe("letters.fifo", topic="news.fifo")
        await schedules.create(target_kind=TargetKind.TOPIC, target="news.fifo", catchup=True)
        clock.advance(seconds=185)

        await schedules.fire()

        assert await schedules.times("letters.fifo") == ["00:01:00", "00:02:00", "00:03:00"]

    async def test_mail_subscribers_of_a_topic_are_in_the_outbox(self, schedules: Owner, clock: FakeClock) -> None:
        await schedules.engine.topics.create(schedules.tenant, "news")
        filtered = {"FilterPolicy": json.dumps({"kind": ["sport"]}), "FilterPolicyScope": "MessageBody"}
        for protocol, address, attributes in (
            ("email", "ada@example.com", {}),
            ("sms", "+15551234567", {}),
            ("email", "bob@example.com", filtered),
            ("email", "eve@example.com", filtered | {"FilterPolicy": '{"kind":["weather"]}'}),
        ):
            new = NewSubscription(
                tenant=schedules.tenant, topic="news", protocol=protocol, endpoint=address, attributes=attributes
            )
            await schedules.engine.topics.subscribe(new)
        await schedules.create(target_kind=TargetKind.TOPIC, target="news", body='{"kind":"sport"}')
        clock.advance(seconds=60)

        await schedules.fire()
        await schedules.engine.topics.send_outgoing()

        items = await schedules.engine.outbox.list(schedules.tenant)
        assert sorted((item.channel.value, item.address, item.topic, item.body) for item in items) == [
            ("email", "ada@example.com", "news", '{"kind":"sport"}'),
            ("email", "bob@example.com", "news", '{"kind":"sport"}'),
            ("sms", "+15551234567", "news", '{"kind":"sport"}'),
        ]

    async def test_a_filter_is_honoured(self, schedules: Owner, clock: FakeClock) -> None:
        await schedules.engine.topics.create(schedules.tenant, "news")
        for queue, kind in (("wants", "sport"), ("declines", "weather")):
            policy = {"FilterPolicy": json.dumps({"kind": [kind]}), "FilterPolicyScope": "MessageBody"}
            await schedules.subscribe(queue, topic="news", **policy)
        await schedules.create(target_kind=TargetKind.TOPIC, target="news", body='{"kind":"sport"}')
        clock.advance(seconds=60)

        await schedules.fire()
        await schedules.engine.topics.send_outgoing()

        assert await schedules.times("wants") == ["00:01:00"]
        assert await schedules.times("declines") == []

    @pytest.mark.parametrize(
        ("body", "payload"),
        [('{"n": 1}', {"n": 1, "_schedule": True}), ("{ }", {"_schedule": True}), ("[1]", [1])],
        ids=["object", "empty", "list"],
    )
    async def test_a_job_is_made(self, schedules: Owner, clock: FakeClock, body: str, payload: Any) -> None:
        await schedules.create(target_kind=TargetKind.JOB, target="reports", body=body, priority=5)
        clock.advance(seconds=60)

        await schedules.fire()

        request = LeaseRequest(tenant=schedules.tenant, queue="reports", lease_s=30, workers=["w1", "w2"])
        [job] = await schedules.engine.jobs.lease(request)
        found = json.loads(job.payload)
        if isinstance(found, dict):
            assert found["_schedule"] == {
                "name": "tick",
                "scheduled_for": "2026-01-01T00:01:00Z",
                "out_of_band": False,
            }
            found["_schedule"] = True
        assert (found, job.priority) == (payload, 5)

    async def test_a_run_answers_with_the_job(self, schedules: Owner) -> None:
        await schedules.create(target_kind=TargetKind.JOB, target="reports")

        fired = await schedules.engine.schedules.run(schedules.tenant, "tick")

        job = await schedules.engine.jobs.get(schedules.tenant, str(fired.ids[0]))
        assert job.queue == "reports"


async def test_a_stream_must_be_there_and_needs_postgresql(schedules: Owner, store: Store) -> None:
    refused = StreamNotFound if store.kind == "postgres" else Unsupported
    with pytest.raises(refused):
        await schedules.create(target_kind=TargetKind.STREAM, target="log")


async def test_the_duty_fires_everything_due_and_sleeps_until_the_next(schedules: Owner, clock: FakeClock) -> None:
    for number in range(70):
        await schedules.create(f"tick-{number}")
    scheduler = Scheduler(schedules.engine, poll_s=5.0)
    clock.advance(seconds=60)

    fired = await scheduler.once()

    assert fired == 70
    assert scheduler.pause(fired) == 5.0
    clock.advance(seconds=58)
    assert await scheduler.once() == 0
    assert scheduler.pause(0) == 2.0


async def test_what_lies_behind_a_place_is_not_met(schedules: Owner, store: Store, clock: FakeClock) -> None:
    for name in ("a", "b", "c"):
        await schedules.create(name)
    clock.advance(seconds=60)
    [first, second, third] = await store.schedules.due(clock.now(), 10)

    rest = await store.schedules.due(clock.now(), 10, (first.due_at, first.id))

    assert [found.id for found in rest] == [second.id, third.id]
    assert await store.schedules.next_due_at((third.due_at, third.id)) is None
    assert await store.schedules.next_due_at((second.due_at, second.id)) == third.due_at


async def test_a_one_shot_resumed_after_its_moment_is_found_by_every_node(
    schedules: Owner, store: Store, clock: FakeClock
) -> None:
    other = Scheduler(Engine(store, clock))
    await schedules.create(every=None, fire_at="2026-01-01T00:00:30Z")
    await schedules.patch(status=ScheduleStatus.PAUSED)
    clock.advance(seconds=3600)
    for _ in range(3):
        assert await other.once() == 0

    await schedules.patch(status=ScheduleStatus.ACTIVE)

    assert sum([await other.once() for _ in range(FULL_LOOK)]) == 1
    assert await schedules.times() == ["00:00:30"]


async def test_fires_are_remembered(schedules: Owner, clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> None:
    for store in ("postgres", "sqlite"):
        monkeypatch.setattr(f"penstock.store.{store}.schedules.schedules.KEPT_FIRES", 3)
    await schedules.create(every="1m")
    clock.advance(seconds=61)
    await schedules.fire()
    await schedules.engine.schedules.run(schedules.tenant, "tick")
    found = await schedules.get()
    last, first = await schedules.engine.schedules.fires(found)

    assert (first.by_hand, first.times, first.error) == (False, 1, None)
    assert (first.fired_at - first.scheduled_for).total_seconds() == 1
    assert last.by_hand
    assert {first.sent_id, last.sent_id} == {str(one.id) for one in await schedules.caller.receive("orders", 10)}

    await schedules.engine.queues.drop(schedules.tenant, "orders")
    for _ in range(5):
        clock.advance(seconds=600)
        await schedules.fire()
    found = await schedules.get()
    kept = await schedules.engine.schedules.fires(found)
    assert len(kept) <= 4
    assert all("orders" in (one.error or "") and one.sent_id is None for one in kept)
    clock.advance(seconds=32 * 86_400)
    while await schedules.engine.schedules.sweep_fires():
        pass
    assert await schedules.engine.schedules.fires(found) == []

"""Schedules that SQL creates: checked by the rules of the engine, and planned and fired by a server."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from penstock.clock import FakeClock, SystemClock
from penstock.engine import Engine
from penstock.engine.schedules import cron
from penstock.engine.schedules.errors import ScheduleTextError
from penstock.engine.schedules.settings import timetable_of
from penstock.engine.schedules.timetable import from_every
from penstock.model import TenantId
from penstock.model.schedules import ScheduleStatus, TimetableKind
from penstock.store import Store
from tests.store.postgres_only.roles import User

CREATE = "select penstock.create_schedule('nightly', %s)"


@pytest.fixture
def closed_store(postgres_store: Store) -> Store:
    return postgres_store


@pytest.fixture
def clock() -> FakeClock:
    """SQL has the time of the database, so this clock begins there."""
    return FakeClock(SystemClock().now() + timedelta(seconds=1))


@pytest.fixture
def engine(store: Store, clock: FakeClock) -> Engine:
    return Engine(store, clock)


@pytest.fixture
def user(store: Store, tenant: TenantId, postgres_dsn: str) -> Iterator[User]:
    with psycopg.connect(postgres_dsn, autocommit=True) as connection:
        connection.execute(
            "select set_config('penstock.tenant', name, false) from penstock.tenants where id = %s", [tenant]
        )
        user = User(connection)
        user.one("select penstock.create_queue('orders')")
        yield user


def create(user: User, **settings: Any) -> bool:
    return bool(user.one(CREATE, Jsonb({"target": "orders", **settings})))


def fires(user: User) -> int:
    return int(user.one("select fires from penstock.list_schedules()"))


async def test_it_fires_by_its_timetable(user: User, engine: Engine, tenant: TenantId, clock: FakeClock) -> None:
    assert create(user, every="1m", message={"report": "sales"}, headers={"by": "sql"}, priority=7)
    assert user.rows("select next_fire_at, fires from penstock.list_schedules()") == [(None, 0)]

    await engine.schedules.fire_due()
    [[planned]] = user.rows("select next_fire_at from penstock.list_schedules()")
    assert clock.now() < planned <= clock.now() + timedelta(minutes=1)
    assert user.rows("select penstock.receive('orders')") == []

    clock.advance(seconds=60)
    await engine.schedules.fire_due()
    [[body, headers, priority]] = user.rows("select body, headers, priority from penstock.receive('orders')")
    assert (body, headers["by"], headers["_schedule"]["name"], priority) == ('{"report": "sales"}', "sql", "nightly", 7)


async def test_it_is_as_if_the_server_had_created_it(user: User, engine: Engine, tenant: TenantId) -> None:
    given = {"cron": "30 8 * * mon#1", "timezone": "europe/berlin", "jitter_s": 60, "catchup": True, "status": "paused"}
    create(user, **given, message="hello", delay_s=5)

    found = await engine.schedules.get(tenant, "nightly")
    expected = await engine.schedules.create(
        tenant,
        "other",
        {**given, "target_kind": "queue", "target": "orders", "body": "hello", "json": False, "delay_s": 5},
    )
    assert found.settings == expected.settings
    assert found.next_fire_at == expected.next_fire_at
    assert found.status is ScheduleStatus.PAUSED


async def test_one_moment(user: User, engine: Engine, tenant: TenantId, clock: FakeClock) -> None:
    moment = (clock.now() + timedelta(hours=1)).isoformat()
    create(user, fire_at=moment, message="once")
    await engine.schedules.fire_due()
    clock.advance(seconds=3601)

    await engine.schedules.fire_due()
    assert user.rows("select * from penstock.list_schedules()") == []
    assert user.rows("select body from penstock.pop('orders')") == [("once",)]


async def test_a_schedule_that_no_server_saw_for_an_hour_fires_what_it_missed_once(
    user: User, engine: Engine, clock: FakeClock
) -> None:
    create(user, every="1m")
    clock.advance(seconds=3600)

    await engine.schedules.fire_due()
    assert fires(user) == 0
    await engine.schedules.fire_due()
    assert fires(user) == 1


async def test_paused_and_resumed_it_goes_on_after_now(
    user: User, engine: Engine, tenant: TenantId, clock: FakeClock
) -> None:
    create(user, every="1m")
    await engine.schedules.fire_due()

    assert user.one("select penstock.pause_schedule('nightly')")
    assert not user.one("select penstock.pause_schedule('nightly')")
    clock.advance(seconds=3600)
    await engine.schedules.fire_due()
    assert user.one("select penstock.resume_schedule('nightly')")
    assert not user.one("select penstock.resume_schedule('nightly')")
    # SQL counts from its own time, which is an hour before that of this clock.
    assert (await engine.schedules.get(tenant, "nightly")).next_fire_at < clock.now() - timedelta(minutes=50)
    assert fires(user) == 0
    assert user.one("select penstock.drop_schedule('nightly')")
    assert not user.one("select penstock.drop_schedule('nightly')")


async def test_a_change_before_the_plan_keeps_the_plan(
    user: User, engine: Engine, tenant: TenantId, clock: FakeClock
) -> None:
    create(user, every="1h")
    changed = await engine.schedules.patch(tenant, "nightly", {"priority": 3})

    assert changed.next_fire_at > clock.now() - timedelta(seconds=2)
    assert changed.settings.priority == 3
    await engine.schedules.fire_due()
    assert fires(user) == 0


async def test_what_only_a_server_can_tell_pauses_the_schedule(user: User, engine: Engine, tenant: TenantId) -> None:
    create(user, cron="* * * * *", jitter_s=3600)
    await engine.schedules.fire_due()

    [[status, error]] = user.rows("select status, last_error from penstock.list_schedules()")
    assert (status, error) == ("paused", "jitter must be shorter than the time between two fires")


def test_it_belongs_to_its_transaction(user: User) -> None:
    with user.connection.transaction(force_rollback=True):
        create(user, every="1m")

    assert user.rows("select * from penstock.list_schedules()") == []
    assert create(user, every="1m")
    assert not create(user, every="2m")
    assert user.rows("select expression from penstock.list_schedules()") == [("1m",)]


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({}, "cron"),
        ({"cron": "* * * * *", "every": "1m"}, "cron"),
        ({"cron": "61 * * * *"}, "cron"),
        ({"every": "soon"}, "every"),
        ({"every": "1m", "start_at": "tomorrow"}, "start_at"),
        ({"cron": "* * * * *", "start_at": "2030-01-01T00:00:00Z"}, "start_at"),
        ({"fire_at": "2020-01-01T00:00:00Z"}, "fire_at"),
        ({"fire_at": "2030-01-01T00:00:00"}, "fire_at"),
        ({"fire_at": "2030-02-31T00:00:00Z"}, "fire_at"),
        ({"every": "1m", "timezone": "Europe/Atlantis"}, "timezone"),
        ({"every": "1m", "target": None}, "target"),
        ({"every": "1m", "target": "a b", "target_kind": "job"}, "target"),
        ({"every": "1m", "target": "a..b", "target_kind": "topic"}, "target"),
        ({"every": "1m", "target_kind": "table"}, "target_kind"),
        ({"every": "1m", "priority": 1001}, "priority"),
        ({"every": "1m", "delay_s": -1}, "delay_s"),
        ({"every": "1m", "jitter_s": 86401}, "jitter_s"),
        ({"every": "1m", "catchup_limit": 0}, "catchup_limit"),
        ({"every": "1m", "failure_threshold": 0}, "failure_threshold"),
        ({"every": "1m", "status": "done"}, "status"),
        ({"every": "1m", "group_id": "a b"}, "group_id"),
        ({"every": "1m", "headers": []}, "headers"),
        ({"every": "1m", "headers": {"_schedule": 1}}, "headers"),
        ({"every": "1m", "message": "x" * 1_048_577}, "message"),
        ({"every": "1m", "when": "daily"}, "when"),
        ({"every": "1m", "priority": "high"}, "settings"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_mistakes_are_named(user: User, settings: dict[str, Any], field: str) -> None:
    assert user.complaint(CREATE, Jsonb({"target": "orders", **settings})) == ("PS010", field)


def test_an_unknown_setting_is_answered_with_those_that_are_known(user: User) -> None:
    with pytest.raises(psycopg.Error, match=r"unknown setting jitter; known: target, .*jitter_s, .*headers"):
        create(user, every="1m", jitter=5)


@pytest.mark.parametrize(
    ("target", "code"), [({"target": "none"}, "PS021"), ({"target": "none", "target_kind": "stream"}, "PS029")]
)
def test_the_target_must_exist(user: User, target: dict[str, str], code: str) -> None:
    assert user.refused(CREATE, Jsonb({"every": "1m", **target})) == code


CRONS = [
    *("* * * * *", "*/5 * * * *", "0 9 * * 1-5", "0 9 * * mon-fri", "0 0 1,15 * ?", "0 0 ? * sun", "@daily", "@HOURLY"),
    *("0 0 L * *", "0 0 LW * *", "0 0 * * 5L", "0 0 * * 1#2", "0 0 * * MON#5", "30 0 9 * * *", "*/30 * * * * *"),
    *(
        "0 8-18/2 * * *",
        "0 9 * jan,MAR *",
        "5/15 * * * *",
        "0 0 31 * *",
        "0 0 29 2 *",
        "0 0 L/2 * *",
        "0 9 * * * | @daily",
    ),
    *("0 0 * * 7", "00 09 * * *", "0 0 31 2,3 *", "0 0 30 2 1", "*,5 * * * *", "0 0 1-7 * 1#1,5L", "  0   0 * * *  "),
    *(
        "0 0 * * 05L",
        "0 0 * * 1#02",
        "0 0 * * sat-sat",
        "1-5/3,7 * * * *",
        "0 0 L,15 * *",
        "0/59 * * * *",
        "*/70 * * * *",
    ),
]
NOT_CRONS = [
    *(
        "",
        "@",
        "@often",
        "* * * *",
        "* * * * * * *",
        "60 * * * *",
        "* 24 * * *",
        "* * 0 * *",
        "* * 32 * *",
        "* * * 13 *",
    ),
    *("* * * * 8", "*/0 * * * *", "5-1 * * * *", "a * * * *", "1,,2 * * * *", ", * * * *", "1/ * * * *", "/5 * * * *"),
    *(
        "* * * * 1#6",
        "* * * * 1#0",
        "* * * * #2",
        "* * * * L",
        "* * * * 5L/2",
        "* * * * monL",
        "0 0 30 2 *",
        "0 0 31 4,6 *",
    ),
    *(
        "? * * * *",
        "* * L-2 * *",
        "* * W * *",
        "00001 * * * *",
        "1-2-3 * * * *",
        "* * * * fri-mon",
        "* * * foo *",
        "1 2 3 4 5|",
    ),
    *("|".join(["* * * * *"] * 9), "0 0 * * 1#2#3", "*/2/3 * * * *", "- * * * *", "1- * * * *", "ä * * * *"),
]


@pytest.mark.parametrize("text", CRONS)
def test_sql_reads_a_cron_expression_as_the_engine_does(user: User, text: str) -> None:
    assert user.one("select penstock.read_crons(%s)", text) == cron.parse(text).text


@pytest.mark.parametrize("text", NOT_CRONS)
def test_and_refuses_what_the_engine_refuses(user: User, text: str) -> None:
    with pytest.raises(ScheduleTextError):
        cron.parse(text)
    assert user.complaint("select penstock.read_crons(%s)", text) == ("PS010", "cron")


DURATIONS = [
    *(
        "90s",
        "1h30m",
        "1 hour and 30 minutes",
        "2 Days",
        "1w",
        "1500ms",
        "PT5M",
        "P1DT12H",
        "pt90s",
        "P2W",
        "every 5 minutes",
    ),
    *("1w2d3h4m5s6ms", " 5m ", "1 hr 5 mins", "3660d", "1h and 5m", "86400 seconds"),
]
NOT_DURATIONS = [
    *(
        "",
        "5",
        "m",
        "-5s",
        "5s5s",
        "5s 1h",
        "1.5h",
        "0s",
        "PT",
        "P",
        "P1H",
        "PT5",
        "5 fortnights",
        "1h!",
        "9" * 50,
        "500ms",
    ),
    *("3661d", "1hand 5m", "999999999w"),
]


@pytest.mark.parametrize("text", DURATIONS)
def test_sql_reads_a_duration_as_the_engine_does(user: User, text: str) -> None:
    assert user.one("select penstock.read_duration(%s)", text) == from_every(text).expression


@pytest.mark.parametrize("text", NOT_DURATIONS, ids=lambda text: text[:9])
def test_and_refuses_other_durations_too(user: User, text: str) -> None:
    with pytest.raises(ScheduleTextError):
        from_every(text)
    assert user.complaint("select penstock.read_duration(%s)", text) == ("PS010", "every")


async def test_a_moment_has_the_form_of_the_engine(user: User, engine: Engine, tenant: TenantId) -> None:
    for text in ("2030-12-24T18:00:00Z", "2030-12-24 18:00+05:30", "2030-12-24T18:00:00.120000-0100"):
        create(user, fire_at=text)
        settings = (await engine.schedules.get(tenant, "nightly")).settings
        expected = engine.schedules.preview({"fire_at": text})

        assert settings.kind is TimetableKind.ONCE
        assert timetable_of(settings) == expected
        user.one("select penstock.drop_schedule('nightly')")

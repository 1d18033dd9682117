"""Insights over the native REST API: what the pipeline recorded, as it was recorded."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from datetime import datetime, timedelta
from typing import Any

import httpx
import psycopg
import pytest

from penstock.auth import Mode
from penstock.model import DEFAULT_TENANT, Scope
from penstock.store.postgres.store import PostgresStore
from tests import cluster
from tests.wire.conftest import Live, running

HOUR = timedelta(hours=1)


@pytest.fixture
def dsn(postgres_dsn: str) -> Iterator[str]:
    with cluster.migrated_database(postgres_dsn) as found:
        yield found


@pytest.fixture
async def server(dsn: str) -> AsyncIterator[Live]:
    async with running(store=PostgresStore(dsn)) as live:
        yield live


@pytest.fixture
def now(server: Live) -> datetime:
    return server.engine.clock.now()


def insight(starts_at: datetime, **values: Any) -> dict[str, Any]:
    usual = {
        "tenant": "default", "step": "hour", "kind": "queue", "name": "letters", "starts_at": starts_at.isoformat(),
        "sent": 5, "done": 4, "retried": 1, "failed": 1, "dead": 0, "retry_rate": 0.2, "dead_rate": 0.0,
        "per_second": 0.5, "p50_s": 1.0, "p95_s": 2.0, "p99_s": 3.0, "max_s": 4.0,
    }  # fmt: skip
    return usual | values


def error(starts_at: datetime, **values: Any) -> dict[str, Any]:
    usual = {
        "tenant": "default", "kind": "job", "name": "mail", "starts_at": starts_at.isoformat(),
        "shape": "no route to <address>", "count": 1, "example": "no route to 10.0.0.1",
    }  # fmt: skip
    return usual | values


def record(dsn: str, function: str, rows: list[dict[str, Any]], moment: datetime) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(f"select penstock.{function}(%s::jsonb, %s)", [json.dumps(rows), moment])


async def get(client: httpx.AsyncClient, path: str = "/v1/insights", **query: Any) -> Any:
    answer = await client.get(path, params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_an_hour_is_shown_as_it_was_recorded(client: httpx.AsyncClient, dsn: str, now: datetime) -> None:
    record(dsn, "record_insights", [insight(now - HOUR)], now)

    [found] = await get(client)

    assert datetime.fromisoformat(found.pop("starts_at")) == now - HOUR
    assert datetime.fromisoformat(found.pop("recorded_at")) == now
    assert found == {
        "kind": "queue", "name": "letters", "sent": 5, "done": 4, "retried": 1, "failed": 1, "dead": 0,
        "retry_rate": 0.2, "dead_rate": 0.0, "per_second": 0.5,
        "latency": {"p50": 1.0, "p95": 2.0, "p99": 3.0, "max": 4.0},
    }  # fmt: skip


async def test_what_never_ended_has_no_latency_and_no_rates(client: httpx.AsyncClient, dsn: str, now: datetime) -> None:
    nothing = dict.fromkeys(("retry_rate", "dead_rate", "p50_s", "p95_s", "p99_s", "max_s"))
    record(dsn, "record_insights", [insight(now, done=0, **nothing)], now)

    [found] = await get(client)

    assert (found["latency"], found["retry_rate"], found["dead_rate"]) == (None, None, None)


async def test_the_newest_hours_come_first_and_are_narrowed_by_kind_name_and_time(
    client: httpx.AsyncClient, dsn: str, now: datetime
) -> None:
    rows = [
        insight(now - age * HOUR, kind=kind, name=name)
        for age, kind, name in [
            (1, "job", "mail"),
            (3, "queue", "a"),
            (2, "queue", "b"),
            (2, "queue", "a"),
            (30, "job", "x"),
        ]
    ]
    record(dsn, "record_insights", rows, now)

    def shown(found: Any) -> list[tuple[str, str]]:
        return [(each["kind"], each["name"]) for each in found]

    assert shown(await get(client)) == [("job", "mail"), ("queue", "a"), ("queue", "b"), ("queue", "a")]
    assert shown(await get(client, kind="job")) == [("job", "mail")]
    assert shown(await get(client, name="a")) == [("queue", "a"), ("queue", "a")]
    assert shown(await get(client, kind="job", name="a")) == []
    assert shown(await get(client, **{"from": (now - 31 * HOUR).isoformat(), "to": (now - 3 * HOUR).isoformat()})) == [
        ("job", "x")
    ]


async def test_pages_follow_one_another_whatever_the_hour_they_end_in(
    client: httpx.AsyncClient, dsn: str, now: datetime
) -> None:
    rows = [insight(now - age * HOUR, kind=kind, name=name) for age in (1, 2) for kind, name in [
        ("job", "b,c"), ("job", "b"), ("queue", "a")]]  # fmt: skip
    record(dsn, "record_insights", rows, now)

    whole, paged, after = await get(client), [], ""
    while page := await get(client, limit=2, after=after):
        paged += page
        after = ",".join(page[-1][part] for part in ("starts_at", "kind", "name"))

    assert len(whole) == 6
    assert paged == whole


async def test_a_limit_counts_only_what_a_token_reaches(dsn: str) -> None:
    async with running(store=PostgresStore(dsn), mode=Mode.TOKEN) as live:
        now = live.engine.clock.now()
        _, some = await live.engine.tenants.create_token(
            DEFAULT_TENANT, "some", frozenset({Scope.READ}), queues="[m-z]*"
        )
        record(dsn, "record_insights", [insight(now, name=name) for name in ("a", "b", "mail")], now)
        record(dsn, "record_insight_errors", [error(now, name="a", count=9), error(now)], now)
        async with live.client(some) as client:
            rows = await get(client, limit=1)
            errors = await get(client, "/v1/insights/errors", limit=1)
            others = await get(client, name="a")

    assert [found["name"] for found in (*rows, *errors, *others)] == ["mail", "mail"]


async def test_days_are_rows_of_their_own(client: httpx.AsyncClient, dsn: str, now: datetime) -> None:
    record(dsn, "record_insights", [insight(now - HOUR), insight(now - 20 * 24 * HOUR, step="day", sent=100)], now)

    assert [found["sent"] for found in await get(client, step="hour")] == [5]
    assert [found["sent"] for found in await get(client, step="day")] == [100]


async def test_recording_again_changes_nothing_and_settling_removes_what_is_not_there_any_more(
    client: httpx.AsyncClient, dsn: str, now: datetime
) -> None:
    old, gone, stays = insight(now - 5 * HOUR), insight(now - HOUR, name="gone"), insight(now - HOUR, name="stays")
    forgotten = insight(now - 91 * 24 * HOUR)
    for moment in (now - HOUR, now - HOUR):
        record(dsn, "record_insights", [old, gone, stays, forgotten], moment)
        record(dsn, "record_insight_errors", [error(now - HOUR), error(now - HOUR, name="gone")], moment)
    record(dsn, "record_insights", [stays | {"sent": 7}], now)
    record(dsn, "record_insight_errors", [error(now - HOUR, count=3)], now)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("select penstock.settle_insights(%s, %s, '90 days', '730 days')", [now - 2 * HOUR, now])

    found = await get(client, **{"from": (now - 100 * 24 * HOUR).isoformat()})
    errors = await get(client, "/v1/insights/errors")

    assert [(each["name"], each["sent"]) for each in found] == [("stays", 7), ("letters", 5)]
    assert [(each["name"], each["count"]) for each in errors] == [("mail", 3)]


async def test_errors_are_summed_over_the_hours_and_the_most_frequent_come_first(
    client: httpx.AsyncClient, dsn: str, now: datetime
) -> None:
    rare = error(now - HOUR, shape="out of memory", example="out of memory", count=4)
    record(dsn, "record_insight_errors", [error(now - HOUR, count=2), error(now - 2 * HOUR, count=3), rare], now)

    both = await get(client, "/v1/insights/errors")
    first = await get(client, "/v1/insights/errors", limit=1, kind="job", name="mail")

    assert [(each["shape"], each["count"]) for each in both] == [("no route to <address>", 5), ("out of memory", 4)]
    assert first == both[:1]
    assert datetime.fromisoformat(both[0]["first_at"]) == now - 2 * HOUR
    assert datetime.fromisoformat(both[0]["last_at"]) == now - HOUR


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"kind": "cats"}, "kind"),
        ({"step": "week"}, "step"),
        ({"from": "yesterday"}, "from"),
        ({"from": "2026-01-02T00:00:00Z", "to": "2026-01-01T00:00:00Z"}, "from"),
        ({"limit": "0"}, "limit"),
        ({"after": "yesterday,job,mail"}, "after"),
        ({"colour": "red"}, "colour"),
    ],
    ids=["kind", "step", "moment", "order", "limit", "place", "unknown"],
)
async def test_bad_questions_name_the_field(client: httpx.AsyncClient, query: dict[str, str], field: str) -> None:
    answer = await client.get("/v1/insights", params=query)

    assert (answer.status_code, answer.json()["field"]) == (400, field)


async def test_a_tenant_and_a_token_see_only_their_own(dsn: str) -> None:
    async with running(store=PostgresStore(dsn), mode=Mode.TOKEN) as live:
        other, now = await live.engine.tenants.create("other"), live.engine.clock.now()
        read = frozenset({Scope.READ})
        _, mine = await live.engine.tenants.create_token(DEFAULT_TENANT, "mine", read)
        _, some = await live.engine.tenants.create_token(DEFAULT_TENANT, "some", read, queues="letters*")
        _, sender = await live.engine.tenants.create_token(DEFAULT_TENANT, "sender", frozenset({Scope.SEND}))
        _, theirs = await live.engine.tenants.create_token(other.id, "theirs", read)
        record(dsn, "record_insights", [insight(now), insight(now, name="secret"), insight(now, tenant="gone")], now)
        record(dsn, "record_insight_errors", [error(now), error(now, name="letters")], now)
        found = {}
        for token in (mine, theirs, some, sender):
            async with live.client(token) as client:
                answers = [await client.get(path) for path in ("/v1/insights", "/v1/insights/errors")]
                found[token] = [len(each.json()) if each.status_code == 200 else each.status_code for each in answers]

    assert found == {mine: [2, 2], theirs: [0, 0], some: [1, 1], sender: [403, 403]}


async def test_a_store_without_postgresql_says_so() -> None:
    async with running() as live, live.client() as client:
        answers = [await client.get(path) for path in ("/v1/insights", "/v1/insights/errors")]

    assert [answer.status_code for answer in answers] == [501, 501]


async def test_questions_are_answered(client: httpx.AsyncClient, dsn: str, now: datetime) -> None:
    past = [now - timedelta(days=2), now - timedelta(days=3)]
    hours = [
        *(insight(at, name="slow", sent=70, done=50, p95_s=1.0) for at in past),
        insight(now - HOUR, name="slow", sent=20, done=50, p95_s=4.0),
        *(insight(at, name="even", sent=70, p95_s=1.0, done=50) for at in past),
        insight(now - HOUR, name="even", sent=20, p95_s=1.1, done=50),
        insight(now - HOUR, kind="job", name="busy", sent=500, done=0, p95_s=None, p50_s=None, p99_s=None, max_s=None),
    ]
    record(dsn, "record_insights", hours, now)
    record(dsn, "record_insight_errors", [error(now - timedelta(days=3)), error(now - HOUR)], now)
    new = error(now - HOUR, shape="no disk <n>", example="no disk 7", count=3)
    record(dsn, "record_insight_errors", [error(now - HOUR), new], now)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(
            "insert into penstock.samples (tenant_id, kind, name, step, starts_at, waiting)"
            " select 1, 'queue', q.name, 1, %s - make_interval(mins => n), q.size - n * q.growth"
            " from generate_series(1, 20) as n, (values ('full', 500, 10), ('calm', 500, 0)) as q (name, size, growth)",
            [now],
        )

    found = await get(client, "/v1/insights/findings")

    told = {(each["question"], each["name"]): (each["before"], round(each["now"], 3)) for each in found}
    assert told == {
        ("slower", "slow"): (1.0, 4.0),
        ("growing", "busy"): (0.0, 500.0),
        ("tenant_growing", "default"): (40.0, 540.0),
        ("new_error", "mail"): (0.0, 3.0),
        ("filling", "full"): (490.0, 1090.0),
    }
    assert [each["detail"] for each in found if each["question"] == "new_error"] == ["no disk 7"]
    assert [each["points"] for each in found] == [None] * 5
    with_points = await get(client, "/v1/insights/findings", points="true")
    points = {each["question"]: [(p["at"], p["value"]) for p in each["points"]] for each in with_points}
    assert [value for _, value in points["slower"]] == [1.0, 1.0, 4.0]
    assert [value for _, value in points["tenant_growing"]] == [140.0, 140.0, 540.0]
    assert [value for _, value in points["growing"]] == [500.0]
    depths, forecast = points["filling"][:20], points["filling"][20:]
    assert [value for _, value in depths] == [300.0 + 10 * n for n in range(20)]
    assert [round(value) for _, value in forecast] == [490 + 50 * n for n in range(1, 13)]
    assert depths[-1][0] < now.isoformat()[:19] < forecast[0][0]
    page = await client.get("/ui/pipelines")
    assert [text in page.text for text in ("filling up", "queue full", "tenant default", "no disk 7")] == [True] * 4

"""Pipelines and their runs over the native REST API."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from datetime import datetime, timedelta
from typing import Any

import httpx
import psycopg
import pytest

from penstock.auth import Mode
from penstock.model import DEFAULT_TENANT, Scope
from penstock.model.pipelines import PIPELINES
from penstock.store.postgres.store import PostgresStore
from tests import cluster
from tests.wire.conftest import Live, running


@pytest.fixture
def dsn(postgres_dsn: str) -> Iterator[str]:
    with cluster.migrated_database(postgres_dsn) as found:
        yield found


@pytest.fixture
async def server(dsn: str) -> AsyncIterator[Live]:
    async with running(store=PostgresStore(dsn)) as live:
        yield live


def begin(dsn: str, pipeline: str, now: datetime, tenant: str = "default") -> int:
    with psycopg.connect(dsn, autocommit=True) as connection:
        row = connection.execute(
            "select penstock.start_pipeline_run(%s, %s, %s::jsonb, %s)", [tenant, pipeline, '{"lake": "/lake"}', now]
        ).fetchone()
    assert row is not None
    return int(row[0])


def report(dsn: str, run: int, state: str, now: datetime, error: str | None = None) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(
            "select penstock.report_pipeline_run(%s, %s, 30, 2, 7, 1.5, 'copying', %s, %s::jsonb, %s)",
            [run, state, error, '{"queries": []}', now],
        )


async def last(client: httpx.AsyncClient, pipeline: str) -> Any:
    answer = await client.get("/v1/pipelines")
    assert answer.status_code == 200, answer.text
    return {found["name"]: found["last_run"] for found in answer.json()}[pipeline]


async def test_every_pipeline_is_listed_with_its_last_run(client: httpx.AsyncClient, server: Live, dsn: str) -> None:
    now = server.engine.clock.now()
    begin(dsn, "archive", now)
    second = begin(dsn, "archive", now)
    report(dsn, second, "running", now)

    listed = (await client.get("/v1/pipelines")).json()

    assert [(found["name"], found["summary"]) for found in listed] == list(PIPELINES.items())
    assert [found["name"] for found in listed if found["last_run"]] == ["archive"]
    found = await last(client, "archive")
    assert (found["id"], found["state"], found["rows"], found["batches"]) == (second, "running", 30, 2)
    assert (found["lag_events"], found["lag"], found["note"], found["error"]) == (7, 1.5, "copying", None)
    assert (found["settings"], found["progress"]) == ({"lake": "/lake"}, {"queries": []})


async def test_a_run_that_gives_no_sign_of_life_is_lost_until_it_does(
    client: httpx.AsyncClient, server: Live, dsn: str
) -> None:
    now = server.engine.clock.now()
    run = begin(dsn, "cdc", now - timedelta(seconds=90))
    silent = (await last(client, "cdc"))["state"]
    report(dsn, run, "running", now)

    assert (silent, (await last(client, "cdc"))["state"]) == ("lost", "running")


async def test_runs_come_newest_first_of_one_pipeline_or_of_all(
    client: httpx.AsyncClient, server: Live, dsn: str
) -> None:
    now = server.engine.clock.now()
    first, second, third = (begin(dsn, name, now) for name in ("archive", "cdc", "archive"))
    report(dsn, first, "failed", now, error="no such stream")

    everything = (await client.get("/v1/pipelines/runs")).json()
    archive = (await client.get("/v1/pipelines/runs", params={"pipeline": "archive"})).json()
    newest = (await client.get("/v1/pipelines/runs", params={"limit": 1})).json()

    assert [run["id"] for run in everything] == [third, second, first]
    assert [(run["id"], run["state"], run["error"]) for run in archive] == [
        (third, "running", None),
        (first, "failed", "no such stream"),
    ]
    assert archive[1]["finished_at"] is not None
    assert [run["id"] for run in newest] == [third]


@pytest.mark.parametrize(
    ("query", "status", "field"),
    [({"limit": "0"}, 400, "limit"), ({"colour": "red"}, 400, "colour"), ({"pipeline": "nothing"}, 404, "pipeline")],
    ids=["limit", "unknown", "pipeline"],
)
async def test_bad_questions_name_the_field(
    client: httpx.AsyncClient, query: dict[str, str], status: int, field: str
) -> None:
    answer = await client.get("/v1/pipelines/runs", params=query)

    assert (answer.status_code, answer.json()["field"]) == (status, field)


@pytest.mark.parametrize("path", ["/v1/pipelines", "/v1/pipelines/runs"], ids=["pipelines", "runs"])
async def test_a_store_without_pipelines_says_so(path: str) -> None:
    async with running() as live, live.client() as client:
        answer = await client.get(path)

    assert (answer.status_code, answer.json()["code"]) == (501, "Unsupported")


async def test_old_runs_are_forgotten_when_a_new_one_begins(client: httpx.AsyncClient, server: Live, dsn: str) -> None:
    now = server.engine.clock.now()
    begin(dsn, "archive", now - timedelta(days=91))
    kept = begin(dsn, "archive", now - timedelta(days=89))
    new = begin(dsn, "archive", now)

    assert [run["id"] for run in (await client.get("/v1/pipelines/runs")).json()] == [new, kept]


async def test_a_thousand_runs_are_kept(client: httpx.AsyncClient, server: Live, dsn: str) -> None:
    now = server.engine.clock.now()
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(
            "select penstock.start_pipeline_run('default', 'cdc', '{}', %s) from generate_series(1, 1003)", [now]
        )
        row = connection.execute("select count(*), max(id) - min(id) from penstock.pipeline_runs").fetchone()

    assert row == (1000, 999)


async def test_a_tenant_and_a_token_see_only_their_own(dsn: str) -> None:
    async with running(store=PostgresStore(dsn), mode=Mode.TOKEN) as live:
        other = await live.engine.tenants.create("other")
        read = frozenset({Scope.READ})
        _, mine = await live.engine.tenants.create_token(DEFAULT_TENANT, "mine", read)
        _, some = await live.engine.tenants.create_token(DEFAULT_TENANT, "some", read, queues="orders-*")
        _, sender = await live.engine.tenants.create_token(DEFAULT_TENANT, "sender", frozenset({Scope.SEND}))
        _, theirs = await live.engine.tenants.create_token(other.id, "theirs", read)
        begin(dsn, "archive", live.engine.clock.now())
        found = {}
        for token in (mine, theirs, some, sender):
            async with live.client(token) as client:
                answer = await client.get("/v1/pipelines/runs")
                found[token] = len(answer.json()) if answer.status_code == 200 else answer.status_code

    assert found == {mine: 1, theirs: 0, some: 403, sender: 403}

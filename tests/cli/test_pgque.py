"""The program pgque, on a PostgreSQL without and with a Penstock server."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from typing import Any

import msgspec
import psycopg
import pytest

from penstock.cli import pgque
from tests.cli.commands import Done, penstock
from tests.store.streams.api.test_lifecycle import CRON


class QueueLine(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    depth: int
    rate: float
    rotation_s: float
    consumers: int
    dlq: int
    paused: bool
    health: str


class ConsumerLine(msgspec.Struct, forbid_unknown_fields=True):
    queue: str
    consumer: str
    lag_s: float
    pending: int
    status: str


class Component(msgspec.Struct, forbid_unknown_fields=True):
    component: str
    status: str
    detail: str | None


class Status(msgspec.Struct, forbid_unknown_fields=True):
    system: list[Component]
    queues: list[QueueLine]
    consumers: list[ConsumerLine]


class DeadLine(msgspec.Struct, forbid_unknown_fields=True):
    id: int
    consumer: str
    reason: str
    died_at: str
    event: int


def run(*arguments: str, code: int = 0) -> Done:
    out, err = io.StringIO(), io.StringIO()
    found: Any = 0
    with redirect_stdout(out), redirect_stderr(err):
        try:
            pgque.main(list(arguments))
        except SystemExit as end:
            found = end.code or 0
    assert found == code, (arguments, out.getvalue(), err.getvalue())
    return Done(found, out.getvalue(), err.getvalue())


def read(shape: Any, *arguments: str) -> Any:
    return msgspec.json.decode(run(*arguments, "--json").out, type=shape)


@pytest.fixture
def database(fresh_database: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """An empty database, which PGQUE_DSN names."""
    monkeypatch.setenv("PGQUE_DSN", fresh_database)
    return fresh_database


@pytest.fixture
def session(database: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(database, autocommit=True) as connection:
        yield connection


def bury(session: psycopg.Connection[Any], count: int) -> None:
    """Make dead letters of consumer `app`."""
    for number in range(count):
        session.execute("select pgque.send('orders', 'paid'::text, %s::text)", [str(number)])
    session.execute("select pgque.tick_now('orders')")
    session.execute("select pgque.nack(m.batch_id, m) from pgque.receive('orders', 'app') as m")
    session.execute(
        "select pgque.ack(batch_id) from pgque.get_consumer_info(), lateral (select current_batch) as b (batch_id)"
    )


def test_a_database_without_a_server_from_install_to_uninstall(session: psycopg.Connection[Any]) -> None:
    assert "run: pgque install" in run("queues", code=1).err
    run("upgrade", code=4)
    assert "would be installed" in run("install", "--dry-run").err
    run("queues", code=1)
    assert json.loads(run("install", "--json").out)["installed"] is None
    assert run("upgrade").err.endswith("is upgraded\n")

    run("create-queue", "orders", "--set", "max_retries=many", code=2)
    run("create-queue", "orders", "--set", "max_retries=0")
    assert "exists already" in run("create-queue", "orders").err
    session.execute("select pgque.subscribe('orders', 'app')")
    bury(session, 3)
    [queue] = read(list[QueueLine], "queues")
    assert (queue.name, queue.depth, queue.consumers, queue.dlq, queue.health) == ("orders", 0, 1, 3, "ok")
    assert len(read(list[DeadLine], "replay-dlq", "orders", "--dry-run")) == 3
    assert read(dict[str, int], "replay-dlq", "orders", "--limit", "1") == {"replayed": 1}
    assert read(dict[str, int], "purge-dlq", "orders", "--older-than", "1h") == {"deleted": 0}
    assert read(dict[str, int], "purge-dlq", "orders", "--older-than", "0s", "--dry-run")["would_delete"] == 2
    assert read(dict[str, int], "replay-dlq", "orders") == {"replayed": 2}

    assert "still has 3 events" in run("drain", "orders", "--timeout", "0s", code=1).err
    assert json.loads(run("depth", "orders", "--json").out) == {"queue": "orders", "depth": 3}
    assert run("depth", "orders", "--watch", "0s", "--count", "2").out.count("█") == 3
    [consumer] = read(list[ConsumerLine], "consumers", "orders")
    assert (consumer.consumer, consumer.pending, consumer.status) == ("app", 3, "ok")
    found = read(Status, "status")
    assert {one.component for one in found.system} >= {"pgque", "postgresql", "pg_cron", "ticker", "maint"}
    assert "orders" in run("status").out
    assert run("status", "--columns", "queues").out.startswith("Queues:\n")
    bury(session, 0)
    assert json.loads(run("drain", "orders", "--json").out)["depth"] == 0

    run("pause", "orders")
    assert read(list[QueueLine], "queues")[0].paused
    run("resume", "orders")
    for missing in (("depth", "none"), ("drop-queue", "none"), ("consumers", "none"), ("pause", "none")):
        run(*missing, code=4)
    assert "add --force" in run("drop-queue", "orders", code=2).err
    run("drop-queue", "orders", "--force", "--dry-run")
    run("drop-queue", "orders", "--force")
    run("uninstall", code=2)
    assert run("uninstall", "--force").err == "pgque is removed, with 0 queues\n"
    run("uninstall", "--force", code=4)


def test_pg_cron_is_started_and_stopped(session: psycopg.Connection[Any]) -> None:
    run("install")
    refused = run("start", code=1)
    assert refused.err.startswith("pgque: pg_cron is not installed in this database. Install pg_cron")
    session.execute(CRON)
    run("start")
    assert {one.component: one.status for one in read(Status, "status").system}["ticker"] == "scheduled"
    run("stop")
    assert session.execute("select count(*) from cron.job").fetchone() == (0,)


def test_without_a_database_the_program_says_what_to_give(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PGQUE_DSN", "DATABASE_URL", "PGHOST", "PGDATABASE"):
        monkeypatch.delenv(name, raising=False)
    assert "--dsn" in run("status", code=2).err
    assert "cannot connect" in run("status", "-d", "postgresql://127.0.0.1:1/none", code=1).err


def test_the_streams_of_a_server_are_ticked_upgraded_and_removed(migrated_database: str) -> None:
    store = ("--database-url", migrated_database)
    assert penstock("stream", "create", "audit", *store).code == 0
    assert json.loads(penstock("stream", "tick", "audit", "--json", *store).out) == {"ticked": False}
    penstock("stream", "send", "audit", "{}", *store)
    assert json.loads(penstock("stream", "tick", "audit", "--json", *store).out) == {"ticked": True}
    assert penstock("stream", "tick", "none", *store).code == 4
    assert penstock("stream", "upgrade", *store).out == "the schema is up to date\n"

    assert penstock("stream", "uninstall", *store).code == 2
    assert "would be removed, with 1 queue\n" in penstock("stream", "uninstall", "--dry-run", *store).err
    assert penstock("stream", "uninstall", "--force", *store).code == 0
    assert penstock("stream", "list", *store).code == 1
    assert penstock("stream", "upgrade", *store).out == "applied streams\n"
    assert json.loads(penstock("stream", "list", "--json", *store).out) == []
    assert penstock("pgque", "upgrade", "--dsn", migrated_database).code == 0


def test_streams_of_a_sqlite_file_cannot_be_removed(tmp_path: Any) -> None:
    store = ("--sqlite", str(tmp_path / "queues.db"))
    assert penstock("stream", "uninstall", "--force", *store).code == 4
    penstock("queue", "create", "a", *store)
    penstock("tenant", "create", "a", *store)
    assert "streams require PostgreSQL" in penstock("stream", "uninstall", "--force", *store).err

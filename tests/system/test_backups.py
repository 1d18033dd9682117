"""A backup of a store in use, restored elsewhere."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from penstock.store.postgres.embedded.server import EmbeddedPostgres
from tests.cli.commands import penstock
from tests.system.serving import Running, serving


class Load:
    """Sends to a server until it is told to stop, and counts what was acknowledged."""

    def __init__(self, client: httpx.Client) -> None:
        self._client = client
        self._stop = threading.Event()
        self._some = threading.Event()
        self.acknowledged = 0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        for number in range(20_000):
            if self._stop.is_set():
                return
            answer = self._client.post("/v1/queues/orders/messages", json={"message": {"order": number}})
            assert answer.status_code == 201
            self.acknowledged += 1
            if self.acknowledged >= 20:
                self._some.set()

    def wait_for_some(self) -> int:
        assert self._some.wait(30)
        return self.acknowledged

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(30)


def prepare(client: httpx.Client, *, streams: bool) -> None:
    def post(path: str, body: Any) -> Any:
        answer = client.post(path, json=body)
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None

    post("/v1/queues", {"name": "orders"})
    post("/v1/queues", {"name": "reports"})
    post("/v1/schedules", {"name": "nightly", "cron": "0 2 * * *", "target": "reports"})
    post("/v1/tokens", {"name": "billing", "scopes": ["send"]})
    for number in range(5):
        post("/jobs", {"queue_name": "emails", "payload": number})
    if streams:
        post("/v1/streams", {"name": "audit"})
        post("/v1/streams/audit/consumers", {"name": "shop"})
        for expected in ("first", "second"):
            post("/v1/streams/audit/events", {"payload": expected})
            if expected == "first":
                batch = client.get("/v1/streams/audit/consumers/shop/batch?wait=10").json()
                assert [event["payload"] for event in batch["events"]] == ["first"]
                post(f"/v1/streams/audit/consumers/shop/batches/{batch['batch_id']}/ack", None)


def backed_up_under_load(server: Running, store: tuple[str, str], file: Path, *, streams: bool) -> int:
    """Back up while messages arrive; the number that was acknowledged before the backup began."""
    with server.client() as client, server.client() as sender:
        prepare(client, streams=streams)
        load = Load(sender)
        try:
            before = load.wait_for_some()
            done = penstock("backup", str(file), *store)
            assert done.code == 0, done
        finally:
            load.stop()
    assert load.acknowledged > before
    return before


def check_restored(store: tuple[str, str], before: int) -> None:
    def listed(*command: str) -> Any:
        done = penstock(*command, "--json", *store)
        assert done.code == 0, done
        return json.loads(done.out)

    counts = {found["queue"]: found for found in listed("queue", "list")}
    assert counts["orders"]["visible"] >= before
    assert [found["name"] for found in listed("schedule", "list")] == ["nightly"]
    assert [found["name"] for found in listed("token", "list")] == ["billing"]
    assert len(listed("job", "list", "--queue", "emails")) == 5


@pytest.mark.slow
def test_an_embedded_postgresql_is_restored_with_the_positions_of_its_streams(tmp_path: Path) -> None:
    file, old, new = tmp_path / "backup", ("--data", str(tmp_path / "old")), ("--data", str(tmp_path / "new"))
    with serving(*old) as server:
        before = backed_up_under_load(server, old, file, streams=True)

    assert file.stat().st_mode & 0o077 == 0
    restored = penstock("restore", str(file), *new)
    assert restored.code == 0, restored
    again = penstock("restore", str(file), *new)
    assert (again.code, "holds data already" in again.err) == (1, True)
    with serving(*new) as server, server.client() as client:
        check_restored(new, before)
        batch = client.get("/v1/streams/audit/consumers/shop/batch?wait=10").json()
        assert [event["payload"] for event in batch["events"]] == ["second"]


def test_a_sqlite_file_is_restored(tmp_path: Path) -> None:
    file, old, new = tmp_path / "backup", ("--sqlite", str(tmp_path / "a.db")), ("--sqlite", str(tmp_path / "b.db"))
    with serving(*old) as server:
        before = backed_up_under_load(server, old, file, streams=False)

    assert file.stat().st_mode & 0o077 == 0
    assert penstock("backup", str(file), *old).code == 1
    assert penstock("restore", str(file), *new).code == 0
    assert penstock("restore", str(file), *new).code == 1
    check_restored(new, before)


def test_a_dump_is_restored_into_an_empty_database(migrated_database: str, fresh_database: str, tmp_path: Path) -> None:
    file, old, new = tmp_path / "backup", ("--database-url", migrated_database), ("--database-url", fresh_database)
    with serving(*old) as server:
        before = backed_up_under_load(server, old, file, streams=True)

    assert penstock("restore", str(file), *old).code == 1
    restored = penstock("restore", str(file), *new)
    assert restored.code == 0, restored
    check_restored(new, before)


def test_what_cannot_be_backed_up_or_restored_is_refused(tmp_path: Path) -> None:
    missing = ("--sqlite", str(tmp_path / "mistyped.db"))
    assert penstock("backup", str(tmp_path / "backup"), *missing).code == 4
    assert penstock("restore", str(tmp_path / "backup"), *missing).code == 4
    (tmp_path / "text").write_text("no backup")
    assert penstock("restore", str(tmp_path / "text"), *missing).code == 2
    assert [path.name for path in tmp_path.iterdir()] == ["text"]


def test_tables_of_users_of_the_embedded_database_are_apart_from_ours(tmp_path: Path) -> None:
    server = EmbeddedPostgres(tmp_path / "data")
    server.start()
    try:
        with psycopg.connect(server.dsn) as connection:
            connection.execute("create schema penstock")
            connection.execute("create table jobs (id integer)")
            found = connection.execute("select schemaname from pg_tables where tablename = 'jobs'").fetchall()
    finally:
        server.stop()
    assert found == [("public",)]

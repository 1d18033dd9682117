"""A backup of a store in use, restored elsewhere."""

from __future__ import annotations

import copy
import json
import sqlite3
import tarfile
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from penstock.store.postgres.embedded.server import EmbeddedPostgres
from tests.cli.commands import penstock
from tests.cluster import with_database
from tests.system.serving import Running, serving


@dataclass
class Acknowledged:
    """Everything that a server has confirmed so far."""

    messages: list[int] = field(default_factory=list)
    jobs: list[str] = field(default_factory=list)
    schedules: list[str] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    events: int = 0
    """Events 1 to this were sent to the stream."""
    position: int = 0
    """Events up to this one were acknowledged by the consumer."""


class Load:
    """Uses a server until it is told to stop, and notes what was acknowledged."""

    def __init__(self, client: httpx.Client, *, streams: bool) -> None:
        self._client, self._streams = client, streams
        self._stop = threading.Event()
        self._some = threading.Event()
        self._lock = threading.Lock()
        self._error: BaseException | None = None
        self.done = Acknowledged()
        self._post("/v1/queues", {"name": "orders"})
        self._post("/v1/queues", {"name": "reports"})
        if streams:
            self._post("/v1/streams", {"name": "audit"})
            self._post("/v1/streams/audit/consumers", {"name": "shop"})
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            for number in range(1, 5_000):
                if self._stop.is_set():
                    return
                with self._lock:
                    self._step(number)
                if number >= 60:
                    self._some.set()
        except BaseException as error:
            self._error = error
            self._some.set()

    def _step(self, number: int) -> None:
        done = self.done
        done.messages.append(self._post("/v1/queues/orders/messages", {"message": {"order": number}})["id"])
        if number % 3 == 0:
            done.jobs.append(self._post("/jobs", {"queue_name": "emails", "payload": number})["job_id"])
        if number % 20 == 0:
            name = f"nightly-{number}"
            self._post("/v1/schedules", {"name": name, "cron": "0 2 * * *", "target": "reports"})
            done.schedules.append(name)
            done.tokens.append(self._post("/v1/tokens", {"name": f"t{number}", "scopes": ["send"]})["id"])
        if self._streams and number % 2 == 0:
            self._post("/v1/streams/audit/events", {"payload": done.events + 1})
            done.events += 1
        if self._streams and number % 25 == 0:
            batch = self._client.get("/v1/streams/audit/consumers/shop/batch?wait=5").json()
            if batch["batch_id"] is not None:
                self._post(f"/v1/streams/audit/consumers/shop/batches/{batch['batch_id']}/ack", None)
                done.position = batch["events"][-1]["payload"]

    def _post(self, path: str, body: Any) -> Any:
        answer = self._client.post(path, json=body)
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None

    def wait_for_some(self) -> Acknowledged:
        assert self._some.wait(60)
        assert self._error is None, self._error
        with self._lock:
            return copy.deepcopy(self.done)

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(30)
        assert self._error is None, self._error


def backed_up_under_load(server: Running, store: tuple[str, str], file: Path, *, streams: bool) -> Acknowledged:
    """Back up while everything arrives; what was acknowledged before the backup began."""
    with server.client() as client:
        load = Load(client, streams=streams)
        try:
            before = load.wait_for_some()
            done = penstock("backup", str(file), "--json", *store)
            assert done.code == 0, done
            assert json.loads(done.out) == {"file": str(file), "bytes": file.stat().st_size}
        finally:
            load.stop()
    assert len(load.done.messages) > len(before.messages)
    return before


def check_restored(store: tuple[str, str], before: Acknowledged) -> None:
    def listed(*command: str) -> Any:
        done = penstock(*command, "--json", *store)
        assert done.code == 0, done
        return json.loads(done.out)

    messages: set[int] = set()
    while found := listed("queue", "receive", "orders", "--max", "1000", "--delete"):
        messages |= {one["id"] for one in found}
    assert set(before.messages) <= messages
    assert set(before.jobs) <= {found["id"] for found in listed("job", "list", "--queue", "emails", "--limit", "1000")}
    assert set(before.schedules) <= {found["name"] for found in listed("schedule", "list")}
    assert set(before.tokens) <= {found["id"] for found in listed("token", "list")}
    assert len(before.messages) >= 60
    assert all((before.jobs, before.schedules, before.tokens))


def check_positions(dsn: str, before: Acknowledged) -> None:
    """The consumer continues where it was: it gets every event after its position, in order, and none before."""
    received: list[int] = []
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("select pgque.tick_now('audit')")
        while rows := connection.execute(
            "select batch_id, payload from pgque.receive('audit', 'shop', 1000) order by msg_id"
        ).fetchall():
            received += [int(payload) for _, payload in rows]
            connection.execute("select pgque.ack(%s)", [rows[0][0]])
    assert received, "the consumer got nothing"
    assert received == list(range(received[0], received[-1] + 1))
    assert before.position < received[0]
    assert received[-1] >= before.events


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
    with serving(*new):
        check_restored(new, before)
        check_positions(penstock("sql", "url", *new).out.strip(), before)


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
    restored = penstock("restore", str(file), "--json", *new)
    assert (restored.code, json.loads(restored.out)["streams_wait"]) == (0, False), restored
    check_restored(new, before)
    check_positions(fresh_database, before)


def test_what_cannot_be_backed_up_or_restored_is_refused(tmp_path: Path) -> None:
    missing = ("--sqlite", str(tmp_path / "mistyped.db"))
    assert penstock("backup", str(tmp_path / "backup"), *missing).code == 4
    assert penstock("restore", str(tmp_path / "backup"), *missing).code == 4
    (tmp_path / "text").write_text("no backup")
    assert penstock("restore", str(tmp_path / "text"), *missing).code == 2
    assert [path.name for path in tmp_path.iterdir()] == ["text"]


def test_a_damaged_backup_is_not_restored(tmp_path: Path) -> None:
    backup = tmp_path / "backup"
    with sqlite3.connect(tmp_path / "q.db") as connection:
        connection.execute("create table filler (text text)")
        connection.execute("insert into filler values (?)", ("x" * 100_000,))
    whole = (tmp_path / "q.db").read_bytes()
    backup.write_bytes(whole[: len(whole) // 2])
    done = penstock("restore", str(backup), "--sqlite", str(tmp_path / "new.db"))
    assert (done.code, done.err.startswith("penstock: the backup is damaged: ")) == (2, True), done

    with tarfile.open(backup, "w:gz") as packed:
        packed.add(tmp_path / "q.db", "q.db")
    backup.write_bytes(backup.read_bytes()[:-100])
    done = penstock("restore", str(backup), "--data", str(tmp_path / "new"))
    assert (done.code, done.err.startswith("penstock: the backup is damaged: ")) == (2, True), done
    assert not (tmp_path / "new" / "postgresql.new").exists()

    assert sorted(path.name for path in tmp_path.iterdir()) == ["backup", "new", "q.db"]


def test_a_backup_that_cannot_be_written_is_one_clear_line_and_leaves_nothing(tmp_path: Path) -> None:
    source = tmp_path / "text"
    source.write_text("no database at all" * 1000)
    done = penstock("backup", str(tmp_path / "backup"), "--sqlite", str(source))
    assert (done.code, done.err) == (1, f"penstock: cannot copy SQLite file {source}: file is not a database\n")

    done = penstock("backup", str(tmp_path / "none" / "backup"), "--sqlite", str(source))
    assert (done.code, done.err) == (4, f"penstock: there is no directory {tmp_path / 'none'}\n")
    assert list(tmp_path.iterdir()) == [source]


def test_a_database_to_restore_into_that_does_not_exist_is_named(postgres_dsn: str, tmp_path: Path) -> None:
    backup = tmp_path / "backup"
    backup.write_bytes(b"PGDMP and more")

    done = penstock("restore", str(backup), "--database-url", with_database(postgres_dsn, "nowhere"))

    assert (done.code, done.err) == (1, 'penstock: cannot connect to PostgreSQL: database "nowhere" does not exist\n')


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

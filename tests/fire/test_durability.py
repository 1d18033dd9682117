"""What survives a crash and a fail-over of PostgreSQL, and what is not promised: the checks tell the difference."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from penstock.store.postgres.backups import copy_cluster
from penstock.store.postgres.embedded.server import EmbeddedPostgres
from penstock.store.postgres.migrate import migrate
from tests import cluster
from tests.fire.checks.all import violations
from tests.fire.history import History, Recorder
from tests.fire.load.doors import Rest, Sql
from tests.fire.site import Node, Postgres, give_access

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

QUEUE = "work"
BATCHES = 30
LOST = {"synchronous_commit": "off", "wal_writer_delay": "10s"}
"""An acknowledged commit stays in memory for up to ten seconds."""


@pytest.fixture
def folder() -> Iterator[Path]:
    """PostgreSQL runs as another user, who must be able to pass."""
    with tempfile.TemporaryDirectory(prefix="penstock-fire-", dir=cluster.in_memory()) as name:
        Path(name).chmod(0o755)
        (Path(name) / "history").mkdir()
        yield Path(name)


def prepare(postgres: Postgres, recorder: Recorder) -> Sql:
    asyncio.run(migrate(postgres.dsn))
    door = Sql(recorder, [postgres.dsn])
    door.rows("select penstock.create_queue(%s)", QUEUE)
    recorder.end(recorder.begin("create", QUEUE, {}), "ok")
    one(postgres.dsn, "checkpoint")
    return door


def send(door: Sql) -> None:
    for batch in range(BATCHES):
        assert door.send(QUEUE, [{"body": f"{batch}-{n} x", "attributes": {}} for n in range(10)]).ok
    door.reconnect()


def lost(folder: Path, recorder: Recorder, dsn: str) -> int:
    """Receive all there is, and count what the checks miss."""
    door = Sql(recorder, [dsn])
    while found := door.receive(QUEUE, 1000, 30):
        door.delete(QUEUE, found)
    door.reconnect()
    found_wrong = violations(History.read(folder / "history"))
    assert {violation.check for violation in found_wrong} <= {"lost"}
    return len(found_wrong)


@pytest.mark.parametrize(("settings", "loses"), [({}, False), (LOST, True)], ids=["as it is", "commits not waited for"])
def test_a_crash_of_postgresql_loses_nothing_unless_commits_are_not_waited_for(
    folder: Path, settings: dict[str, str], loses: bool
) -> None:
    postgres = Postgres(folder / "data", settings)
    postgres.start()
    try:
        with Recorder(folder / "history", "client") as recorder:
            send(prepare(postgres, recorder))
            postgres.kill()
            postgres.revive()

            assert (lost(folder, recorder, postgres.dsn) > 0) is loses
    finally:
        postgres.stop()


def replica_of(primary: Path, folder: Path) -> Postgres:
    """A streaming replica: a copy of the cluster that follows the log of the primary."""
    source = EmbeddedPostgres(primary)
    with tempfile.TemporaryFile() as archive:
        copy_cluster(source.dsn, archive)
        archive.seek(0)
        EmbeddedPostgres(folder).restore(archive)
    shutil.copy(primary / "password", folder / "password")
    primary.chmod(0o755)  # the replica passes through it to the socket
    known = conninfo_to_dict(source.dsn)
    follow = make_conninfo("", **{key: known[key] for key in ("user", "password", "host", "port")})
    owner = (folder / "postgresql").stat()
    for name, text in (("standby.signal", ""), ("postgresql.auto.conf", f"primary_conninfo = '{follow}'\n")):
        file = folder / "postgresql" / name
        file.write_text(text)
        file.chmod(0o600)
        os.chown(file, owner.st_uid, owner.st_gid)
    replica = Postgres(folder)
    replica.start()
    return replica


def eventually(check: Callable[[], bool]) -> None:
    give_up = time.monotonic() + 60
    while not check():
        assert time.monotonic() < give_up, "it did not happen in time"
        time.sleep(0.05)


def one(dsn: str, query: str) -> object:
    with psycopg.connect(dsn, autocommit=True) as connection:
        cursor = connection.execute(query.encode())
        row = cursor.fetchone() if cursor.description is not None else None
        return None if row is None else row[0]


def promote(replica: Postgres) -> None:
    assert one(replica.dsn, "select pg_promote()") is True
    eventually(lambda: one(replica.dsn, "select pg_is_in_recovery()") is False)


class Sender:
    """A client that sends through a server, until it is told to stop."""

    def __init__(self, door: Rest) -> None:
        self.door = door
        self.acknowledged = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(30)

    def _run(self) -> None:
        sent = 0
        while not self._stop.is_set():
            messages = [{"body": f"{sent + n} x", "attributes": {}} for n in range(10)]
            sent += 10
            self.acknowledged += self.door.send(QUEUE, messages).ok


def left_out(postgres: Postgres) -> None:
    """The replica gets nothing more, as when the network between the two fails."""
    one(postgres.dsn, "alter system set primary_conninfo = ''")
    one(postgres.dsn, "select pg_reload_conf()")


@pytest.mark.parametrize("synchronous", [True, False], ids=["synchronous", "asynchronous"])
def test_a_fail_over_to_a_synchronous_replica_loses_nothing(folder: Path, synchronous: bool) -> None:
    """The primary is cut off from its replica, and dies a little later, while a client sends."""
    primary = Postgres(folder / "primary")
    primary.start()
    stack = ExitStack()
    stack.callback(primary.stop)
    with stack, Recorder(folder / "history", "client") as recorder:
        token = asyncio.run(give_access(primary.dsn)).token
        node = Node(0, primary.dsn, folder / "node.log")
        node.start()
        stack.callback(node.stop)
        node.await_ready()
        sender = Sender(Rest(recorder, [node.url], token))
        stack.callback(sender.door.close)
        sender.door.ask("POST", "/v1/queues", {"name": QUEUE})
        recorder.end(recorder.begin("create", QUEUE, {}), "ok")
        replica = replica_of(folder / "primary", folder / "replica")
        stack.callback(replica.stop)
        if synchronous:
            one(primary.dsn, "alter system set synchronous_standby_names = '*'")
            one(primary.dsn, "select pg_reload_conf()")
        wanted = "sync" if synchronous else "async"
        eventually(lambda: one(primary.dsn, "select sync_state from pg_stat_replication") == wanted)
        sender.start()
        eventually(lambda: sender.acknowledged > BATCHES)
        left_out(replica)
        eventually(lambda: one(primary.dsn, "select count(*) from pg_stat_replication") == 0)
        before = sender.acknowledged
        if synchronous:
            time.sleep(1)
            assert sender.acknowledged <= before + 1, "a send was acknowledged that the replica does not have"
        else:
            eventually(lambda: sender.acknowledged > before + BATCHES)
        primary.kill()
        sender.stop()
        promote(replica)
        node.stop()
        node.dsn = replica.dsn
        node.start()
        node.await_ready()

        assert (lost(folder, recorder, replica.dsn) > 0) is not synchronous
        # The server goes on with the new primary.
        assert sender.door.send(QUEUE, [{"body": "later x", "attributes": {}}]).ok

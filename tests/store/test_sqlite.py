"""What only the SQLite store has to show: its files, its plans, its migrations, its threads."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import re
import signal
import sqlite3
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from penstock.clock import FakeClock
from penstock.errors import Conflict, Invalid, MoveInProgress, NotFound, Unavailable
from penstock.model import DEFAULT_TENANT, Message, QueueSettings, Receive, Scope, Sent, TenantId
from penstock.queries import parse
from penstock.store.sqlite import queries
from penstock.store.sqlite.migrate import MIGRATIONS, migrate
from penstock.store.sqlite.moments import micros
from penstock.store.sqlite.store import SqliteStore
from tests.store.caller import Caller

SENDER = """
import asyncio, os, signal, sys
from datetime import UTC, datetime
from penstock.model import DEFAULT_TENANT, Message, QueueSettings, Send
from penstock.store.sqlite.store import SqliteStore

async def main():
    store = SqliteStore(sys.argv[1])
    await store.open()
    now = datetime(2026, 1, 1, tzinfo=UTC)
    await store.create_queue(DEFAULT_TENANT, "orders", QueueSettings(), now)
    await store.send_many([Send(tenant=DEFAULT_TENANT, queue="orders", body="acknowledged")], now)
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "queues.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(path)
    await store.open()
    yield store
    await store.close()


@pytest.fixture
def caller(store: SqliteStore, clock: FakeClock) -> Caller:
    return Caller(store, DEFAULT_TENANT, clock)


def modes(path: Path) -> dict[str, str]:
    """Permissions of the database file and its journals."""
    return {found.name: oct(found.stat().st_mode & 0o777) for found in path.parent.glob(f"{path.name}*")}


async def test_only_the_owner_can_read_the_files(path: Path, clock: FakeClock) -> None:
    private = {path.name: "0o600", f"{path.name}-wal": "0o600", f"{path.name}-shm": "0o600"}
    umask = os.umask(0)
    try:
        store = SqliteStore(path)
        await store.open()
        await store.create_queue(DEFAULT_TENANT, "orders", QueueSettings(), clock.now())
    finally:
        os.umask(umask)

    assert modes(path) == private
    await store.close()


async def test_a_file_of_an_earlier_release_becomes_private(path: Path, clock: FakeClock) -> None:
    async with asyncio.timeout(10):
        first, second = SqliteStore(path), SqliteStore(path)
        await first.open()
        await first.create_queue(DEFAULT_TENANT, "orders", QueueSettings(), clock.now())
    for found in path.parent.iterdir():
        found.chmod(0o644)

    await second.open()

    assert set(modes(path).values()) == {"0o600"}
    await second.close()
    await first.close()


async def test_an_acknowledged_send_survives_a_kill(path: Path, clock: FakeClock) -> None:
    sender = await asyncio.create_subprocess_exec(sys.executable, "-c", SENDER, str(path))

    assert await sender.wait() == -signal.SIGKILL
    store = SqliteStore(path)
    await store.open()
    assert await Caller(store, DEFAULT_TENANT, clock).bodies("orders") == ["acknowledged"]
    await store.close()


async def test_a_file_keeps_everything_between_openings(path: Path, clock: FakeClock) -> None:
    ids = []
    for body in ("a", "b"):
        store = SqliteStore(str(path))
        await store.open()
        caller = Caller(store, DEFAULT_TENANT, clock)
        await caller.make_queue("orders")
        ids += await caller.send("orders", body)
        await caller.delete("orders", *ids)
        await store.close()

    assert ids[0] < ids[1]


async def test_two_stores_may_share_a_file(path: Path, caller: Caller, clock: FakeClock) -> None:
    await caller.make_queue("orders")
    other_store = SqliteStore(path)
    await other_store.open()
    other = Caller(other_store, DEFAULT_TENANT, clock)

    await caller.send("orders", "a", "b")

    assert (await other.bodies("orders", 1), await caller.bodies("orders", 1)) == (["a"], ["b"])
    await other_store.close()


async def test_a_file_is_synced_at_every_commit(store: SqliteStore, path: Path) -> None:
    thread = store._database._writer
    assert thread is not None

    [synchronous] = await thread.run(lambda connection: connection.execute("pragma synchronous").fetchone())
    [journal] = await thread.run(lambda connection: connection.execute("pragma journal_mode").fetchone())

    assert (synchronous, journal) == (2, "wal")


async def test_a_closed_store_is_unavailable_until_opened_again(path: Path) -> None:
    store = SqliteStore(path)
    with pytest.raises(Unavailable):
        await store.ping()
    await store.open()
    assert store.pool_numbers() == {"size": 2, "idle": 2, "active": 0, "acquire_timeouts": 0}
    await store.close()
    with pytest.raises(Unavailable):
        await store.ping()

    await store.open()
    await store.ping()
    await store.close()


@pytest.mark.parametrize("content", [b"this is no database, but it is long enough to be taken for one" * 20, None])
async def test_what_is_no_database_is_unavailable(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "folder"
    if content is None:
        path.mkdir()
    else:
        path.write_bytes(content)

    with pytest.raises(Unavailable):
        await SqliteStore(path).open()


async def test_the_archive_keeps_deleted_messages(caller: Caller, path: Path) -> None:
    await caller.make_queue("plain")
    await caller.make_queue("keeping", archive=True)
    [deleted, archived] = await caller.send("plain", "deleted", "archived", priority=7)
    [kept] = await caller.send("keeping", "kept")
    caller.clock.advance(seconds=5)

    await caller.delete("plain", deleted)
    await caller.store.archive_many([caller.handle("plain", archived)], caller.clock.now())
    await caller.delete("keeping", kept)

    rows = sqlite3.connect(path).execute("select id, queue, body, priority, deleted_at from archive").fetchall()
    now = micros(caller.clock.now())
    assert rows == [(archived, "plain", "archived", 7, now), (kept, "keeping", "kept", 100, now)]


async def test_a_message_that_was_not_hidden_is_for_the_next_request_of_the_call(caller: Caller) -> None:
    await caller.make_queue("orders")
    await caller.send("orders", "a")
    request = Receive(tenant=DEFAULT_TENANT, queue="orders", visibility_timeout_s=0)

    claimed = await caller.store.receive_many([request] * 2, caller.clock.now())

    assert [[message.receives for message in answer.messages] for answer in claimed] == [[1], [2]]  # type: ignore[union-attr]


async def test_a_lone_surrogate_is_refused_and_its_neighbours_are_sent(caller: Caller) -> None:
    queue = await caller.make_queue()
    entries = [caller.entry(queue, body) for body in ("a", "\ud800", "b")]

    first, second, third = await caller.store.send_many(entries, caller.clock.now())

    assert isinstance(second, Invalid)
    assert [first, third] == [Sent(message.id) for message in await caller.receive(queue, 10)]


async def test_a_sweep_leaves_no_row_behind(caller: Caller, path: Path) -> None:
    await caller.make_queue("dropped")
    await caller.make_queue("purged")
    for queue in ("dropped", "purged"):
        await caller.send(queue, "a", dedup_id="a")
        await caller.send(queue, "b", "c")
    await caller.store.purge_queue(DEFAULT_TENANT, "purged")
    await caller.store.drop_queue(DEFAULT_TENANT, "dropped")

    swept = []
    while step := await caller.store.sweep(caller.clock.now(), 3):
        swept.append(step)

    assert sum(swept) == 8
    assert max(swept) == 3
    counts = "select (select count(*) from messages), (select count(*) from dedups), (select count(*) from bins)"
    assert sqlite3.connect(path).execute(counts).fetchone() == (0, 0, 1)


WRONG_TOTALS = """
select count(*)
from bins as b
where b.orphaned = 0
and b.total <> (select count(*) from messages as m where m.bin_id = b.id)
"""

WRONG_GROUPS = """
select count(*)
from (
  select
    sum(m.state = 0) as ready,
    sum(m.state = 1) as in_flight,
    min(m.id) = min(case when m.state = 0 then m.id end) as head_is_ready,
    min(m.id) = min(case when m.state = 0 and m.receives > 0 then m.id end) as head_came_back,
    min(m.id) = min(case when m.state = 3 then m.id end) as head_is_blocked
  from messages as m
  join bins as b on b.id = m.bin_id
  where b.fifo = 1
  and b.orphaned = 0
  group by m.bin_id, m.group_id
)
where ready > 1
or (ready = 1 and not head_is_ready)
or (ready = 1 and in_flight > 0 and head_came_back is not 1)
or (in_flight = 0 and head_is_blocked)
"""


@pytest.mark.parametrize("seed", range(6))
async def test_totals_and_groups_agree_with_the_rows_whatever_was_done(caller: Caller, path: Path, seed: int) -> None:
    chance = random.Random(seed)
    for suffix in ("", ".fifo"):
        await caller.make_queue(f"dead{suffix}")
        await caller.make_queue(f"orders{suffix}", max_receives=2, dead_letter_queue=f"dead{suffix}", max_length=40)
    judge = sqlite3.connect(path)
    held: list[tuple[str, Message]] = []

    for _ in range(250):
        await act(caller, chance, held)
        caller.clock.advance(seconds=chance.choice([0, 0, 1, 3]))

        assert judge.execute(WRONG_TOTALS).fetchone() == (0,)
        assert judge.execute(WRONG_GROUPS).fetchone() == (0,)


async def act(caller: Caller, chance: random.Random, held: list[tuple[str, Message]]) -> None:
    queue = chance.choice(["orders", "dead"]) + chance.choice(["", ".fifo"])
    match chance.choice(["send", "send", "receive", "receive", "delete", "hide", "move", "step", "sweep", "purge"]):
        case "send":
            fields = {"group_id": chance.choice("ab"), "delay_s": chance.choice([0, 0, 2])}
            await caller.send_one(queue, "x", retention_s=chance.choice([5, 60]), **fields)
        case "receive":
            found = await caller.receive(queue, chance.randint(1, 4), visibility_timeout_s=chance.choice([0, 2, 4]))
            held += [(queue, message) for message in found]
        case "delete" if held:
            place, message = chance.choice(held)
            await caller.delete(place, message if chance.random() < 0.7 else message.id)
        case "hide" if held:
            place, message = chance.choice(held)
            await caller.hide(place, message if chance.random() < 0.7 else message.id, chance.choice([0, 3]))
        case "move":
            with contextlib.suppress(MoveInProgress):
                await caller.start_move(queue, chance.choice([None, "orders.fifo", "orders"]), chance.choice([None, 1]))
        case "step":
            await caller.run_moves()
        case "sweep":
            await caller.store.sweep(caller.clock.now(), 5)
        case "purge" if chance.random() < 0.1:
            await caller.store.purge_queue(caller.tenant, queue)


async def test_an_unknown_tenant_is_not_found(store: SqliteStore, clock: FakeClock) -> None:
    nobody = TenantId(999)

    with pytest.raises(NotFound):
        await store.create_queue(nobody, "orders", QueueSettings(), clock.now())
    with pytest.raises(NotFound):
        await store.add_token(nobody, "t", "p", b"", frozenset({Scope.ADMIN}), "*", clock.now(), None)


def test_migrations_run_once(path: Path) -> None:
    connection = sqlite3.connect(path, isolation_level=None)

    assert migrate(connection) == len(list(MIGRATIONS.glob("*.sql")))
    assert migrate(connection) == 0


def test_a_newer_schema_is_refused(path: Path) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    migrate(connection)
    connection.execute("insert into migrations (number, name, sha256) values (9999, '9999_future', '')")

    with pytest.raises(Conflict, match="9999"):
        migrate(connection)


def test_a_changed_migration_is_refused(path: Path) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    migrate(connection)
    connection.execute("update migrations set sha256 = 'other'")

    with pytest.raises(Conflict, match="0001"):
        migrate(connection)


def test_a_migration_that_fails_leaves_nothing_behind(tmp_path: Path, path: Path) -> None:
    (tmp_path / "0001_good.sql").write_text("create table good (id integer);\n")
    (tmp_path / "0002_bad.sql").write_text("create table half (id integer);\ncreate nonsense;\n")
    connection = sqlite3.connect(path, isolation_level=None)

    with pytest.raises(sqlite3.OperationalError):
        migrate(connection, tmp_path)

    assert connection.execute("select count(*) from sqlite_master").fetchone() == (0,)


def test_a_query_may_be_named_only_once() -> None:
    with pytest.raises(ValueError, match="twice"):
        parse("-- name: a\nselect 1;\n-- name: a\nselect 2;")


def test_every_query_is_used_and_every_used_query_exists() -> None:
    folder = Path(queries.__file__).parent
    source = "".join(path.read_text("utf-8") for path in folder.rglob("*.py"))

    unused = [name for name in queries.SQL if f'"{name}"' not in source]
    called = re.findall(r"session\.(?:run|all|first|value)\(\s*\"(\w+)\"", source)

    assert unused == []
    assert set(called) <= queries.SQL.keys()


def plan(query: str) -> str:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    migrate(connection)
    values = dict.fromkeys(re.findall(r":(\w+)", queries.SQL[query]), 1)
    steps = connection.execute("explain query plan " + queries.SQL[query], values).fetchall()
    return "\n".join(step[3] for step in steps)


@pytest.mark.parametrize("query", sorted(queries.SQL))
def test_no_query_reads_all_messages(query: str) -> None:
    assert not re.search(r"SCAN (m|messages|dedups)\b", plan(query))


@pytest.mark.parametrize(
    ("query", "index"),
    [
        ("ready_messages", "messages_ready (bin_id=?)"),
        ("ready_groups", "messages_ready (bin_id=? AND priority=? AND rank>?)"),
        ("release_due", "COVERING INDEX messages_in_flight (bin_id=? AND state=? AND visible_at<?)"),
        ("release_due", "COVERING INDEX messages_delayed (bin_id=? AND state=? AND visible_at<?)"),
        ("next_due", "COVERING INDEX messages_in_flight (bin_id=? AND state=?)"),
        ("next_due", "COVERING INDEX messages_delayed (bin_id=? AND state=?)"),
        ("group_heads", "messages_group (bin_id=? AND group_id=? AND state=?)"),
        ("movable_messages", "messages_bin (bin_id=?)"),
        ("locate_message", "INTEGER PRIMARY KEY (rowid=?)"),
    ],
)
def test_a_hot_query_goes_straight_to_its_rows(query: str, index: str) -> None:
    steps = plan(query)

    assert index in steps
    assert "TEMP B-TREE" not in steps

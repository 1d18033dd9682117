"""What a write may hold, what becomes of it, and where it is known to have been: all without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from penstock.spark.options import OptionError
from penstock.spark.writing.writer import TAKEN
from tests import cluster
from tests.docs.pages import page, plain, rows, section
from tests.spark import streams
from tests.spark.writing.queries import write

NOW = datetime.now(UTC)
MIB = 1_048_576


@pytest.fixture(scope="module")
def dsn(postgres_dsn: str) -> Iterator[str]:
    """One for all of them, with names of their own: a database takes longer than a write."""
    with cluster.migrated_database(postgres_dsn) as found:
        yield found


def make(connection: psycopg.Connection, queue: str, settings: str = "{}") -> str:
    connection.execute("select penstock.create_queue(%s, %s)", [queue, settings])
    return queue


def bodies(connection: psycopg.Connection, queue: str) -> list[str]:
    found = connection.execute("select body from penstock.peek(%s, 1000)", [queue])
    return sorted(row[0] for row in found)


def duplicates(connection: psycopg.Connection, query: str) -> list[int]:
    found = connection.execute("select duplicates from penstock.spark_ledger where query = %s", [query])
    return [row[0] for row in found]


def test_one_transaction_id_is_for_each_place_it_is_written_to(dsn: str, database: psycopg.Connection) -> None:
    database.execute("insert into penstock.tenants (name, created_at) values ('acme', now())")
    database.execute("select set_config('penstock.tenant', 'acme', false), penstock.create_queue('one')")
    database.execute("select set_config('penstock.tenant', 'default', false)")
    streams.make(database, "one")
    for queue in ("one", "two"):
        make(database, queue)
    places = [
        {"target": "queue", "name": "one"},
        {"target": "queue", "name": "one", "tenant": "acme"},
        {"target": "queue", "name": "two"},
        {"target": "jobs", "name": "one"},
        {"target": "stream", "name": "one"},
    ]

    for _ in range(2):
        for place in places:
            write(dsn, {"value": ["1"]}, **place, txnAppId="nightly", txnVersion="1")

    assert database.execute("select count(*) from penstock.messages where body = '1'").fetchone() == (3,)
    assert database.execute("select count(*) from penstock.jobs where payload::text = '1'").fetchone() == (1,)
    assert database.execute("select count(*) from pgque.event_1").fetchone() == (1,)


def test_what_was_written_before_places_were_kept_is_not_written_again(dsn: str, database: psycopg.Connection) -> None:
    queue = make(database, "known")
    database.execute("insert into penstock.spark_ledger (query, batch, written_at) values ('before', 7, now())")

    for version in ("7", "8", "8"):
        write(dsn, {"value": [version]}, target="queue", name=queue, txnAppId="before", txnVersion=version)

    assert bodies(database, queue) == ["8"]


def test_a_queue_s_own_delay_holds_for_rows_without_a_moment(dsn: str, database: psycopg.Connection) -> None:
    queue = make(database, "late", '{"delay_s": 600}')

    now = datetime.now(UTC)
    moments = [None, now - timedelta(hours=1), now + timedelta(hours=2)]
    write(dsn, {"value": ["none", "past", "later"], "deliver_at": moments}, target="queue", name=queue)

    delays = database.execute(
        "select body, round(extract(epoch from visible_at - sent_at) / 600) from penstock.messages"
        " where body in ('none', 'past', 'later')"
    )
    assert dict(delays.fetchall()) == {"none": 1, "past": 0, "later": 12}


@pytest.mark.parametrize(
    ("target", "columns", "problem"),
    [
        ("queue", {"value": [None]}, "body must not be null"),
        ("queue", {"priority": [1001]}, "priority must be between 0 and 1000"),
        ("queue", {"priority": [-1]}, "priority must be between 0 and 1000"),
        ("queue", {"deliver_at": [NOW + timedelta(days=2)]}, "delay_s must be between 0 and 43200"),
        ("queue", {"deliver_at": [NOW + timedelta(days=36_500)]}, "delay_s must be between 0 and 43200"),
        ("queue", {"key": ["g g"]}, "group_id must be 1 to 128 letters"),
        ("queue", {"dedup_id": ["ä"]}, "dedup_id must be 1 to 128 letters"),
        ("queue", {"headers": ['{"a": secret}']}, "headers must be JSON: see row 2 of partition 0"),
        ("queue", {"headers": ["[" * 100_000]}, "headers must be JSON: see row 2 of partition 0"),
        ("queue", {"name": [None]}, "name must not be null"),
        ("jobs", {"value": [None]}, "payload must not be null"),
        ("jobs", {"value": ["secret"]}, "payload must be JSON: see row 2 of partition 0"),
        ("jobs", {"value": ['{"a": "secret'], "dedup_id": ["k"]}, "payload must be JSON: see row 2 of partition 0"),
        ("jobs", {"value": [f'"{"x" * MIB}"']}, "payload must have at most 1048576 bytes"),
        ("jobs", {"priority": [40_000]}, "priority must be between -32767 and 32767"),
        ("jobs", {"dedup_id": [""]}, "unique_key must have 1 to 256 characters"),
        ("jobs", {"name": [None]}, "name must not be null"),
        ("stream", {"name": [None]}, "name must not be null"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,
)
def test_a_row_that_no_sender_may_send_refuses_the_write(
    dsn: str, database: psycopg.Connection, target: str, columns: dict[str, list[object]], problem: str
) -> None:
    make(database, "strict")
    streams.make(database, "strict")
    given: dict[str, list[object]] = {"name": ["strict", "strict"], "value": ["1", "2"]}
    given |= {name: [given.get(name, [None])[0], *values] for name, values in columns.items()}

    with pytest.raises(Exception, match=problem) as refused:
        write(dsn, given, target=target)

    assert "secret" not in str(refused.value)
    assert bodies(database, "strict") == []


@pytest.mark.parametrize("exactly_once", ["true", "false"], ids=["staged", "direct"])
def test_a_stream_takes_any_text(dsn: str, database: psycopg.Connection, exactly_once: str) -> None:
    streams.make(database, f"free-{exactly_once}")
    given: dict[str, list[object]] = {"value": ["no json", None], "headers": ["none either", ""]}

    write(dsn, given, target="stream", name=f"free-{exactly_once}", exactlyOnce=exactly_once)

    table = database.execute("select pgque.current_event_table(%s)", [f"free-{exactly_once}"]).fetchone()
    assert table is not None
    found = database.execute(f"select ev_data, ev_extra1 from {table[0]} order by ev_id".encode()).fetchall()
    assert found == [("no json", "none either"), (None, "")]


@pytest.mark.parametrize(
    ("target", "column"),
    [
        ("stream", "deliver_at"), ("stream", "priority"), ("stream", "dedup_id"),
        ("queue", "type"), ("jobs", "type"), ("jobs", "key"), ("jobs", "headers"),
    ],
)  # fmt: skip
def test_a_column_that_its_target_cannot_keep_is_refused_before_anything_is_written(target: str, column: str) -> None:
    with pytest.raises(OptionError, match=f"{target} cannot write the columns {column}; it takes name"):
        write("postgresql://nowhere", {"value": ["1"], column: [None]}, target=target, name="orders")


def test_rows_far_in_the_future_become_jobs(dsn: str, database: psycopg.Connection) -> None:
    moment = NOW + timedelta(days=36_500)

    write(dsn, {"value": ['"far"'], "deliver_at": [moment]}, target="jobs", name="far")

    query = "select run_at from penstock.jobs where payload::text = '\"far\"'"
    assert database.execute(query).fetchall() == [(moment,)]


def test_the_ledger_knows_how_many_rows_were_duplicates(dsn: str, database: psycopg.Connection) -> None:
    queue = make(database, "compact_and_vacuum.fifo", '{"content_dedup": true}')
    letters = {"value": ["1", "2", "1", "1"], "key": ["g"] * 4}
    keys = {"value": ["1", "2"], "dedup_id": ["k", "k"]}

    write(dsn, letters, target="queue", name=queue, txnAppId="messages", txnVersion="1")
    write(dsn, keys, target="jobs", name="compact_and_vacuum", txnAppId="jobs", txnVersion="1")

    assert bodies(database, queue) == ["1", "2"]
    assert (duplicates(database, "messages"), duplicates(database, "jobs")) == ([2], [1])
    write(dsn, {"value": ["3"], "key": ["g"]}, target="queue", name=queue, txnAppId="messages", txnVersion="2")
    assert duplicates(database, "messages") == [0]


def test_portions_have_few_rows_and_few_bytes_and_keep_the_order(dsn: str, database: psycopg.Connection) -> None:
    database.execute(
        """
        insert into penstock.spark_staging (attempt, position, name, value)
        select n % 2, n, 'small', n::text from generate_series(1, 6000) as n
        union all
        select 1, n, 'large', repeat('x', 1048576) from generate_series(1, 20) as n
        """
    )

    portions = database.execute(
        """
        select p.name, array(select left(b, 4)::text from unnest(r.bodies) as b)
        from penstock.staged_portions('{0,1}', null) as p
        cross join penstock.staged_portion(p.places, now()) as r
        """
    ).fetchall()
    database.execute("delete from penstock.spark_staging")

    assert [(name, len(found)) for name, found in portions] == [
        ("large", 15), ("large", 5), ("small", 4980), ("small", 1020),
    ]  # fmt: skip
    numbers = [int(row) for name, found in portions for row in found if name == "small"]
    assert numbers == [*range(2, 6001, 2), *range(1, 6000, 2)]


def test_the_columns_of_each_target_are_documented() -> None:
    columns = rows(section(page("docs/spark.md"), "## What is written"))

    for number, target in enumerate(("stream", "queue", "jobs"), start=2):
        assert {plain(row[0]) for row in columns if row[number]} == set(TAKEN[target])

"""Rows that a target refuses are stored with the reason when asked, and the others are written. Without Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from penstock.spark.options import OptionError, write_options
from penstock.spark.writing import direct
from tests import cluster
from tests.spark import streams
from tests.spark.writing.queries import write

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def dsn(postgres_dsn: str) -> Iterator[str]:
    """One for all of them, with names of their own: a database takes longer than a write."""
    with cluster.migrated_database(postgres_dsn) as found:
        yield found


def bodies(connection: psycopg.Connection, queue: str) -> list[str]:
    return sorted(row[0] for row in connection.execute("select body from penstock.peek(%s, 1000)", [queue]))


def rejects(connection: psycopg.Connection, app: str) -> list[tuple[Any, ...]]:
    query = "select target, name, reason, row from penstock.spark_rejects where query = %s order by id"
    return list(connection.execute(query, [app]))


def events(connection: psycopg.Connection, stream: str) -> list[str]:
    [[queue]] = connection.execute("select queue_id from pgque.queue where queue_name = %s", [stream]).fetchall()
    return [row[0] for row in connection.execute(f"select ev_data from pgque.event_{queue} order by ev_id".encode())]


def test_a_bad_row_is_stored_once_with_its_reason_and_the_others_are_written(
    dsn: str, database: psycopg.Connection
) -> None:
    values = [json.dumps({"n": n}) for n in range(40)]
    values[7], values[23] = "nonsense", "x\0y"
    for _ in range(2):
        write(
            dsn, {"value": values, "priority": [40_000 if n == 30 else 0 for n in range(40)]}, target="jobs",
            name="shipping", deadLetters="table", txnAppId="a", txnVersion="1",
        )  # fmt: skip

    [[jobs]] = database.execute(
        "select count(*) from penstock.jobs as j join penstock.job_queues as q on q.id = j.queue_id"
        " where q.name = 'shipping'"
    ).fetchall()
    assert jobs == 37
    found = rejects(database, "a")
    assert [(target, name) for target, name, *_ in found] == [("jobs", "shipping")] * 3
    assert sorted(row["value"] for *_, row in found) == ["nonsense", "x\ufffdy", '{"n": 30}']
    reasons = {row["value"]: reason for *_, reason, row in found}
    assert "zero byte" in reasons["x\ufffdy"]
    assert "JSON" in reasons["nonsense"]
    assert "priority" in reasons['{"n": 30}']


def test_a_queue_that_a_row_names_may_be_missing(dsn: str, database: psycopg.Connection) -> None:
    database.execute("select penstock.create_queue('there'), penstock.create_queue('rejected')")
    columns: dict[str, list[object]] = {"name": ["there", "nowhere", "there", None], "value": ["a", "b", "c", "d"]}

    write(dsn, columns, target="queue", deadLetters="queue:rejected", txnAppId="b", txnVersion="1")

    assert bodies(database, "there") == ["a", "c"]
    told = [json.loads(body) for body in bodies(database, "rejected")]
    assert sorted((each["name"] or "", each["row"]["value"]) for each in told) == [("", "d"), ("nowhere", "b")]


def test_a_missing_target_still_fails_the_batch(dsn: str, database: psycopg.Connection) -> None:
    with pytest.raises(Exception, match="does not exist"):
        write(dsn, {"value": ["a"]}, target="queue", name="missing", deadLetters="table", txnAppId="c", txnVersion="1")

    assert rejects(database, "c") == []


@pytest.mark.parametrize("load", [False, True], ids=["few", "many"])
def test_a_stream_takes_what_it_can_store(
    dsn: str, database: psycopg.Connection, monkeypatch: pytest.MonkeyPatch, load: bool
) -> None:
    monkeypatch.setattr(direct, "LOAD_ROWS", 2 if load else 100)
    name = f"events-{load}".lower()
    for stream in (name, f"{name}-bad"):
        streams.make(database, stream)

    write(dsn, {"value": ["a", "b\0", "c"]}, name=name, deadLetters=f"stream:{name}-bad", txnAppId=name, txnVersion="1")

    assert [json.loads(text)["row"]["value"] for text in events(database, f"{name}-bad")] == ["b\ufffd"]
    [[loads]] = database.execute(
        "select coalesce(sum(load_rows), 0)::integer from pgque.load as l join pgque.queue as q"
        " on q.queue_id = l.load_queue where q.queue_name = %s", [name],
    ).fetchall()  # fmt: skip
    assert loads + len(events(database, name)) == 2


@pytest.mark.parametrize("wrong", ["stream", "topic:x", "queue:"])
def test_a_wrong_place_is_refused(wrong: str) -> None:
    with pytest.raises(OptionError, match="none of table, stream:NAME and queue:NAME"):
        write_options({"url": "x", "name": "y", "deadLetters": wrong})
    with pytest.raises(OptionError, match="needs exactlyOnce"):
        write_options({"url": "x", "name": "y", "deadLetters": "table", "exactlyOnce": "false"})

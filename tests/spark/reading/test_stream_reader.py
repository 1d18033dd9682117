"""What a streaming read promises when streams, consumers and tables change around it; without Spark."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from functools import partial
from itertools import count

import psycopg
import pyarrow as pa
import pytest

from penstock.spark.database import Database, Reading
from penstock.spark.options import OptionError
from penstock.spark.pipelines.run_log import RunLog
from penstock.spark.streams import StreamError
from penstock.spark.writing import direct
from tests import cluster
from tests.spark import streams
from tests.spark.reading.queries import Offset, Query, read, rotate, values
from tests.spark.writing.queries import write

pytestmark = pytest.mark.timeout(120)

NUMBERS = count(1)

Start = Callable[..., Query]


@pytest.fixture(scope="module")
def dsn(postgres_dsn: str) -> Iterator[str]:
    """One for all of them: each has a stream of its own."""
    with cluster.migrated_database(postgres_dsn) as found:
        yield found


@pytest.fixture
def start(dsn: str) -> Iterator[Start]:
    """Starts a query: where it is, when it has a checkpoint, and its options."""
    with ExitStack() as stack:

        def started(at: Offset | None = None, **options: str) -> Query:
            query = Query(dsn, at, **options)
            stack.callback(query.reader.stop)
            if at is None:
                query.at = query.reader.initialOffset()
            return query

        yield started


@pytest.fixture
def name(database: psycopg.Connection) -> str:
    made = f"orders-{next(NUMBERS)}"
    streams.make(database, made)
    return made


def sent(database: psycopg.Connection, name: str, *values: str) -> int:
    streams.send(database, name, values)
    return streams.tick(database, name)


def position(database: psycopg.Connection, name: str) -> dict[str, int]:
    query = """
        select c.co_name, s.sub_last_tick
        from pgque.subscription as s
        join pgque.consumer as c on c.co_id = s.sub_consumer
        join pgque.queue as q on q.queue_id = s.sub_queue
        where q.queue_name = %s
    """
    return {row[0]: row[1] for row in database.execute(query, [name])}


# Events that are gone


def test_events_rotated_away_between_plan_and_read_are_an_error(
    start: Start, database: psycopg.Connection, name: str
) -> None:
    query = start(subscribe=name, startingOffsets="earliest", ackMode="none")
    first = query.at[name]["tick"]
    sent(database, name, "a", "b")
    planned = query.planned(query.latest())
    for number in range(3):
        sent(database, name, str(number))
        rotate(database, name)

    with pytest.raises(StreamError, match=f"'{name}': tick {first} no longer exists, the oldest tick is [0-9]+"):
        values(query.batches(planned))


def test_a_load_dropped_between_plan_and_read_is_told_like_other_events(
    start: Start, database: psycopg.Connection, name: str
) -> None:
    query = start(subscribe=name, startingOffsets="earliest", ackMode="none")
    with database.transaction():
        [load, table] = database.execute("select * from pgque.open_load(%s)", [name]).fetchone() or ()
        database.execute(f"insert into {table} (ev_type, ev_data) values ('t', 'a')".encode())
        database.execute("select pgque.close_load(%s)", [load])
        database.execute("select pgque.publish_loads(%s, array[%s::bigint])", [name, load])
    streams.tick(database, name)
    planned = query.planned(query.latest())
    for number in range(2):
        sent(database, name, str(number))
        rotate(database, name)
    time.sleep(0.01)
    database.execute("select pgque.maint_drop_loads()")

    with pytest.raises(StreamError, match="no longer exists, the oldest tick is"):
        values(query.batches(planned))


def test_a_stream_made_again_under_its_name_is_not_taken_for_the_old_one(
    start: Start, database: psycopg.Connection, name: str
) -> None:
    query = start(subscribe=name, startingOffsets="earliest")
    sent(database, name, "old 1")
    sent(database, name, "old 2")
    assert query.batch() == ["old 1", "old 2"]
    database.execute("select pgque.drop_queue(%s, true)", [name])
    streams.make(database, name)
    for number in range(3):
        sent(database, name, f"new {number}")

    with pytest.raises(StreamError, match="was dropped and made again"):
        start(query.at, subscribe=name).latest()

    assert start(query.at, subscribe=name, failOnDataLoss="false").batch() == ["new 0", "new 1", "new 2"]


def test_a_stream_of_a_pattern_that_is_dropped_ends_the_query_unless_losses_are_allowed(
    start: Start, database: psycopg.Connection, name: str
) -> None:
    streams.make(database, f"{name}-b")
    options = {"subscribePattern": f"{name}.*", "startingOffsets": "earliest"}
    strict = start(**options)
    lenient = start(consumer="lenient", failOnDataLoss="false", **options)
    sent(database, f"{name}-b", "old")
    assert strict.batch() == lenient.batch() == ["old"]
    database.execute("select pgque.drop_queue(%s, true)", [f"{name}-b"])
    sent(database, name, "a")

    assert lenient.batch() == ["a"]
    with pytest.raises(StreamError, match=f"'{name}-b' has no ticks"):
        strict.latest()

    streams.make(database, f"{name}-b")
    sent(database, f"{name}-b", "new")
    assert lenient.batch() == ["new"]
    assert list(position(database, f"{name}-b")) == ["lenient"]


def test_an_offset_of_before_queues_were_noted_goes_on(start: Start, database: psycopg.Connection, name: str) -> None:
    first = sent(database, name, "a")
    old = start({name: {"tick": first}}, subscribe=name)
    assert old.latest() == {name: {"tick": first}}
    sent(database, name, "b")

    assert old.batch() == ["b"]


# Consumers


def test_each_stream_has_a_consumer_of_its_own(start: Start, database: psycopg.Connection, name: str) -> None:
    streams.make(database, f"{name}-b")
    one = start(subscribe=name, startingOffsets="earliest")
    sent(database, name, "a")
    one.batch()

    both = start(one.at, subscribe=f"{name},{name}-b")
    last = sent(database, name, "b")
    assert both.batch() == ["b"]

    assert position(database, name) == {f"spark-{name}": last}
    assert list(position(database, f"{name}-b")) == [f"spark-{name}-b"]


@pytest.mark.parametrize("gone", [False, True])
def test_a_query_whose_consumer_another_query_moves_ends(
    start: Start, database: psycopg.Connection, name: str, gone: bool
) -> None:
    slow = start(subscribe=name, startingOffsets="earliest")
    sent(database, name, "precious")
    end = slow.latest()
    fast = start(subscribe=name)
    for number in range(4):
        sent(database, name, str(number))
        fast.batch()
        if gone:
            rotate(database, name)

    if not gone:
        slow.at = end
    next_step = partial(slow.planned, end) if gone else slow.latest
    with pytest.raises(StreamError, match=r"another query has moved the consumer .* a consumer of its own"):
        next_step()


def test_a_move_asked_again_is_not_taken_for_that_of_another(
    start: Start, database: psycopg.Connection, name: str
) -> None:
    query = start(subscribe=name, startingOffsets="earliest")
    end = sent(database, name, "a")
    query.at = query.latest()
    # As if the first answer had been lost.
    database.execute("select pgque.register_consumer_at(%s, %s, %s)", [name, f"spark-{name}", end])

    assert query.latest() == query.at


def test_the_first_batch_from_the_latest_tick_is_repeated_from_where_it_began(
    start: Start, database: psycopg.Connection, name: str
) -> None:
    query = start(subscribe=name)
    began = query.at[name]["tick"]
    sent(database, name, "a")
    end = query.latest()
    sent(database, name, "b")

    again = start(subscribe=name)
    assert again.at != query.at
    assert values(again.batches(again.planned(end))) == ["a"]
    assert position(database, name) == {f"spark-{name}": began}
    again.at = end
    assert again.batch() == ["b"]


@pytest.mark.parametrize("how", ["by another name", "after a rival"])
def test_the_first_batch_is_not_taken_for_empty_when_nobody_knows_where_it_began(
    start: Start, database: psycopg.Connection, name: str, how: str
) -> None:
    query = start(subscribe=name)
    sent(database, name, "precious")
    end = query.latest()
    options = {"subscribe": name}
    if how == "by another name":
        options["consumer"] = "own"
    else:
        rival = start(subscribe=name)
        rival.latest()
        sent(database, name, "more")
        rival.batch()

    # However often it is tried.
    for _ in range(2):
        with pytest.raises(StreamError, match=r"where the first batch began .* failOnDataLoss"):
            start(**options).planned(end)

    lenient = start(failOnDataLoss="false", **options)
    assert lenient.planned(end) == []
    lenient.at = end
    assert lenient.batch() == ([] if how == "by another name" else ["more"])


def test_a_query_without_acknowledgements_has_no_consumer(
    start: Start, database: psycopg.Connection, name: str
) -> None:
    query = start(subscribe=name, ackMode="none", startingOffsets="earliest")
    sent(database, name, "a")

    assert query.batch() == ["a"]
    query.reader.commit(query.at)

    assert position(database, name) == {}


def test_a_stream_that_joins_is_held_from_its_first_event_on(
    start: Start, database: psycopg.Connection, name: str
) -> None:
    query = start(subscribePattern=f"{name}.*", startingOffsets="earliest")
    streams.make(database, f"{name}-b")
    sent(database, f"{name}-b", "precious")

    end = query.latest()
    for number in range(4):
        sent(database, f"{name}-b", str(number))
        rotate(database, f"{name}-b")

    assert values(query.batches(query.planned(end))) == ["precious"]


def test_consumers_of_streams_without_events_move_on(start: Start, database: psycopg.Connection, name: str) -> None:
    streams.make(database, f"{name}-b")
    query = start(subscribe=f"{name},{name}-b")

    def passes(minutes: int) -> int:
        database.execute("update pgque.tick set tick_time = tick_time - make_interval(mins => %s)", [minutes])
        [tick] = database.execute("select pgque.ticker(%s)", [name]).fetchone() or ()
        return int(tick)

    assert passes(2)
    assert query.latest() == query.at
    late = passes(120)
    query.at = query.latest()
    assert query.at[name]["tick"] == late
    query.latest()
    assert position(database, name) == {f"spark-{name}": late}

    with_others = passes(2)
    sent(database, f"{name}-b", "b")
    assert query.batch() == ["b"]
    assert position(database, name) == {f"spark-{name}": with_others}


# How much


def test_too_many_events_after_none_are_read_all_the_same(
    start: Start, database: psycopg.Connection, name: str
) -> None:
    """The last_tick_within tick within the limit is then one that brings nothing."""
    query = start(subscribe=name)
    database.execute("update pgque.tick set tick_time = tick_time - interval '2 minutes'")
    assert database.execute("select pgque.ticker(%s)", [name]).fetchone() != (None,)
    sent(database, name, *map(str, range(5)))

    assert len(query.batch(rows=2)) == 5


def test_the_least_number_of_events_is_compared_with_what_waits(
    start: Start, database: psycopg.Connection, name: str
) -> None:
    streams.make(database, f"{name}-b")
    wanted = {"minEventsPerTrigger": "6", "maxEventsPerTrigger": "10"}
    query = start(subscribe=f"{name},{name}-b", startingOffsets="earliest", **wanted)
    for number in range(5):
        sent(database, name, str(number))
    assert query.latest(5) == query.at
    sent(database, name, "5")

    assert len(query.batch(5)) == 5


def test_a_busy_stream_takes_what_the_others_leave(start: Start, database: psycopg.Connection, name: str) -> None:
    for other in "bcd":
        streams.make(database, f"{name}-{other}")
    query = start(subscribePattern=f"{name}.*", startingOffsets="earliest")
    sent(database, f"{name}-b", "other")
    for number in range(30):
        sent(database, name, str(number))

    assert len(query.batch(rows=20)) == 20
    assert len(query.batch(rows=20)) == 11


def test_two_busy_streams_share(start: Start, database: psycopg.Connection, name: str) -> None:
    streams.make(database, f"{name}-b")
    query = start(subscribePattern=f"{name}.*", startingOffsets="earliest")
    for number in range(30):
        sent(database, name, f"a{number}")
        sent(database, f"{name}-b", f"b{number}")

    assert sorted(value[0] for value in query.batch(rows=20)) == [*"a" * 10, *"b" * 10]


def test_ticks_without_events_are_looked_into_once(
    start: Start, database: psycopg.Connection, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark polls all the time, and an idle stream has a tick a minute."""
    asked: list[str] = []
    rows = Reading.rows

    def noted(self: Reading, query: str) -> Iterable[pa.RecordBatch]:
        asked.append(query)
        return rows(self, query)

    monkeypatch.setattr(Reading, "rows", noted)
    query = start(subscribe=name)
    tick = "select pgque.make_tick(q) from pgque.queue as q where q.queue_name = %s"
    for times in (1, 2):
        database.execute(tick, [name])
        for _ in range(3):
            assert query.latest() == query.at
        assert len(asked) == times
    sent(database, name, "a")

    assert query.batch() == ["a"]


@pytest.mark.parametrize("most", [{"maxEventsPerTrigger": "9"}, {}], ids=["given", "default"])
def test_a_least_number_above_the_most_is_refused(start: Start, most: dict[str, str]) -> None:
    with pytest.raises(OptionError, match="minEventsPerTrigger: is above maxEventsPerTrigger"):
        start(subscribe="orders", minEventsPerTrigger="500001", **most)


def test_a_run_of_what_is_available_ends_though_a_new_stream_goes_on(
    start: Start, database: psycopg.Connection, name: str
) -> None:
    query = start(subscribePattern=f"{name}.*", startingOffsets="earliest")
    sent(database, name, "a")
    query.reader.prepareForTriggerAvailableNow()
    streams.make(database, f"{name}-b")
    sent(database, f"{name}-b", "b")

    assert query.batch() == ["a"]
    sent(database, f"{name}-b", "c")
    assert query.latest() == query.at
    assert start(query.at, subscribePattern=f"{name}.*").batch() == ["b", "c"]


def test_a_run_of_what_is_available_ends_though_its_end_was_rotated_away(
    start: Start, database: psycopg.Connection, name: str
) -> None:
    query = start(subscribe=name, startingOffsets="earliest", ackMode="none", failOnDataLoss="false")
    sent(database, name, "a")
    query.reader.prepareForTriggerAvailableNow()
    for number in range(4):
        sent(database, name, str(number))
        rotate(database, name)
    for number in range(3):
        sent(database, name, f"later {number}")
        query.batch()
    at = query.at
    sent(database, name, "still later")

    assert query.latest() == at


def test_a_ticker_at_work_is_waited_for(dsn: str, start: Start, database: psycopg.Connection, name: str) -> None:
    sent(database, name, "a")
    with psycopg.connect(dsn) as ticker:
        ticker.execute("select pgque.take_ticker(queue_id, true) from pgque.queue where queue_name = %s", [name])
        streams.send(database, name, ["b"])
        timer = threading.Timer(0.3, ticker.commit)
        timer.start()

        assert read(dsn, subscribe=name) == ["a", "b"]
        timer.join()


def test_a_stream_read_from_a_moment_on_begins_with_it(start: Start, database: psycopg.Connection, name: str) -> None:
    streams.send(database, name, ["before"])
    moment = datetime.now(UTC).isoformat()
    sent(database, name, "after")
    query = start(subscribe=name, startingTimestamp=moment)

    assert query.batch() == ["after"]
    # What is sent with a time of its own is not left out later: a checkpoint goes before the option.
    raw = "select pgque.insert_event_raw(%s, -1, '2020-01-01', null, null, 't', 'old', null, null, null, null)"
    database.execute(raw, [name])
    streams.tick(database, name)
    assert query.batch() == ["old"]


# Names


def test_a_pattern_is_for_the_whole_name(start: Start, database: psycopg.Connection, name: str) -> None:
    streams.make(database, f"{name}-b")

    assert list(start(subscribePattern=name).at) == [name]
    assert list(start(subscribePattern=f"{name}|{name}-b").at) == [name, f"{name}-b"]


def tenant_of(database: psycopg.Connection, name: str) -> int:
    """One who has a stream of that name, too."""
    [made] = database.execute("insert into penstock.tenants (name) values (%s) returning id", [name]).fetchone() or ()
    streams.make(database, f"t{made}:{name}")
    return int(made)


def test_a_tenant_reads_its_own_streams(dsn: str, start: Start, database: psycopg.Connection, name: str) -> None:
    tenant = tenant_of(database, name)
    sent(database, name, "for all")
    sent(database, f"t{tenant}:{name}", "for acme")

    assert read(dsn, subscribe=name, tenant=name) == ["for acme"]
    assert read(dsn, subscribe=name) == ["for all"]
    pattern = {"subscribePattern": f".*{name}", "startingOffsets": "earliest"}
    assert list(start(tenant=name, **pattern).latest()) == [name]
    assert list(start(tenant="default", **pattern).latest()) == [name]
    assert list(start(consumer="all", **pattern).latest()) == [name, f"t{tenant}:{name}"]
    assert set(position(database, f"t{tenant}:{name}")) == {"all", f"spark-{name}"}
    with pytest.raises(OptionError, match="tenant: there is no tenant 'nobody'"):
        start(subscribe=name, tenant="nobody").latest()


def test_the_lag_of_a_tenant_is_that_of_its_own_stream(
    dsn: str, start: Start, database: psycopg.Connection, name: str
) -> None:
    tenant = tenant_of(database, name)
    query = start(subscribe=name, tenant=name, startingOffsets="earliest")
    sent(database, f"t{tenant}:{name}", "read")
    query.batch()
    for number in range(5):
        sent(database, name, f"of another {number}")
    with closing(RunLog(Database(dsn), 0)) as log:
        assert log.lag(query.at) == (0, 0.0)
        streams.send(database, f"t{tenant}:{name}", ["waits", "too"])

        assert log.lag(query.at)[0] == 2


@pytest.mark.parametrize(
    ("rows", "options"),
    [(9, {}), (1, {}), (9, {"exactlyOnce": "false"}), (9, {"name": ""})],
    ids=["staged", "load", "direct", "named by a column"],
)
def test_a_tenant_writes_to_its_own_streams(
    dsn: str,
    database: psycopg.Connection,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
    rows: int,
    options: dict[str, str],
) -> None:
    monkeypatch.setattr(direct, "LOAD_ROWS", rows)
    tenant_of(database, name)
    columns = {"value": ["for acme"]} | ({"name": [name]} if "name" in options else {})

    write(dsn, columns, tenant=name, **{"name": name} | options)

    assert read(dsn, subscribe=name, tenant=name) == ["for acme"]
    assert read(dsn, subscribe=name) == []


def test_a_batch_has_at_most_as_many_events_as_asked_for_or_one_tick(
    start: Start, database: psycopg.Connection, name: str
) -> None:
    for events in (2, 3, 7, 1, 4):
        streams.send(database, name, ["x"] * events)
        streams.tick(database, name)
    query = start(subscribe=name, startingOffsets="earliest")
    query.at = query.reader.initialOffset()

    assert [len(query.batch(5)) for _ in range(4)] == [5, 7, 5, 0]


def test_progress_says_how_far_behind_each_stream_is(dsn: str, database: psycopg.Connection) -> None:
    for stream in ("few", "many"):
        streams.make(database, stream)
    query = Query(dsn, subscribe="few,many", startingOffsets="earliest", consumer="lag")
    query.at = query.reader.initialOffset()
    streams.send(database, "few", ["a"])
    streams.tick(database, "few")
    for sent in (["b", "c"], ["d", "e", "f"]):
        streams.send(database, "many", sent)
        streams.tick(database, "many")

    query.latest(3)
    report = query.reader.reportLatestOffset()

    assert {name: (told["events"], told["lag_events"]) for name, told in report.items()} == {
        "few": (1, 0),
        "many": (2, 3),
    }
    assert report["few"]["lag_s"] == 0.0
    assert report["many"]["lag_s"] >= report["many"]["tick_age_s"] >= 0.0

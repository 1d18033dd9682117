"""How queues are doing, told from ticks. Time is moved by moving what happened into the past."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

from tests.store.statistics import FLUSH
from tests.store.streams.calls import Api, api_of

FUNCTIONS = [
    "queue_stats()",
    "consumer_stats()",
    "queue_health()",
    "otel_metrics()",
    "stuck_consumers()",
    "in_flight('{queue}')",
    "throughput('{queue}', '1 hour', '1 minute')",
    "error_rate('{queue}', '1 hour', '1 minute')",
    "latency_percentiles('{queue}', 'app', '1 hour')",
]


@pytest.fixture
def api(streams_dsn: str) -> Iterator[Api]:
    with api_of(streams_dsn, "app") as api:
        yield api


def fill(api: Api, count: int) -> None:
    """Events up to a tick. A tick is made without force: forcing moves the numbers that estimates are made of."""
    api.rows("select pgque.send_batch(%s, 'kind', array_fill('a'::text, array[%s]))", api.queue, count)
    tick(api)


def tick(api: Api) -> None:
    age(api, "1 hour", only="tick_id = (select max(tick_id) from pgque.tick as n where n.tick_queue = tick.tick_queue)")
    assert api.one("select pgque.ticker(%s)", api.queue) is not None


def age(api: Api, by: str, only: str = "true") -> None:
    """As if the ticks had been made that much earlier."""
    api.run(
        f"""
        update pgque.tick set tick_time = tick_time - %s::interval
        where tick_queue = (select queue_id from pgque.queue where queue_name = %s) and {only}
        """,
        *(by, api.queue),
    )


def stats(api: Api) -> dict[str, Any]:
    cursor = api.connection.execute("select * from pgque.queue_stats() where queue_name = %s", [api.queue])
    [row] = cursor.fetchall()
    return dict(zip((column.name for column in cursor.description or ()), row, strict=True))


def health(api: Api) -> dict[str, str]:
    return dict(api.rows("select check_name, status from pgque.queue_health() where queue_name = %s", api.queue))


def metrics(api: Api) -> dict[str, tuple[str, Decimal]]:
    found = api.rows(
        "select metric_name, metric_type, value from pgque.otel_metrics() where labels ->> 'queue' = %s", api.queue
    )
    return {name: (type, value) for name, type, value in found}


def bury(api: Api) -> None:
    api.rows("select pgque.set_queue_config(%s, 'max_retries', '0')", api.queue)
    fill(api, 1)
    [message] = api.receive()
    api.nack(message)
    api.ack(message.batch_id)


class TestQueueStats:
    def test_a_new_queue(self, api: Api) -> None:
        found = stats(api)

        assert (found["depth"], found["oldest_msg_age"], found["consumers"], found["dlq_count"]) == (0, None, 1, 0)
        assert found["ticker_paused"] is False
        assert found["last_tick_id"] == 1

    def test_depth_is_what_the_slowest_consumer_has_before_it(self, api: Api) -> None:
        api.rows("select pgque.subscribe(%s, 'slow')", api.queue)
        fill(api, 30)
        api.drain()

        assert stats(api)["depth"] == 30
        api.drain("slow")
        assert stats(api)["depth"] == 0

    def test_the_oldest_event_is_as_old_as_the_tick_before_it(self, api: Api) -> None:
        fill(api, 1)

        assert 3600 <= stats(api)["oldest_msg_age"].total_seconds() < 3700

    def test_the_rate_is_that_of_the_last_two_ticks(self, api: Api) -> None:
        fill(api, 7200)

        assert round(stats(api)["events_per_sec"], 1) == 2

    def test_dead_letters_are_counted(self, api: Api) -> None:
        bury(api)

        assert stats(api)["dlq_count"] == 1


class TestConsumers:
    def test_lag_and_pending_events(self, api: Api) -> None:
        fill(api, 5)
        [[lag, pending, active, batch]] = api.rows(
            "select lag, pending_events, batch_active, batch_id from pgque.consumer_stats() where queue_name = %s",
            api.queue,
        )

        assert lag.total_seconds() >= 3600
        assert (pending, active, batch) == (5, False, None)

    def test_an_open_batch_is_in_flight(self, api: Api) -> None:
        fill(api, 5)
        batch = api.receive()[0].batch_id

        [[consumer, found, age_of_it, events]] = api.rows("select * from pgque.in_flight(%s)", api.queue)
        assert (consumer, found, events) == ("app", batch, 5)
        assert age_of_it.total_seconds() < 60
        api.ack(batch)
        assert api.rows("select * from pgque.in_flight(%s)", api.queue) == []

    def test_a_consumer_far_behind_is_stuck(self, api: Api) -> None:
        def stuck(threshold: str) -> list[tuple[Any, ...]]:
            query = "select consumer_name from pgque.stuck_consumers(%s) where queue_name = %s"
            return api.rows(query, threshold, api.queue)

        fill(api, 1)
        age(api, "30 minutes")

        assert (stuck("1 hour"), stuck("2 hours")) == ([("app",)], [])
        api.drain()
        assert stuck("1 hour") == []


class TestHealth:
    def test_all_is_well(self, api: Api) -> None:
        assert health(api) == {
            "ticker_running": "ok",
            "consumer_lag:app": "ok",
            "rotation_health": "ok",
            "dlq_health": "ok",
        }

    def test_a_queue_without_ticks_is_critical(self, api: Api) -> None:
        age(api, "3 minutes")

        assert health(api)["ticker_running"] == "critical"

    def test_an_idle_queue_needs_few_ticks_and_a_busy_one_many(self, api: Api) -> None:
        age(api, "1 minute")
        assert health(api)["ticker_running"] == "ok"
        api.send("a")
        assert health(api)["ticker_running"] == "critical"

    def test_a_paused_ticker_is_not_missed(self, api: Api) -> None:
        age(api, "1 day")
        api.rows("select pgque.pause_queue(%s)", api.queue)

        assert "ticker_running" not in health(api)

    @pytest.mark.parametrize(
        ("lag", "status"), [("50 minutes", "ok"), ("70 minutes", "warning"), ("130 minutes", "critical")]
    )
    def test_lag_is_measured_by_the_rotation_period(self, api: Api, lag: str, status: str) -> None:
        """Two hours by default: a consumer that far behind keeps the tables from turning."""
        age(api, lag)

        assert health(api)["consumer_lag:app"] == status

    def test_a_rotation_that_is_overdue(self, api: Api) -> None:
        api.run(
            "update pgque.queue set queue_switch_time = now() - interval '5 hours' where queue_name = %s", api.queue
        )

        assert health(api)["rotation_health"] == "warning"

    def test_many_dead_letters(self, api: Api) -> None:
        bury(api)
        api.run(
            """
            insert into pgque.dead_letter (dl_queue_id, dl_consumer_id, ev_id, ev_time)
            select queue_id, 0, n, now() from pgque.queue, generate_series(1, 1000) as n where queue_name = %s
            """,
            api.queue,
        )

        assert health(api)["dlq_health"] == "warning"


class TestHistory:
    def test_throughput_by_buckets(self, api: Api) -> None:
        fill(api, 60)
        fill(api, 30)
        buckets = api.rows("select * from pgque.throughput(%s, '3 hours', '1 hour')", api.queue)

        assert [events for _, events, _ in buckets if events] == [60, 30]
        assert buckets[-1][2] == Decimal("0.008")
        assert len(buckets) == 4

    def test_latency_is_from_the_tick_to_the_ack(self, api: Api) -> None:
        for _ in range(4):
            fill(api, 1)
            age(
                api,
                "2 seconds",
                only="tick_id = (select max(tick_id) from pgque.tick as n where n.tick_queue = tick.tick_queue)",
            )
            api.drain()
        [[p50, p95, p99]] = api.rows("select * from pgque.latency_percentiles(%s, 'app', '1 hour')", api.queue)

        assert 2 <= p50.total_seconds() <= p95.total_seconds() <= p99.total_seconds()

    def test_without_history_there_is_no_latency(self, api: Api) -> None:
        assert api.rows("select * from pgque.latency_percentiles(%s, 'app', '1 hour')", api.queue) == [(None,) * 3]

    def test_error_rate_by_buckets(self, api: Api) -> None:
        fill(api, 2)
        for message in api.receive():
            api.nack(message, after="1 hour")
        api.ack(api.receive()[0].batch_id)
        bury(api)
        buckets = api.rows("select * from pgque.error_rate(%s, '1 hour', '1 hour')", api.queue)

        assert [sum(column) for column in list(zip(*buckets, strict=True))[1:]] == [2, 1]

    @pytest.mark.parametrize(("period", "bucket"), [("1 hour", "0"), ("1 hour", "2 hours"), ("1 year", "1 second")])
    @pytest.mark.parametrize("function", ["throughput", "error_rate"])
    def test_buckets_have_bounds(self, api: Api, function: str, period: str, bucket: str) -> None:
        error = api.refused(f"select * from pgque.{function}(%s, %s, %s)", api.queue, period, bucket)

        assert error.sqlstate == "22023"


class TestMetrics:
    def test_names_and_types(self, api: Api) -> None:
        fill(api, 3)

        assert {name: type for name, (type, _) in metrics(api).items()} == {
            "pgque.queue.depth": "gauge",
            "pgque.queue.oldest_message_age_seconds": "gauge",
            "pgque.queue.throughput": "gauge",
            "pgque.message.dead_lettered": "gauge",
            "pgque.message.sent_total": "counter",
            "pgque.message.acked_total": "counter",
            "pgque.message.nacked_total": "counter",
            "pgque.consumer.lag_seconds": "gauge",
            "pgque.consumer.pending_events": "gauge",
        }

    def test_counters_count(self, api: Api) -> None:
        before = metrics(api)
        fill(api, 3)
        api.drain()
        fill(api, 4)
        after = metrics(api)

        def rise(name: str) -> int:
            return int(after[name][1] - before[name][1])

        assert (rise("pgque.message.sent_total"), rise("pgque.message.acked_total")) == (7, 3)
        assert after["pgque.consumer.pending_events"][1] == 4

    def test_failures_are_counted_for_each_queue(self, api: Api) -> None:
        assert metrics(api)["pgque.message.nacked_total"] == ("counter", Decimal(0))
        bury(api)
        bury(api)

        assert metrics(api)["pgque.message.nacked_total"] == ("counter", Decimal(2))


@pytest.mark.parametrize("function", FUNCTIONS)
def test_no_function_looks_into_event_tables(api: Api, function: str) -> None:
    """They are asked often, and the tables are large."""
    fill(api, 10)
    for statement in FLUSH:
        api.run(statement)
    scans = """
        select coalesce(sum(seq_scan + coalesce(idx_scan, 0)), 0) from pg_stat_user_tables
        where schemaname = 'pgque' and relname ~ '^event_'
    """
    before = api.one(scans)
    api.rows(f"select * from pgque.{function.format(queue=api.queue)}")
    for statement in FLUSH:
        api.run(statement)

    assert api.one(scans) == before

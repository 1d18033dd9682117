"""What people want from streams, each from beginning to end. pg_cron is played by a stub of its functions."""

from __future__ import annotations

import psycopg
import pytest

from penstock.store.postgres.sql import whole
from tests.store.statistics import FLUSH
from tests.store.streams.api.test_lifecycle import CRON
from tests.store.streams.calls import Api, Connection, Message, api_of


@pytest.fixture
def alone(migrated_database: str) -> str:
    return migrated_database


def single_file() -> str:
    """The installation without a server, as `penstock sql streams` prints it."""
    return whole("pgque")


def load(connection: Connection) -> None:
    with connection.transaction():
        connection.execute(single_file().encode())


def payloads(messages: list[Message]) -> list[str | None]:
    return [message.payload for message in messages]


def test_us_1_a_message_is_sent_and_received(alone: str) -> None:
    with psycopg.connect(alone, autocommit=True) as connection:
        api = Api(alone, connection, "orders")
        api.rows("select pgque.create_queue('orders')")
        api.rows("select pgque.subscribe('orders', 'app')")
        api.run("""select pgque.send('orders', '{"id":1}')""")
        api.tick()

        [message] = api.receive("app", 10)
        assert (message.payload, message.type) == ('{"id":1}', "default")
        assert api.ack(message.batch_id) == 1
        assert api.receive("app", 10) == []
        api.rows("select pgque.unsubscribe('orders', 'app')")
        assert api.one("select pgque.drop_queue('orders')") == 1
        api.rows("select pgque.uninstall()")
        assert api.one("select to_regnamespace('pgque')") is None


def test_us_2_several_consumers_each_receive_everything(streams_dsn: str) -> None:
    consumers = ["analytics", "notifier", "audit"]
    with api_of(streams_dsn, *consumers) as api:
        for number in range(5):
            api.send(str(number))
        api.tick()
        received = {consumer: api.receive(consumer) for consumer in consumers}
        assert {consumer: payloads(messages) for consumer, messages in received.items()} == {
            consumer: ["0", "1", "2", "3", "4"] for consumer in consumers
        }
        api.ack(received["audit"][0].batch_id)

        def pending() -> dict[str, bool]:
            query = "select consumer_name, pending_events > 0 from pgque.consumer_stats() where queue_name = %s"
            return dict(api.rows(query, api.queue))

        assert pending() == {"analytics": True, "audit": False, "notifier": True}
        assert [api.ack(received[consumer][0].batch_id) for consumer in ("analytics", "notifier")] == [1, 1]


def test_us_3_a_failing_message_is_retried_and_then_a_dead_letter(streams_dsn: str) -> None:
    with api_of(streams_dsn, "worker", max_retries=2) as api:
        api.send("job")
        api.tick()
        counts = []
        for _ in range(3):
            [message] = api.receive("worker")
            counts.append(message.retry_count)
            api.nack(message, reason="upstream timeout")
            api.ack(message.batch_id)
            api.rows("select pgque.maint()")
            api.tick()
        assert counts == [None, 1, 2]
        assert api.receive("worker") == []

        [[letter, reason, retries]] = api.rows(
            "select dl_id, dl_reason, ev_retry from pgque.dlq_inspect(%s)", api.queue
        )
        assert (reason, retries) == ("upstream timeout", 2)
        assert api.one("select pgque.dlq_replay(%s)", letter) is not None
        api.tick()
        [message] = api.receive("worker")
        assert (message.payload, message.retry_count) == ("job", None)
        assert api.rows("select * from pgque.dlq_inspect(%s)", api.queue) == []


def test_us_4_a_message_comes_when_its_time_has_come(streams_dsn: str) -> None:
    with api_of(streams_dsn, "sender") as api:
        api.rows("select pgque.send_at(%s, 'remind', '{}'::jsonb, now() + interval '5 seconds')", api.queue)
        api.rows("select pgque.maint()")
        api.tick()
        assert api.receive("sender") == []

        api.run("update pgque.delayed_events set de_deliver_at = now() where de_queue_name = %s", api.queue)
        api.rows("select pgque.maint()")
        api.tick()
        [message] = api.receive("sender")
        assert (message.type, message.payload) == ("remind", "{}")


def test_us_5_ten_thousand_events_are_one_batch(alone: str) -> None:
    with api_of(alone, "etl") as api:
        with api.connection.transaction():
            for _ in range(10):
                api.rows(
                    "select pgque.send_batch(%s, 'row', array(select n::text from generate_series(1, 1000) as n))",
                    api.queue,
                )
        api.tick()
        messages = api.receive("etl", 10_000)
        assert (len(messages), {message.batch_id for message in messages}) == (10_000, {messages[0].batch_id})
        assert payloads(messages) == [str(number) for _ in range(10) for number in range(1, 1001)]
        assert api.ack(messages[0].batch_id) == 1
        assert api.one("select depth from pgque.queue_stats() where queue_name = %s", api.queue) == 0
        for statement in FLUSH:
            api.run(statement)
        dead = api.one(
            "select sum(n_dead_tup) from pg_stat_user_tables where schemaname = 'pgque' and relname ~ '^event_'"
        )
        assert dead == 0


def rotate(api: Api) -> bool:
    """Lets the period pass and turns the tables, if that can be done; whether it was."""
    api.run("update pgque.queue set queue_switch_time = now() - interval '1 day' where queue_name = %s", api.queue)
    current = "select queue_cur_table from pgque.queue where queue_name = %s"
    before = api.one(current, api.queue)
    api.rows("select pgque.maint_rotate_tables_step2()")
    api.rows("select pgque.maint_rotate_tables_step1(%s)", api.queue)
    api.rows("select pgque.maint_rotate_tables_step2()")
    return bool(api.one(current, api.queue) != before)


def test_us_6_tables_turn_while_a_consumer_lags_and_nothing_is_lost(alone: str) -> None:
    with api_of(alone, "fast", "slow", rotation_period="10 seconds") as api:
        sent, fast, turns = [], [], []
        for number in range(6):
            api.send(str(number))
            sent.append(str(number))
            api.tick()
            fast += payloads(api.drain("fast"))
            turns.append(rotate(api))
        assert fast == sent
        assert turns[-1] is False

        api.run("update pgque.tick set tick_time = tick_time - interval '1 minute'")
        health = dict(api.rows("select check_name, status from pgque.queue_health() where queue_name = %s", api.queue))
        assert health["consumer_lag:slow"] == "critical"
        assert payloads(api.drain("slow")) == sent
        api.tick()
        api.drain("fast")
        api.drain("slow")
        assert rotate(api) is True


def test_us_7_writes_and_ack_are_one_transaction(streams_dsn: str) -> None:
    with api_of(streams_dsn, "processor") as api:
        table = f"processed_{api.queue.replace('-', '_')}"
        api.run(f"create table {table} (id int primary key)")
        process = f"""
            with received as materialized (select * from pgque.receive('{api.queue}', 'processor')),
            done as (insert into {table} select (payload::json ->> 'payment_id')::int from received)
            select distinct batch_id from received
        """
        api.send('{"payment_id": 42}')
        api.tick()
        with api.connection.transaction():
            assert api.ack(api.one(process)) == 1
        assert (api.rows(f"select * from {table}"), api.receive("processor")) == ([(42,)], [])

        api.send('{"payment_id": 43}')
        api.tick()
        crashing = psycopg.connect(streams_dsn)
        crashing.execute(process.encode())
        crashing.close()
        assert api.rows(f"select * from {table}") == [(42,)]
        assert payloads(api.receive("processor")) == ['{"payment_id": 43}']
        api.run(f"drop table {table}")


def test_us_8_one_file_installs_it_and_pg_cron_runs_it(fresh_database: str) -> None:
    with psycopg.connect(fresh_database, autocommit=True) as connection:
        load(connection)
        connection.execute(CRON)
        api = Api(fresh_database, connection, "orders")
        api.rows("select pgque.start()")
        status = {component: state for component, state, _ in api.rows("select * from pgque.status()")}
        assert (status["ticker"], status["maint"]) == ("scheduled", "scheduled")

        api.rows("select pgque.create_queue('orders')")
        api.rows("select pgque.subscribe('orders', 'app')")
        api.send("a")
        api.tick()
        assert payloads(api.drain()) == ["a"]
        assert {status for (status,) in api.rows("select status from pgque.queue_health()")} == {"ok"}

        api.rows("select pgque.stop()")
        assert api.rows("select * from cron.job") == []
        api.rows("select pgque.uninstall()")
        assert api.one("select to_regnamespace('pgque')") is None


def test_us_9_an_operator_sees_what_is_wrong(alone: str) -> None:
    with (
        api_of(alone, "app") as healthy,
        api_of(alone, "late") as lagging,
        api_of(alone, "app", max_retries=0) as failing,
    ):
        for api in (healthy, lagging, failing):
            api.send("a")
            api.tick()
        healthy.drain()
        [message] = failing.receive()
        failing.nack(message)
        failing.ack(message.batch_id)
        lagging.run(
            """
            update pgque.tick set tick_time = now() - interval '90 minutes' where tick_id = 1
              and tick_queue = (select queue_id from pgque.queue where queue_name = %s)
            """,
            lagging.queue,
        )

        stats = {
            queue: (depth > 0, dead)
            for queue, depth, dead in healthy.rows("select queue_name, depth, dlq_count from pgque.queue_stats()")
        }
        assert stats == {healthy.queue: (False, 0), lagging.queue: (True, 0), failing.queue: (False, 1)}
        lags = dict(healthy.rows("select queue_name, lag > '1 hour' from pgque.consumer_stats()"))
        assert lags == {healthy.queue: False, lagging.queue: True, failing.queue: False}
        unwell = healthy.rows("select queue_name, check_name, status from pgque.queue_health() where status <> 'ok'")
        assert unwell == [(lagging.queue, "consumer_lag:late", "warning")]
        assert healthy.rows("select queue_name, consumer_name from pgque.stuck_consumers()") == [
            (lagging.queue, "late")
        ]
        metrics = {
            (name, labels.get("queue")): (type, value)
            for name, type, value, labels in healthy.rows("select * from pgque.otel_metrics()")
        }
        assert metrics["pgque.message.dead_lettered", failing.queue] == ("gauge", 1)
        assert metrics["pgque.consumer.lag_seconds", lagging.queue][1] >= 5400


def test_us_10_installing_again_changes_nothing(fresh_database: str) -> None:
    with psycopg.connect(fresh_database, autocommit=True) as connection:
        load(connection)
        connection.execute(CRON)
        with api_of(fresh_database, "app", "behind", max_retries=0) as api:
            api.rows("select pgque.start()")
            for payload in "abc":
                api.send(payload)
            api.rows("select pgque.send_at(%s, 'later', 'd', now() + interval '1 hour')", api.queue)
            api.tick()
            [first, *_] = api.receive(most=1)
            api.nack(first)
            api.ack(first.batch_id)
            kept = [
                *(
                    "select * from pgque.queue",
                    "select * from pgque.subscription order by sub_id",
                    "select * from pgque.tick",
                ),
                *(
                    "select * from pgque.dead_letter",
                    "select * from pgque.delayed_events",
                    "select * from pgque.config",
                ),
                *("select * from pgque.failure", "select queue_name, depth from pgque.queue_stats()"),
            ]
            before = [api.rows(query) for query in kept]
            load(connection)
            assert [api.rows(query) for query in kept] == before

            api.send("e")
            api.tick()
            assert payloads(api.drain()) == ["b", "c", "e"]
            assert payloads(api.drain("behind")) == ["a", "b", "c", "e"]

"""pgque-py as it is published, against the streams of a database that Penstock migrated."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

import pgque
import psycopg
import pytest
from pgque import PgqueClient

from penstock.store.postgres.migrate import migrate


@pytest.fixture(scope="module")
def dsn(postgres_dsn: str) -> str:
    asyncio.run(migrate(postgres_dsn))
    return postgres_dsn


@pytest.fixture
def queue() -> str:
    return f"queue-{uuid4().hex}"


@pytest.fixture
def client(dsn: str, queue: str) -> Iterator[PgqueClient]:
    with pgque.connect(dsn, autocommit=True) as client:
        client.conn.execute("select pgque.create_queue(%s)", [queue])
        client.subscribe(queue, "app")
        yield client


def tick(client: PgqueClient, queue: str) -> None:
    client.force_next_tick(queue)
    client.ticker(queue)


def again(client: PgqueClient, queue: str) -> None:
    """Messages that failed are due at once."""
    client.conn.execute("update pgque.retry_queue set ev_retry_after = now()")
    client.conn.execute("select pgque.maint_retry_events()")
    tick(client, queue)


def test_what_is_sent_is_received_and_acknowledged(client: PgqueClient, queue: str) -> None:
    ids = [
        client.send(queue, {"n": 1}),
        client.send(queue, {"n": 2}, type="kind"),
        client.send(queue, pgque.Event({"n": 3}, type="event")),
        client.send(queue, None),
    ]
    tick(client, queue)
    messages = client.receive(queue, "app")

    assert [message.msg_id for message in messages] == ids
    assert [(message.type, message.payload) for message in messages] == [
        ("default", '{"n": 1}'),
        ("kind", '{"n": 2}'),
        ("event", '{"n": 3}'),
        ("default", "null"),
    ]
    assert [client.ack(messages[0].batch_id), client.ack(messages[0].batch_id)] == [1, 0]
    assert client.receive(queue, "app") == []


def test_a_batch_is_sent_in_one_call(client: PgqueClient, queue: str) -> None:
    ids = client.send_batch(queue, "kind", [{"n": 1}, [2], '"three"', None])
    tick(client, queue)
    messages = client.receive(queue, "app")

    assert [message.msg_id for message in messages] == ids
    assert [message.payload for message in messages] == ['{"n": 1}', "[2]", '"three"', "null"]


def test_a_send_belongs_to_the_transaction(dsn: str, client: PgqueClient, queue: str) -> None:
    with pgque.connect(dsn) as producer:
        producer.send(queue, {"n": 1})
        producer.conn.rollback()
        producer.send(queue, {"n": 2})
        producer.conn.commit()
    tick(client, queue)

    assert [message.payload for message in client.receive(queue, "app")] == ['{"n": 2}']


def test_more_than_asked_for_comes_in_pieces(client: PgqueClient, queue: str) -> None:
    """Where the client expects an error, it gets the beginning, and the rest after the ack."""
    client.send_batch(queue, "kind", list(map(str, range(5))))
    tick(client, queue)
    received = []
    while messages := client.receive(queue, "app", max_messages=2):
        received.append([message.payload for message in messages])
        assert client.ack(messages[0].batch_id) == 1

    assert received == [["0", "1"], ["2", "3"], ["4"]]


def test_a_failed_message_is_retried_and_becomes_a_dead_letter(client: PgqueClient, queue: str) -> None:
    client.conn.execute("select pgque.set_queue_config(%s, 'max_retries', '1')", [queue])
    client.send(queue, {"n": 1})
    tick(client, queue)
    counts = []
    for _ in range(2):
        [message] = client.receive(queue, "app")
        counts.append(message.retry_count)
        client.nack(message.batch_id, message, retry_after=0.5, reason="broken")
        client.ack(message.batch_id)
        again(client, queue)
    letters = client.conn.execute("select dl_reason, ev_data from pgque.dlq_inspect(%s)", [queue]).fetchall()

    assert counts == [None, 1]
    assert client.receive(queue, "app") == []
    assert letters == [("broken", '{"n": 1}')]


def test_the_client_knows_our_errors(client: PgqueClient, queue: str) -> None:
    client.send(queue, {})
    tick(client, queue)
    [message] = client.receive(queue, "app")
    client.ack(message.batch_id)

    with pytest.raises(pgque.PgqueQueueNotFound):
        client.send("nowhere", {})
    with pytest.raises(pgque.PgqueQueueNotFound):
        client.subscribe("nowhere", "app")
    with pytest.raises(pgque.PgqueConsumerNotFound):
        client.receive(queue, "stranger")
    with pytest.raises(pgque.PgqueBatchNotFound):
        client.nack(message.batch_id, message)


def test_subscriptions(client: PgqueClient, queue: str) -> None:
    assert [client.subscribe(queue, "app"), client.subscribe(queue, "new")] == [0, 1]
    assert [client.unsubscribe(queue, "new"), client.unsubscribe(queue, "new")] == [1, 0]


def test_ticks(client: PgqueClient, queue: str) -> None:
    last = client.force_next_tick(queue)
    assert isinstance(last, int)
    new = client.ticker(queue)
    assert new is not None
    assert new > last
    assert client.ticker(queue) is None
    client.force_tick(queue)
    assert client.ticker_all() >= 1


class TestCooperation:
    def test_workers_share_a_consumer_and_take_over_from_each_other(self, client: PgqueClient, queue: str) -> None:
        assert client.subscribe_subconsumer(queue, "crew", "one") == 1
        assert client.subscribe_subconsumer(queue, "crew", "one") == 0
        for number in range(2):
            client.send(queue, {"n": number})
            tick(client, queue)
        [first] = client.receive_coop(queue, "crew", "one")
        [second] = client.receive_coop(queue, "crew", "two")
        assert (first.payload, second.payload) == ('{"n": 0}', '{"n": 1}')
        assert client.touch_subconsumer(queue, "crew", "one") == 1
        assert client.touch_subconsumer(queue, "crew", "nobody") == 0

        client.ack(second.batch_id)
        [taken] = client.receive_coop(queue, "crew", "two", dead_interval="0 seconds")
        assert (taken.msg_id, taken.batch_id == first.batch_id) == (first.msg_id, False)
        assert client.ack(first.batch_id) == 0
        assert client.ack(taken.batch_id) == 1

    def test_leaving_with_a_batch_open(self, client: PgqueClient, queue: str) -> None:
        client.subscribe_subconsumer(queue, "crew", "one")
        client.send(queue, {"n": 1})
        tick(client, queue)
        [message] = client.receive_coop(queue, "crew", "one")
        with pytest.raises(pgque.PgqueError):
            client.unsubscribe_subconsumer(queue, "crew", "one")
        assert client.unsubscribe_subconsumer(queue, "crew", "one", batch_handling=1) == 1
        again(client, queue)

        [found] = client.receive_coop(queue, "crew", "two")
        assert (found.msg_id, found.retry_count) == (message.msg_id, 1)


class Worker:
    """A consumer of the client's own, in a thread."""

    def __init__(self, dsn: str, queue: str, **options: object) -> None:
        self.consumer = pgque.Consumer(dsn, queue=queue, poll_interval=30, retry_after=0, **options)
        self.handled: list[object] = []
        self.came = threading.Semaphore(0)

    def handle(self, message: pgque.Message) -> None:
        self.handled.append(message.payload)
        self.came.release()

    def wait(self) -> None:
        assert self.came.acquire(timeout=20)

    @contextmanager
    def running(self) -> Iterator[None]:
        thread = threading.Thread(target=self.consumer.start)
        thread.start()
        try:
            yield
        finally:
            self.consumer.stop()
            thread.join(timeout=20)
        assert not thread.is_alive()


def retried(client: PgqueClient, queue: str) -> None:
    """Waits until the failure of a message has committed."""
    for _ in range(2000):
        found = client.conn.execute(
            "select 1 from pgque.retry_queue join pgque.queue on queue_id = ev_queue where queue_name = %s", [queue]
        )
        if found.fetchone():
            return
        threading.Event().wait(0.01)
    raise AssertionError("nothing has failed")


class TestConsumer:
    def test_a_tick_wakes_it(self, dsn: str, client: PgqueClient, queue: str) -> None:
        """It looks every 30 seconds by itself, which is longer than this test waits."""
        worker = Worker(dsn, queue, name="app")
        worker.consumer.on("kind")(worker.handle)
        with worker.running():
            for number in range(3):
                client.send(queue, {"n": number}, type="kind")
                tick(client, queue)
                worker.wait()

        assert worker.handled == ['{"n": 0}', '{"n": 1}', '{"n": 2}']
        assert client.receive(queue, "app") == []

    def test_a_handler_that_fails_sees_the_message_again(self, dsn: str, client: PgqueClient, queue: str) -> None:
        worker = Worker(dsn, queue, name="app")
        counts = []

        def handle(message: pgque.Message) -> None:
            counts.append(message.retry_count)
            worker.handle(message)
            if message.retry_count is None:
                raise ZeroDivisionError

        worker.consumer.on("*")(handle)
        client.send(queue, {"n": 1})
        tick(client, queue)
        with worker.running():
            worker.wait()
            retried(client, queue)
            again(client, queue)
            worker.wait()

        assert counts == [None, 1]

    def test_a_worker_of_a_crew(self, dsn: str, client: PgqueClient, queue: str) -> None:
        client.subscribe_subconsumer(queue, "crew", "one")
        client.send(queue, {"n": 1})
        tick(client, queue)
        worker = Worker(dsn, queue, name="crew", subconsumer="one", dead_interval="1 minute")
        worker.consumer.on("*")(worker.handle)
        with worker.running():
            worker.wait()

        assert worker.handled == ['{"n": 1}']


def test_the_client_needs_no_more_than_the_role_of_a_writer(dsn: str, client: PgqueClient, queue: str) -> None:
    client.send(queue, {"n": 1})
    tick(client, queue)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("set role pgque_writer")
        writer = PgqueClient(connection)
        writer.send(queue, {"n": 2})
        tick(writer, queue)
        received = []
        while messages := writer.receive(queue, "app"):
            received += [message.payload for message in messages]
            writer.ack(messages[0].batch_id)

    assert received == ['{"n": 1}', '{"n": 2}']

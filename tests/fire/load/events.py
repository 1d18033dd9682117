"""Producers and consumers of streams, and publishers of events."""

from __future__ import annotations

import time
from collections.abc import Callable
from random import Random
from typing import Any

import psycopg

import penstock
from penstock.consumer import Message
from tests.fire.history import Recorder
from tests.fire.load.doors import Rest

STREAM = "flow"
CONSUMER = "reader"
SINK = "sink"
TABLE = "public.fire_sink"
PUBLISHED = "published"
"""The queue that is subscribed to all events."""

Stop = Callable[[], bool]


def produce(recorder: Recorder, dsn: str, seed: int, stop: Stop) -> None:
    """Events in transactions that commit late, in another order than they began, or not at all."""
    random = Random(f"{seed} {recorder.process}")
    connection: psycopg.Connection[Any] | None = None
    sent = 0
    while not stop():
        keys = [f"{recorder.process}-{sent + number}" for number in range(random.randint(1, 5))]
        sent += len(keys)
        number = recorder.begin("event", STREAM, {"keys": keys})
        committing = False
        try:
            if connection is None or connection.closed:
                connection = psycopg.connect(dsn, connect_timeout=3)
            for key in keys:
                connection.execute("select pgque.send(%s, 'default', %s::text)", [STREAM, key])
            time.sleep(random.choice([0, 0, 0.1, 0.5]))
            if random.random() < 0.2:
                connection.rollback()
                recorder.end(number, "fail", "rolled back")
                continue
            committing = True
            connection.commit()
        except psycopg.Error as error:
            recorder.end(number, "unknown" if committing else "fail", str(error)[:100])
            if connection is not None:
                connection.close()
            time.sleep(0.1)
        else:
            recorder.end(number, "ok")
        time.sleep(random.random() * 0.1)


class Reader:
    """A consumer over HTTP."""

    def __init__(self, recorder: Recorder, urls: list[str], token: str) -> None:
        self._recorder = recorder
        self._rest = Rest(recorder, urls, token)

    def run(self, stop: Stop) -> None:
        while not stop():
            if not self.step(wait=1):
                time.sleep(0.05)

    def step(self, wait: int) -> bool:
        """Whether there was a batch."""
        path = f"/v1/streams/{STREAM}/consumers/{CONSUMER}"

        def batch() -> dict[str, Any] | None:
            found = self._rest.ask("GET", f"{path}/batch", max=100, wait=wait)
            if not found or found["batch_id"] is None:
                return None
            return {"batch": found["batch_id"], "keys": [event["payload"] for event in found["events"]]}

        answer = self._rest._call("batch", STREAM, {"consumer": CONSUMER}, batch)
        if not answer.ok or answer.result is None:
            return False
        number = answer.result["batch"]
        given = {"consumer": CONSUMER, "batch": number}
        self._rest._call("ack batch", STREAM, given, lambda: self._rest.ask("POST", f"{path}/batches/{number}/ack"))
        return True


def publish(recorder: Recorder, urls: list[str], token: str, stop: Stop, rate: float) -> None:
    rest = Rest(recorder, urls, token)
    sent = 0
    while not stop():
        sent += 1
        key = f"{recorder.process}-{sent}"

        def send(key: str = key, sent: int = sent) -> dict[str, Any]:
            answer = rest.ask("POST", f"/v1/events/fire.e{sent % 7}", {"message": key})
            return {"id": answer["message_id"]}

        rest._call("publish", "fire", {"key": key, "queues": [PUBLISHED], "webhook": True}, send)
        time.sleep(1 / rate)


def sink(dsn: str) -> None:
    """A consumer whose rows are written with its acknowledgements, until it is killed."""
    consumer = penstock.Consumer(dsn, STREAM, SINK, poll_interval=1)

    @consumer.on("*", transactional=True)
    def write(message: Message, connection: psycopg.Connection[Any]) -> None:
        connection.execute(f"insert into {TABLE} values (%s)".encode(), [message.payload])

    consumer.start()

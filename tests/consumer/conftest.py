"""Consumers on a real PostgreSQL, the one for threads and the one for asyncio under the same tests."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import Any, Protocol, cast
from uuid import uuid4

import psycopg
import pytest

import penstock
from penstock.consumer import AsyncConsumer, Consumer, Message, Producer
from penstock.consumer.messages import RateLimit
from penstock.consumer.options import Options
from penstock.store.postgres.migrate import migrate

PATIENCE_S = 20.0


@pytest.fixture(scope="session")
def streams_dsn(postgres_dsn: str) -> str:
    asyncio.run(migrate(postgres_dsn))
    return postgres_dsn


@pytest.fixture
def queue(streams_dsn: str) -> str:
    """A queue of this test's own."""
    name = f"q-{uuid4().hex[:12]}"
    with psycopg.connect(streams_dsn, autocommit=True) as connection:
        connection.execute("select pgque.create_queue(%s)", [name])
    return name


@pytest.fixture
def producer(streams_dsn: str) -> Iterator[Producer]:
    with penstock.connect(streams_dsn) as found:
        yield found


@pytest.fixture
def admin(streams_dsn: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(streams_dsn, autocommit=True) as connection:
        yield connection


class Running:
    """A consumer in a thread of its own, and the messages its handlers saw."""

    def __init__(self, consumer: Any, start: Callable[[], None], stop: Callable[[], None]) -> None:
        self.consumer = consumer
        self.stop = stop
        self.error: BaseException | None = None
        self.seen: list[Message] = []
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, args=[start], daemon=True)

    def _run(self, start: Callable[[], None]) -> None:
        try:
            start()
        except BaseException as error:
            self.error = error

    def saw(self, message: Message) -> None:
        with self._changed:
            self.seen.append(message)
            self._changed.notify_all()

    def await_seen(self, count: int) -> list[Message]:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.seen) >= count, PATIENCE_S), self.seen
            return list(self.seen)

    def payloads(self, count: int) -> list[Any]:
        return [message.payload for message in self.await_seen(count)]

    def begin(self) -> None:
        self._thread.start()

    def end(self) -> None:
        self.stop()
        self.join()

    def join(self) -> None:
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive(), "the consumer did not stop"


class Threads:
    def make(self, dsn: str, queue: str, name: str, options: Options) -> Running:
        consumer = Consumer(dsn, queue, name, **options)
        return Running(consumer, consumer.start, consumer.stop)

    def on(self, running: Running, type: str, handler: Callable[..., Any], **terms: Any) -> None:
        running.consumer.on(type, **terms)(handler)


class Asyncio:
    def make(self, dsn: str, queue: str, name: str, options: Options) -> Running:
        loops: SimpleQueue[asyncio.AbstractEventLoop] = SimpleQueue()
        consumer = AsyncConsumer(dsn, queue, name, **options)

        async def main() -> None:
            loops.put(asyncio.get_running_loop())
            await consumer.start()

        def stop() -> None:
            loop = loops.get(timeout=PATIENCE_S)
            loops.put(loop)
            if not loop.is_closed():
                loop.call_soon_threadsafe(consumer.stop)

        return Running(consumer, lambda: asyncio.run(main()), stop)

    def on(self, running: Running, type: str, handler: Callable[..., Any], **terms: Any) -> None:
        async def coroutine(*arguments: Any) -> None:
            result = handler(*arguments)
            if result is not None:
                # A statement of a transactional handler, on the connection of asyncio.
                await result

        running.consumer.on(type, **terms)(coroutine)


class Start(Protocol):
    def __call__(
        self,
        handler: Callable[..., Any] | None = None,
        *,
        type: str = "*",
        queue: str | None = None,
        transactional: bool = False,
        ordered_by: str | None = None,
        rate_limit: RateLimit | None = None,
        **options: Any,
    ) -> Running: ...


@pytest.fixture(params=[Threads(), Asyncio()], ids=["sync", "async"])
def start(request: pytest.FixtureRequest, streams_dsn: str, queue: str) -> Iterator[Start]:
    """Starts consumers of the test's queue, registered before anything is sent; stops them at the end."""
    kind = request.param
    started: list[Running] = []

    def begin(handler: Callable[..., Any] | None = None, *, type: str = "*", **given: Any) -> Running:
        terms = {name: given.pop(name) for name in ("transactional", "ordered_by", "rate_limit") if name in given}
        dsn, name = given.pop("dsn", streams_dsn), given.pop("name", "shop")
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute("select pgque.subscribe(%s, %s)", [queue, name])
        running: Running = kind.make(dsn, queue, name, cast(Options, given))

        def noted(message: Message, *more: Any) -> Any:
            try:
                return handler(message, *more) if handler is not None else None
            finally:
                running.saw(message)

        kind.on(running, type, noted, **terms)
        started.append(running)
        running.begin()
        return running

    yield begin
    for running in started:
        running.end()

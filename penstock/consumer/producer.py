"""Sending, on a connection that may be in the middle of a transaction of its owner's; for threads and for asyncio."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, Self, TypedDict, Unpack

import psycopg

from penstock import tracing
from penstock.consumer import calls
from penstock.consumer.messages import Delay
from penstock.consumer.options import interval
from penstock.consumer.protocol import Lost
from penstock.errors import Unavailable

DEFAULT_TYPE = "default"


class Extras(TypedDict, total=False):
    """Texts that go along with an event. The first carries the trace, unless it is given."""

    extra1: str | None
    extra2: str | None
    extra3: str | None
    extra4: str | None


@dataclass(frozen=True, slots=True)
class Health:
    queue: str
    check: str
    status: str
    """`ok`, `warning` or `critical`."""
    detail: str | None


def connect(dsn: str) -> Producer:
    """A producer with a connection of its own. Each send is committed at once, unless it is inside `transaction`."""
    try:
        connection = psycopg.connect(autocommit=True, **calls.connection_values(dsn, "penstock producer"))
    except psycopg.OperationalError as error:
        raise Unavailable(" ".join(str(error).split())) from error
    return Producer(connection)


class Producer:
    """Sends on the connection it is given, as part of whatever transaction that is in.

    A payload that is no text is sent as JSON; a text is sent as it is.
    """

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.connection = connection
        """For the owner's own statements."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self.connection.close()

    @contextmanager
    def transaction(self) -> Iterator[psycopg.Connection[Any]]:
        """What is sent and written inside the block is committed at its end, or not at all."""
        with self.connection.transaction():
            yield self.connection

    def send(
        self,
        queue: str,
        payload: Any = None,
        *,
        type: str = DEFAULT_TYPE,
        key: str | None = None,
        within: Delay = 300.0,
        **extras: Unpack[Extras],
    ) -> int:
        """The id of the event. With a key that was sent `within` that time already: the id it had then."""
        return int(self._ask(_send(queue, payload, type, key, within, extras)))

    def send_batch(self, queue: str, payloads: Sequence[Any], *, type: str = DEFAULT_TYPE) -> list[int]:
        """All of them or none, in one statement; the ids in the order of the payloads."""
        with self.batch(queue) as batch:
            for payload in payloads:
                batch.send(type, payload)
        return batch.ids

    @contextmanager
    def batch(self, queue: str) -> Iterator[Batch]:
        """Collect events and send them together at the end of the block; an exception sends none."""
        batch = Batch()
        yield batch
        if batch.payloads:
            batch.ids = list(self._ask(batch.call(queue)))

    def send_at(
        self,
        queue: str,
        type: str,
        payload: Any = None,
        *,
        delay: Delay | None = None,
        at: datetime | None = None,
        **extras: Unpack[Extras],
    ) -> int:
        """Have it sent later: the number it waits under, which is not the id it will have."""
        return int(self._ask(_send_at(queue, type, payload, delay, at, extras)))

    def health(self) -> list[Health]:
        """What the database thinks of its streams."""
        with _clear_errors():
            statement, values = calls.call("health")
            return [Health(*row) for row in self.connection.execute(statement, values).fetchall()]

    def _ask(self, call: calls.Call) -> Any:
        with _clear_errors():
            row = self.connection.execute(*call).fetchone()
        assert row is not None
        return row[0]


async def connect_async(dsn: str) -> AsyncProducer:
    """A producer for asyncio with a connection of its own. Each send is committed at once, unless it is inside
    `transaction`."""
    try:
        connection = await psycopg.AsyncConnection.connect(
            autocommit=True, **calls.connection_values(dsn, "penstock producer")
        )
    except psycopg.OperationalError as error:
        raise Unavailable(" ".join(str(error).split())) from error
    return AsyncProducer(connection)


class AsyncProducer:
    """The producer for asyncio: the same methods as coroutines, on a `psycopg.AsyncConnection`."""

    def __init__(self, connection: psycopg.AsyncConnection[Any]) -> None:
        self.connection = connection
        """For the owner's own statements."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self.connection.close()

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
        """What is sent and written inside the block is committed at its end, or not at all."""
        async with self.connection.transaction():
            yield self.connection

    async def send(
        self,
        queue: str,
        payload: Any = None,
        *,
        type: str = DEFAULT_TYPE,
        key: str | None = None,
        within: Delay = 300.0,
        **extras: Unpack[Extras],
    ) -> int:
        """The id of the event. With a key that was sent `within` that time already: the id it had then."""
        return int(await self._ask(_send(queue, payload, type, key, within, extras)))

    async def send_batch(self, queue: str, payloads: Sequence[Any], *, type: str = DEFAULT_TYPE) -> list[int]:
        """All of them or none, in one statement; the ids in the order of the payloads."""
        async with self.batch(queue) as batch:
            for payload in payloads:
                batch.send(type, payload)
        return batch.ids

    @asynccontextmanager
    async def batch(self, queue: str) -> AsyncIterator[Batch]:
        """Collect events and send them together at the end of the block; an exception sends none."""
        batch = Batch()
        yield batch
        if batch.payloads:
            batch.ids = list(await self._ask(batch.call(queue)))

    async def send_at(
        self,
        queue: str,
        type: str,
        payload: Any = None,
        *,
        delay: Delay | None = None,
        at: datetime | None = None,
        **extras: Unpack[Extras],
    ) -> int:
        """Have it sent later: the number it waits under, which is not the id it will have."""
        return int(await self._ask(_send_at(queue, type, payload, delay, at, extras)))

    async def health(self) -> list[Health]:
        """What the database thinks of its streams."""
        with _clear_errors():
            statement, values = calls.call("health")
            return [Health(*row) for row in await (await self.connection.execute(statement, values)).fetchall()]

    async def _ask(self, call: calls.Call) -> Any:
        with _clear_errors():
            row = await (await self.connection.execute(*call)).fetchone()
        assert row is not None
        return row[0]


def _send(queue: str, payload: Any, type: str, key: str | None, within: Delay, extras: Extras) -> calls.Call:
    values = {"queue": queue, "type": type, "payload": text(payload), **_extras(extras)}
    if key is not None:
        return calls.call("send_once", key=key, within=interval(within), **values)
    return calls.call("send", **values)


def _send_at(
    queue: str, type: str, payload: Any, delay: Delay | None, at: datetime | None, extras: Extras
) -> calls.Call:
    if (delay is None) == (at is None):
        raise ValueError("give either delay or at")
    if at is not None and at.tzinfo is None:
        raise ValueError("at needs a timezone")
    values = {"queue": queue, "type": type, "payload": text(payload), **_extras(extras)}
    return calls.call("send_at", at=at, delay=interval(delay), **values)


@dataclass(slots=True)
class Batch:
    """Events of one queue on their way. `ids` are there once the block has ended."""

    types: list[str] = field(default_factory=list)
    payloads: list[str] = field(default_factory=list)
    extras: list[tuple[str | None, ...]] = field(default_factory=list)
    ids: list[int] = field(default_factory=list)

    def send(self, type: str, payload: Any = None, **extras: Unpack[Extras]) -> None:
        self.types.append(type)
        self.payloads.append(text(payload))
        self.extras.append(tuple(_extras(extras).values()))

    def call(self, queue: str) -> calls.Call:
        """The statement that sends all of them."""
        columns = dict(zip(("extra1", "extra2", "extra3", "extra4"), zip(*self.extras, strict=True), strict=True))
        arrays = {name: list(column) if any(column) else None for name, column in columns.items()}
        return calls.call("send_many", queue=queue, types=self.types, payloads=self.payloads, **arrays)


def text(payload: Any) -> str:
    return payload if isinstance(payload, str) else json.dumps(payload, ensure_ascii=False, default=_plain)


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    raise TypeError(f"{type(value).__name__} has no form in JSON: send a text, or what json.dumps takes")


def _extras(given: Extras) -> dict[str, str | None]:
    context = tracing.current()
    trace = context.traceparent if context is not None else None
    return {
        "extra1": given.get("extra1", trace),
        "extra2": given.get("extra2"),
        "extra3": given.get("extra3"),
        "extra4": given.get("extra4"),
    }


@contextmanager
def _clear_errors() -> Iterator[None]:
    try:
        yield
    except psycopg.Error as error:
        meant = calls.translate(error)
        if isinstance(meant, Lost):
            raise Unavailable(" ".join(str(error).split())) from error
        if meant is error:
            raise
        raise meant from error

"""Several streams by priority: as long as one has messages, none behind it is served."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Unpack

from penstock.consumer.asynchronous import AsyncWorker
from penstock.consumer.options import Options
from penstock.consumer.protocol import Source
from penstock.consumer.sync import SyncWorker


class MultiQueueConsumer(SyncWorker):
    """Consumes `(stream, consumer, priority)`, the lowest number first; handlers see the stream as `message.queue`."""

    def __init__(self, dsn: str, queues: Iterable[tuple[str, str, int]], **options: Unpack[Options]) -> None:
        super().__init__(dsn, _sources(queues), options)


class AsyncMultiQueueConsumer(AsyncWorker):
    """The same for asyncio: its handlers are coroutine functions."""

    def __init__(self, dsn: str, queues: Iterable[tuple[str, str, int]], **options: Unpack[Options]) -> None:
        super().__init__(dsn, _sources(queues), options)


def _sources(queues: Iterable[tuple[str, str, int]]) -> list[Source]:
    ordered = sorted(queues, key=lambda each: each[2])
    if not ordered:
        raise ValueError("name at least one stream")
    return [Source(queue, name) for queue, name, _ in ordered]

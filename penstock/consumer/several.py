"""Several queues by priority: as long as one has messages, none behind it is served."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Unpack

from penstock.consumer.options import Options
from penstock.consumer.protocol import Source
from penstock.consumer.sync import SyncWorker


class MultiQueueConsumer(SyncWorker):
    """Consumes `(queue, name, priority)`, the lowest number first; handlers see the queue as `message.queue`."""

    def __init__(self, dsn: str, queues: Iterable[tuple[str, str, int]], **options: Unpack[Options]) -> None:
        ordered = sorted(queues, key=lambda each: each[2])
        if not ordered:
            raise ValueError("name at least one queue")
        super().__init__(dsn, [Source(queue, name) for queue, name, _ in ordered], options)

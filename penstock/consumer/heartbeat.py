"""Heartbeats of cooperative workers: while one works on a batch, no other takes the batch over."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg

from penstock.consumer import calls
from penstock.consumer.protocol import Source

log = logging.getLogger("penstock.consumer")

END_S = 1.0


@contextmanager
def beating(dsn: str, sources: Sequence[Source], subconsumer: str | None, interval_s: float | None) -> Iterator[None]:
    """Heartbeats for as long as the block runs; none without an interval.

    They come from a thread with a connection of its own: that of the consumer may be in a handler's transaction, and a
    handler may block the event loop.
    """
    if subconsumer is None or interval_s is None:
        yield
        return
    stopping = threading.Event()
    thread = threading.Thread(
        target=_beat, args=(dsn, sources, subconsumer, interval_s, stopping), name="penstock heartbeat", daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        # It may be connecting to a server that does not answer; it ends with the process then.
        thread.join(END_S)


def _beat(dsn: str, sources: Sequence[Source], subconsumer: str, interval_s: float, stopping: threading.Event) -> None:
    connection: psycopg.Connection[Any] | None = None
    name = f"penstock heartbeat {sources[0].consumer}"
    while not stopping.wait(interval_s):
        try:
            if connection is None:
                connection = psycopg.connect(autocommit=True, **calls.connection_values(dsn, name))
            for source in sources:
                connection.execute(*calls.touching(source, subconsumer))
        except psycopg.Error as error:
            log.warning("a heartbeat failed: %s", " ".join(str(error).split()))
            if connection is not None:
                connection.close()
            connection = None
    if connection is not None:
        connection.close()

"""Several server processes: their parent's part.

The parent holds the sockets and the embedded PostgreSQL, starts a worker per socket, and a new one for each that
dies. A worker gets its settings through a pipe, because they hold secrets, and the pipe stays open: its end tells
a worker that the parent is gone.
"""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import socket
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress

from penstock.config import Settings
from penstock.errors import Unavailable
from penstock.loops import sleep_unless
from penstock.server.serving import GRACE_S, look_after
from penstock.server.stores import Database

log = logging.getLogger(__name__)

START_S = 30.0
"""A worker that is not ready by then is taken for dead."""
MAX_BACKOFF_S = 5.0
STEADY_S = 10.0
"""A worker that lived so long did not die of its start; its successor need not wait."""


async def supervise(
    settings: Settings, database: Database, bound: list[socket.socket], ready: Callable[[], object]
) -> None:
    """Run the workers until a signal says stop; then wait until they have finished what is under way."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    with tempfile.TemporaryDirectory(prefix="penstock-") as directory:
        brief = {"settings": settings.as_plain(), "dsn": database.dsn, "directory": directory}
        workers = [_Worker(place, found, brief, settings.drain_s) for place, found in enumerate(bound)]
        looking_after = asyncio.create_task(_look_after(database, stop))
        try:
            await asyncio.gather(*(worker.start() for worker in workers))
            ready()
            await asyncio.gather(*(worker.keep(stop) for worker in workers))
        finally:
            stop.set()
            # Ours too, or clients would knock at a door that nobody opens any more.
            for found in bound:
                found.close()
            await asyncio.gather(*(worker.end() for worker in workers), return_exceptions=True)
            await looking_after
    log.info("stopped")


async def _look_after(database: Database, stop: asyncio.Event) -> None:
    if database.embedded is not None:
        await look_after(database, stop)


class _Worker:
    def __init__(self, place: int, bound: socket.socket, brief: Mapping[str, object], drain_s: float) -> None:
        self._place = place
        self._bound = bound
        self._brief = brief
        self._drain_s = drain_s
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Return when the worker serves."""
        descriptor = self._bound.fileno()
        process = self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "penstock.server.worker"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            pass_fds=[descriptor],
            # An interrupt typed at the terminal reaches the parent, who passes it on in good order.
            start_new_session=True,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        brief = {**self._brief, "descriptor": descriptor, "place": self._place}
        try:
            process.stdin.write(json.dumps(brief).encode() + b"\n")
            await process.stdin.drain()
            said = await asyncio.wait_for(process.stdout.readline(), START_S)
        except (TimeoutError, ConnectionError):
            said = b""
        if said.strip() != b"ready":
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
            raise Unavailable(said.decode(errors="replace").strip() or f"worker {self._place} did not start")

    async def keep(self, stop: asyncio.Event) -> None:
        """Replace the worker whenever it dies."""
        stopping = asyncio.create_task(stop.wait())
        backoff = 0.1
        loop = asyncio.get_running_loop()
        while not stop.is_set():
            assert self._process is not None
            began = loop.time()
            dying = asyncio.create_task(self._process.wait())
            await asyncio.wait([dying, stopping], return_when=asyncio.FIRST_COMPLETED)
            if stop.is_set():
                dying.cancel()
                return
            log.error("a worker died", extra={"worker": self._place, "exit_code": self._process.returncode})
            backoff = 0.1 if loop.time() - began > STEADY_S else min(backoff * 2, MAX_BACKOFF_S)
            await sleep_unless(stop, backoff)
            if not stop.is_set():
                await self._replace()

    async def _replace(self) -> None:
        try:
            await self.start()
            log.info("a worker was replaced", extra={"worker": self._place})
        except (Unavailable, OSError) as error:
            log.error("a worker could not be replaced", extra={"worker": self._place, "error": str(error)})

    async def end(self) -> None:
        process = self._process
        if process is None or process.returncode is not None:
            return
        with suppress(ProcessLookupError):
            process.terminate()
        try:
            await asyncio.wait_for(process.wait(), self._drain_s + GRACE_S + 5)
        except TimeoutError:
            log.error("a worker did not stop in time", extra={"worker": self._place})
            process.kill()
            await process.wait()

"""One process that serves: an engine, its duties, and uvicorn in front."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING

from uvicorn.config import Config
from uvicorn.server import Server

from penstock.config import Settings
from penstock.engine import Engine
from penstock.errors import PenstockError
from penstock.loops import run_every
from penstock.loops.deliverer import SWEEP_S, Deliverer
from penstock.loops.janitor import Janitor
from penstock.loops.job_search import JobSearchKeeper
from penstock.loops.jobs import JobKeeper
from penstock.loops.mover import Mover
from penstock.loops.nodes import EVERY_S as NODE_S
from penstock.loops.nodes import NodeKeeper
from penstock.loops.poison import PoisonSweep
from penstock.loops.private import COMPACT_S, PrivateKeeper
from penstock.loops.sampler import Sampler
from penstock.loops.scheduler import Scheduler
from penstock.loops.scrape import EVERY_S, Scrape
from penstock.loops.ticker import MAINTAIN_S, StreamKeeper, Ticker
from penstock.server import neighbours as near
from penstock.server.doors import doors
from penstock.server.listening import url_of
from penstock.server.neighbours import Neighbours
from penstock.server.stores import CLOSE_S, Database, opened
from penstock.server.telemetry import tracing
from penstock.server.versions import version

if TYPE_CHECKING:
    from penstock.tracing.spans import Tracer

log = logging.getLogger(__name__)

GRACE_S = 10.0
"""How much longer than its draining a stopping server may take."""

WhenReady = Callable[[Engine], Awaitable[None]]


class _Server(Server):
    """uvicorn's, but signals are our business: it would end the process by the signal that stopped it."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.up = asyncio.Event()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.up.set()


async def serve_one(
    settings: Settings,
    database: Database,
    bound: socket.socket,
    ready: WhenReady,
    *,
    stop: asyncio.Event | None = None,
    neighbours: Neighbours | None = None,
    signals: bool = True,
) -> None:
    """Serve until `stop` or, with `signals`, a signal to stop; then finish what is under way."""
    stop = stop or asyncio.Event()
    neighbours = neighbours or Neighbours()
    async with tracing(settings) as tracer, opened(settings, database.dsn, tracer) as engine:
        neighbours.inherit(engine.metrics)
        server = _make_server(settings, engine, neighbours, url_of(settings, bound), tracer)
        if signals:
            _spare_the_collector()
        with _signals(stop, server, settings.drain_s + GRACE_S) if signals else nullcontext():
            async with _duties(engine, settings, database, neighbours, stop):
                await _serve(server, bound, engine, ready, stop)
    log.info("stopped")


def _spare_the_collector() -> None:
    """What exists now stays: the collector need not walk it again and again, nor come after every few requests."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)


async def _serve(server: _Server, bound: socket.socket, engine: Engine, ready: WhenReady, stop: asyncio.Event) -> None:
    serving = asyncio.create_task(server.serve([bound]))
    await _either(serving, server.up)
    if server.up.is_set():
        await ready(engine)
        await _either(serving, stop)
    server.should_exit = True
    await serving


async def _either(task: asyncio.Task[None], event: asyncio.Event) -> None:
    waiting = asyncio.create_task(event.wait())
    await asyncio.wait([task, waiting], return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()


def _make_server(
    settings: Settings, engine: Engine, neighbours: Neighbours, url: str, tracer: Tracer | None
) -> _Server:
    built = doors(engine, settings, neighbours, url=url, tracer=tracer)
    config = Config(
        built.app,
        http=built.protocol,
        loop="none",
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        workers=1,
        timeout_keep_alive=settings.keep_alive_s,
        timeout_graceful_shutdown=settings.drain_s,
    )
    return _Server(config)


@contextmanager
def _signals(stop: asyncio.Event, server: Server, patience_s: float) -> Iterator[None]:
    """The first signal stops in good order; a second interrupt does not wait for anyone."""
    loop = asyncio.get_running_loop()

    def on_signal(number: signal.Signals) -> None:
        if not stop.is_set():
            _end_at_last(patience_s)
        elif number == signal.SIGINT:
            server.force_exit = True
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal, number)
    try:
        yield
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)


def _end_at_last(patience_s: float) -> None:
    """A database that hangs can hold up even a cancelled statement; it shall not hold up the end of the process."""

    def end() -> None:
        log.error("the server did not stop in time; forcing it to stop")
        os._exit(1)

    timer = threading.Timer(patience_s, end)
    timer.daemon = True
    timer.start()


@asynccontextmanager
async def _duties(
    engine: Engine, settings: Settings, database: Database, neighbours: Neighbours, stop: asyncio.Event
) -> AsyncIterator[None]:
    janitor, mover, scrape = Janitor(engine, interval_s=settings.cleanup_interval_s), Mover(engine), Scrape(engine)
    keeper, sampler, searcher = JobKeeper(engine), Sampler(engine), JobSearchKeeper(engine)

    jobs = [
        run_every(janitor.pause, janitor.once, name="janitor", stop=stop),
        run_every(mover.pause, mover.once, name="mover", stop=stop),
        run_every(keeper.pause, keeper.once, name="job keeper", stop=stop),
        run_every(searcher.pause, searcher.once, name="job search", stop=stop),
        run_every(EVERY_S, scrape.once, name="scrape", stop=stop),
        run_every(NODE_S, NodeKeeper(engine, version()).once, name="node keeper", stop=stop),
        run_every(sampler.pause, sampler.once, name="sampler", stop=stop),
    ]
    if settings.serves_simple:
        poison = PoisonSweep(engine, settings.simple_poison_max_receives)
        jobs.append(run_every(settings.simple_poison_interval_s, poison.once, name="poison sweep", stop=stop))
    if settings.schedule_enabled:
        scheduler = Scheduler(engine, settings.schedule_poll_ms / 1000)
        jobs.append(run_every(scheduler.pause, scheduler.once, name="scheduler", stop=stop))
    deliverer = Deliverer(engine, settings.http_delivery_poll_ms / 1000, enabled=settings.http_delivery_enabled)
    if settings.http_delivery_enabled:
        jobs.append(run_every(deliverer.pause, deliverer.once, name="deliverer", stop=stop))
        jobs.append(run_every(SWEEP_S, deliverer.sweep, name="old deliveries", stop=stop))
    if engine.store.has_streams:
        ticker, stream_keeper = Ticker(engine), StreamKeeper(engine)
        jobs.append(run_every(ticker.pause, ticker.once, name="ticker", stop=stop))
        jobs.append(run_every(MAINTAIN_S, stream_keeper.once, name="stream keeper", stop=stop))
        jobs.append(run_every(COMPACT_S, PrivateKeeper(engine).once, name="private keeper", stop=stop))
    if neighbours.exist:

        async def share() -> int:
            neighbours.write(engine.metrics)
            return 1

        jobs.append(run_every(near.EVERY_S, share, name="share numbers", stop=stop))
    if database.embedded is not None:
        jobs.append(look_after(database, stop))
    tasks = [asyncio.create_task(job) for job in jobs]
    try:
        yield
    finally:
        stop.set()
        await deliverer.close()
        _, slow = await asyncio.wait(tasks, timeout=CLOSE_S)
        for task in slow:
            task.cancel()
        with suppress(PenstockError):
            await asyncio.wait_for(engine.nodes.stopped(), CLOSE_S)


async def look_after(database: Database, stop: asyncio.Event) -> None:
    """Start the embedded PostgreSQL again whenever it dies."""
    embedded = database.embedded
    assert embedded is not None

    async def once() -> int:
        if embedded.alive():
            return 0
        log.error("the embedded PostgreSQL died; starting it again")
        # In a thread: a recovery takes its time, and meanwhile requests deserve an answer.
        revived = await asyncio.to_thread(embedded.revive)
        log.info("the embedded PostgreSQL is back")
        return int(revived)

    await run_every(0.25, once, name="embedded PostgreSQL", stop=stop)

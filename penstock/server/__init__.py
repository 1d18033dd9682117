"""The composition root: settings in, a running server out. Everything below receives plain arguments."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from penstock import logs
from penstock.auth import Mode
from penstock.config import Settings
from penstock.engine import Engine
from penstock.server import banner
from penstock.server.banner import Ready
from penstock.server.listening import bind, url_of
from penstock.server.ready_file import ready_file
from penstock.server.stores import database, describe, first_secrets, migrate, open_engine, warn_if_careless
from penstock.server.telemetry import check_traces
from penstock.server.versions import version

__all__ = ["Engine", "Ready", "announce", "describe", "migrate", "open_engine", "run", "serve", "version"]

log = logging.getLogger(__name__)


def run(settings: Settings) -> None:
    """Serve until told to stop, in this process or in several."""
    check_traces(settings)
    logs.configure(settings.log_level, settings.log_format)
    if settings.workers > 1:
        # The parent only watches; asyncio's own loop knows how to wait for processes.
        asyncio.run(_serve_many(settings))
    else:
        import uvloop

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(serve(settings))


def announce(ready: Ready) -> None:
    """Print the address to standard output, not to the logs: the text can contain a token."""
    with suppress(OSError):  # a closed standard output must not stop the server
        print(banner.text(ready), file=sys.stdout, flush=True)


async def serve(settings: Settings, *, ready: Callable[[Ready], Any] = announce) -> None:
    """Serve in this process until a signal says stop."""
    from penstock.server.serving import serve_one

    [bound] = bind(settings)
    url = url_of(settings, bound)
    _warn_if_open(settings)
    # Nothing is served yet, so a blocking start of the embedded PostgreSQL keeps nobody waiting.
    with database(settings) as found, ready_file(settings) as write:

        async def tell(engine: Engine) -> None:
            ready(_ready(settings, url, await first_secrets(engine, Mode(settings.auth_mode))))
            write(url)
            await warn_if_careless(found.dsn)

        await serve_one(settings, found, bound, tell)


async def _serve_many(settings: Settings, *, ready: Callable[[Ready], Any] = announce) -> None:
    """Serve in several processes: this one holds the sockets and the database, and replaces who dies."""
    from penstock.server.stores import opened
    from penstock.server.workers import supervise

    bound = bind(settings)
    url = url_of(settings, bound[0])
    _warn_if_open(settings)
    with database(settings) as found, ready_file(settings) as write:
        async with opened(settings, found.dsn) as engine:  # migrates, once for all
            made = await first_secrets(engine, Mode(settings.auth_mode))
        await warn_if_careless(found.dsn)

        def tell() -> None:
            ready(_ready(settings, url, made))
            write(url)

        await supervise(settings, found, bound, tell)


def _ready(settings: Settings, url: str, made: Mapping[str, str]) -> Ready:
    return Ready(url, describe(settings), settings.auth_mode, settings.workers, settings.base_url, made)


def _warn_if_open(settings: Settings) -> None:
    if settings.open_to_others:
        log.warning(
            "ANYONE WHO REACHES THIS ADDRESS CAN READ AND CHANGE EVERY QUEUE: authentication is open",
            extra={"address": settings.address, "base_url": settings.base_url},
        )

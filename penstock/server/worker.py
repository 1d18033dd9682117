"""One of several server processes: `python -m penstock.server.worker`, started by `workers.py` and nobody else."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
import threading
from pathlib import Path
from typing import Any

from penstock import logs
from penstock.config import Settings
from penstock.engine import Engine
from penstock.errors import PenstockError
from penstock.server.neighbours import Neighbours
from penstock.server.serving import serve_one
from penstock.server.stores import Database


def main() -> None:
    brief = json.loads(sys.stdin.buffer.readline())
    settings = Settings.load(flags=brief["settings"])
    logs.configure(settings.log_level, settings.log_format)
    import uvloop

    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_serve(settings, brief))
    except (PenstockError, OSError) as error:
        print(logs.scrub(str(error)).replace("\n", " "), flush=True)
        sys.exit(1)


async def _serve(settings: Settings, brief: dict[str, Any]) -> None:
    stop = asyncio.Event()
    _watch_parent(asyncio.get_running_loop(), stop)
    bound = socket.socket(fileno=brief["descriptor"])

    async def ready(_engine: Engine) -> None:
        print("ready", flush=True)

    neighbours = Neighbours(Path(brief["directory"]), brief["place"])
    await serve_one(settings, Database(brief["dsn"]), bound, ready, stop=stop, neighbours=neighbours)


def _watch_parent(loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
    """The parent holds the other end of our standard input for as long as it lives."""

    def watch() -> None:
        while os.read(sys.stdin.fileno(), 1024):
            pass
        if not loop.is_closed():
            loop.call_soon_threadsafe(stop.set)

    threading.Thread(target=watch, name="parent", daemon=True).start()


if __name__ == "__main__":
    main()

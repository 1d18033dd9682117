"""Live pages: a stream of server-sent events that carries the live part of a page whenever it changes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from time import monotonic

from starlette.responses import Response, StreamingResponse

from penstock.errors import PenstockError
from penstock.web import security

EVERY_S = 0.5
"""A change shows within a second: half of it for this pause, the rest for asking, rendering and the browser."""
LASTS_S = 600.0
"""A stream ends after ten minutes; the page opens another one."""
QUIET_S = 15.0
"""After so long without a change a comment is sent: it finds out that the client is gone."""
MOST_STREAMS = 500
"""Of one process. Further pages work, and try again after half a minute."""

Part = Callable[[], Awaitable[str]]

_BUSY = "event: busy\nretry: 30000\ndata: \n\n"


class Streams:
    def __init__(self, every_s: float = EVERY_S, most: int = MOST_STREAMS) -> None:
        self._every_s = every_s
        self._most = most
        self.open = 0

    def response(self, part: Part) -> Response:
        return StreamingResponse(self._events(part), media_type="text/event-stream", headers=security.HEADERS)

    async def _events(self, part: Part) -> AsyncIterator[str]:
        if self.open >= self._most:
            yield _BUSY
            return
        self.open += 1
        try:
            async for event in self._changes(part):
                yield event
        finally:
            self.open -= 1

    async def _changes(self, part: Part) -> AsyncIterator[str]:
        end, spoke, last = monotonic() + LASTS_S, monotonic(), ""
        yield ": open\n\n"
        while monotonic() < end:
            try:
                text = await part()
            except PenstockError:
                return  # the page tries again, and then shows what is wrong
            if text != last:
                last, spoke = text, monotonic()
                yield "".join(f"data: {line}\n" for line in text.splitlines()) + "\n"
            elif monotonic() - spoke > QUIET_S:
                spoke = monotonic()
                yield ": quiet\n\n"
            await asyncio.sleep(self._every_s)

"""What the connections of one server have in common: the counts, the deadlines, the bytes every answer begins with."""

from __future__ import annotations

import asyncio
import secrets
from itertools import count
from time import monotonic
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from penstock.auth import Authenticator
from penstock.engine.insights import Insights
from penstock.wire.faults import json_fault
from penstock.wire.http import HttpLimits, Response, Route, Router

NO_BODY = (204, 304)


class Traffic:
    def __init__(self, router: Router, authenticator: Authenticator, insights: Insights, limits: HttpLimits) -> None:
        self.router = router
        self.authenticator = authenticator
        self.insights = insights
        self.limits = limits
        self.active = insights.requests_active.values
        self.active.setdefault((), 0)
        self.addresses: dict[str, int] = {}
        self.hosts: set[bytes] = set()
        """Host headers found to be all right, so that the next request need not ask."""
        self.buffered = 0
        """Bytes of request bodies that did not come in one piece."""
        self.web = Route("GET", "(other)", lambda request: Response(500), fault=json_fault)
        self._prefixes: dict[tuple[int, bytes], bytes] = {}
        self._default_headers: list[tuple[bytes, bytes]] = []
        self._ids = count(1)
        self._id_prefix = secrets.token_hex(4)
        self._sweeping = False

    def new_request_id(self) -> str:
        return f"{self._id_prefix}-{next(self._ids):x}"

    def prefix(self, status: int, content_type: bytes, default_headers: list[tuple[bytes, bytes]]) -> bytes:
        """The start of a response, up to the length. Kept until the server renews its Date."""
        if default_headers is not self._default_headers:
            self._default_headers = default_headers
            self._prefixes.clear()
        prefix = self._prefixes.get((status, content_type))
        if prefix is None:
            lines = [b"%b: %b\r\n" % pair for pair in default_headers]
            lines.append(b"x-content-type-options: nosniff\r\n")
            if status not in NO_BODY:
                lines.append(b"content-type: %b\r\n" % content_type)
            prefix = self._prefixes[status, content_type] = STATUS_LINE[status] + b"".join(lines)
        return prefix

    def watch(self, loop: asyncio.AbstractEventLoop, connections: set[Any]) -> None:
        """Look at the deadlines of all connections, as long as there are any."""
        if not self._sweeping:
            self._sweeping = True
            loop.call_later(self.limits.sweep_s, self._sweep, loop, connections)

    def _sweep(self, loop: asyncio.AbstractEventLoop, connections: set[Any]) -> None:
        now = monotonic()
        for connection in list(connections):
            connection.check_deadlines(now)
        self._sweeping = False
        if connections:
            self.watch(loop, connections)

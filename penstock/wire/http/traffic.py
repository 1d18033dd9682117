"""What the connections of one server have in common: the counts, the deadlines, the bytes every answer begins with."""

from __future__ import annotations

import asyncio
import logging
import secrets
from itertools import count
from time import monotonic
from typing import Any, Protocol

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from penstock.auth import Authenticator
from penstock.engine.metrics import Metrics
from penstock.wire.http.faults import json_fault
from penstock.wire.http.known_heads import KnownHeads
from penstock.wire.http.limits import HttpLimits
from penstock.wire.http.messages import Request, Response
from penstock.wire.http.router import Route, Router
from penstock.wire.http.turns import Turns

access = logging.getLogger("penstock.access")

NO_BODY = (204, 304)


class Connection(Protocol):
    """What the connections of a server show each other."""

    transport: asyncio.Transport

    @property
    def receiving_since(self) -> float: ...

    def give_way(self) -> None: ...


class Traffic:
    def __init__(self, router: Router, authenticator: Authenticator, metrics: Metrics, limits: HttpLimits) -> None:
        self.router = router
        self.authenticator = authenticator
        self.metrics = metrics
        self.limits = limits
        self.active = metrics.requests_active.values
        self.active.setdefault((), 0)
        self.addresses: dict[str, int] = {}
        self.hosts: set[bytes] = set()
        """Host headers found to be all right, so that the next request need not ask."""
        self.known_heads = KnownHeads()
        self.turns = Turns() if limits.turns else None
        self.buffered = 0
        """Bytes of request bodies that did not come in one piece."""
        self.receiving: dict[Connection, None] = {}
        """Connections in the middle of such a body, in the order they began."""
        self.stalled: dict[Connection, None] = {}
        """Connections whose client takes its answer too slowly, in the order they stalled."""
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

    def hold(self, connection: Connection, size: int) -> bool:
        """Count bytes of an unfinished body. False: there is no room, and nobody who holds it for long."""
        self.buffered += size
        self.receiving.setdefault(connection)
        if self.buffered <= self.limits.buffered_bytes:
            return True
        slow = monotonic() - self.limits.parked_s
        for other in list(self.receiving):
            if other is not connection and other.receiving_since < slow:
                other.give_way()
                if self.buffered <= self.limits.buffered_bytes:
                    return True
        return False

    def stall(self, connection: Connection) -> None:
        """A client does not keep up with its answer. When memory is short, those that stalled first are dropped."""
        self.stalled[connection] = None
        unsent = sum(other.transport.get_write_buffer_size() for other in self.stalled)
        while unsent > self.limits.unsent_bytes and self.stalled:
            slowest = next(iter(self.stalled))
            del self.stalled[slowest]
            unsent -= slowest.transport.get_write_buffer_size()
            slowest.transport.abort()

    def forget(self, connection: Connection) -> None:
        self.receiving.pop(connection, None)
        self.stalled.pop(connection, None)

    def watch(self, loop: asyncio.AbstractEventLoop, connections: set[Any]) -> None:
        """Look at the deadlines of all connections, as long as there are any."""
        if not self._sweeping:
            self._sweeping = True
            loop.call_later(self.limits.sweep_s, self._sweep, loop, connections)

    def _sweep(self, loop: asyncio.AbstractEventLoop, connections: set[Any]) -> None:
        now = monotonic()
        for connection in list(connections):
            connection.check_deadlines(now)
        if self.turns is not None:
            self.turns.sweep()
        self._sweeping = False
        if connections:
            self.watch(loop, connections)


def log_access(request: Request, route: Route, status: int, elapsed: float) -> None:
    access.info(
        "request",
        extra={
            "method": request.method,
            "route": route.path,
            "status": status,
            "ms": round(elapsed * 1000, 3),
            "request_id": request.request_id,
        },
    )

"""Headers that were read before: a client sends the same ones with every request.

The parser has the first word on every block of headers, and all checks of `protocol.py` have passed before a block
is remembered. A later request with exactly these bytes needs no second look. The request line is not part of the
block; a plain one is read here, any other goes to the parser. Where the request line repeats too, the route is
remembered with the whole head.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from penstock.wire.http.messages import Request

BLOCK_BYTES = 2048
HEAD_BYTES = BLOCK_BYTES + 2048
"""With the request line."""
BODY_BYTES = 16_384
"""A larger body goes the long way, which counts it and asks who sends it."""
MOST = 2048
"""Blocks that are remembered, and hashes of those seen once."""

_NEVER = frozenset(
    (b"connection", b"expect", b"origin", b"sec-fetch-site", b"te", b"trailer", b"transfer-encoding", b"upgrade")
)
"""Headers that mean something for the connection, or together with the request line."""

LINE = re.compile(
    rb"(GET|POST|PUT|PATCH|DELETE) (/[A-Za-z0-9._~/%+:,@-]{0,1000})(?:\?([A-Za-z0-9._~/%+:,@&=-]{0,1000}))? HTTP/1\.1"
)
METHODS = {b"GET": "GET", b"POST": "POST", b"PUT": "PUT", b"PATCH": "PATCH", b"DELETE": "DELETE"}


class KnownHead(NamedTuple):
    headers: list[tuple[bytes, bytes]]
    found: dict[bytes, bytes]
    """The same by name. Shared by all requests with these headers: nobody changes it."""
    length: int
    """Bytes of the body that follows."""


class KnownRequest:
    """A whole head, request line and headers, with the route that it leads to."""

    __slots__ = ("_arguments", "_fault", "_found", "_headers", "_method", "_path", "_query", "_route", "length")

    def __init__(self, request: Request, length: int) -> None:
        self._method, self._path, self._query = request.method, request.path, request.query
        self._headers, self._found = request.headers, request.found
        self._arguments = tuple(request.arguments)
        self._route, self._fault = request.route, request.fault
        self.length = length

    def again(self) -> Request:
        request = Request(self._method, self._path, self._query, self._headers, True, self._found)
        request.arguments.extend(self._arguments)
        request.route = self._route
        if self._fault is not None:
            request.fault = self._fault
        return request


class KnownHeads:
    def __init__(self) -> None:
        self.heads: dict[bytes, KnownRequest] = {}
        """By the bytes before the empty line, of requests that clients repeat as they are."""
        self.blocks: dict[bytes, KnownHead] = {}
        """By the bytes between the request line and the empty line."""
        self._once: set[int] = set()

    def learn(self, block: bytes, headers: list[tuple[bytes, bytes]], found: dict[bytes, bytes]) -> None:
        """The parser has read these headers from this block, and they are in order."""
        if not _NEVER.isdisjoint(found) or not _same_lines(block, len(headers)) or len(found) != len(headers):
            return
        # A signed request has headers of its own: only what comes again is worth keeping.
        mark = hash(block)
        if mark not in self._once:
            if len(self._once) >= MOST:
                self._once.clear()
            self._once.add(mark)
            return
        if len(self.blocks) >= MOST:
            self.blocks.clear()
        length = int(found.get(b"content-length", b"0"))
        if length <= BODY_BYTES:
            self.blocks[block] = KnownHead(headers, found, length)

    def remember(self, head: bytes, request: Request, length: int) -> None:
        """The request has this head, and its headers were known. Those with the id of a message do not come again."""
        if request.route is not None and request.route.repeats:
            if len(self.heads) >= MOST:
                self.heads.clear()
            self.heads[head] = KnownRequest(request, length)


def _same_lines(block: bytes, count: int) -> bool:
    """Whether the parser must have seen the lines of the block as it looks: one header each."""
    return block.count(b"\r\n") == block.count(b"\n") == block.count(b"\r") == count

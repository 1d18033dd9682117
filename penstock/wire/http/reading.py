"""How a connection reads requests: within the caps of the server, and past the parser where the headers are known.

A request that breaks a rule is refused where that is seen: `Refusal` says why, and nothing more is read, because where
the next request would begin is unknown.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections import deque
from collections.abc import Awaitable
from time import monotonic
from typing import Any, ClassVar

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from penstock.wire.http.faults import json_fault
from penstock.wire.http.head_checks import (
    announced,
    check_coding,
    check_repeated,
    check_site,
    check_size,
    is_home,
    refusal_of,
    split_url,
)
from penstock.wire.http.known_heads import BLOCK_BYTES, HEAD_BYTES, LINE, METHODS
from penstock.wire.http.limits import HttpLimits
from penstock.wire.http.messages import Refusal, Refused, Request, Response
from penstock.wire.http.router import Admission, Route
from penstock.wire.http.traffic import Traffic

MAX_HOST = 300
"""Bytes of a Host header that is remembered."""
IDLE, HEADERS, BODY = range(3)


class RequestReader(HttpToolsProtocol):
    """One connection, from bytes to requests. A subclass answers them."""

    shared: ClassVar[Traffic]
    limits: ClassVar[HttpLimits]

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._phase = IDLE
        self._since = monotonic()
        self._chunk = 0
        self._first = 0
        """Size of the packet a request began in: more than its share of it."""
        self._fed = 0
        """Bytes that came after that packet."""
        self._allowance = self._head_allowance = self.limits.header_bytes + self.limits.url_bytes
        self._stalled = 0
        """Bytes in a row that belong to no body: of a trailer, or of the extension of a chunk."""
        self.headers = []
        self._parsed: Request | None = None
        self._body: bytes | bytearray = b""
        self._body_room = 0
        self._upgrading = False
        """The head offered another protocol: its parser ends the message there, and another one reads the body."""
        self._resuming = False
        """A parser is being told where a body goes on: what it says of the head is nothing new."""
        self._admission: asyncio.Task[None] | None = None
        """Looks the caller up before a large body is read."""
        self._block: bytes | None = None
        """Headers of the request that begins in this packet, as they came."""
        self._waiting: deque[Request] = deque()
        """Requests that were read and not answered yet."""
        self._current: Request | None = None
        """The request that is being answered."""
        self._deaf = False
        """Nothing more is read."""

    @abstractmethod
    def _take(self, request: Request) -> None:
        """A whole request has come: answer it, or have it wait its turn."""

    @abstractmethod
    def _refuse(self, refusal: Exception | Response) -> None:
        """Answer in turn, and read no more: where the next request would begin is unknown."""

    @abstractmethod
    def _fault(self, request: Request, error: Exception) -> Response:
        """The answer to an error, in the words of the request's protocol."""

    def data_received(self, data: bytes) -> None:
        if self._deaf or (self._phase == IDLE and self._take_known(data)):
            return
        self._chunk = len(data)
        self._fed += self._chunk
        room, trailers = self._body_room, len(self.headers)
        try:
            self._feed(data)
        except httptools.HttpParserError as error:
            self._refuse(refusal_of(error))
        if self._phase == IDLE:
            return
        stalled = self._phase == BODY and room == self._body_room and trailers == len(self.headers)
        self._stalled = self._stalled + self._chunk if stalled else 0
        if self._fed > self._allowance or self._stalled > self._head_allowance:
            # The parser keeps an unfinished header or trailer to itself, however long it grows.
            self._refuse(Refusal(431, "HeadersTooLarge", "the headers are too large"))
        elif self._body and self._parsed is not None and not self._parsed.held:
            self._hold_or_refuse(len(self._body))

    def _take_known(self, data: bytes) -> bool:
        """Take a whole request whose headers were read before; False leaves it to the parser."""
        head_end = data.find(b"\r\n\r\n", 0, HEAD_BYTES)
        if head_end < 0:
            self._block = None
            return False
        known = self.shared.known_heads.heads.get(data[:head_end])
        if known is None or len(data) != head_end + 4 + known.length:
            return self._take_known_block(data, head_end)
        request = known.again()
        request.body = data[head_end + 4 :]
        self._take(request)
        return True

    def _take_known_block(self, data: bytes, head_end: int) -> bool:
        line_end = data.find(b"\r\n")
        block = data[line_end:head_end]
        known = self.shared.known_heads.blocks.get(block)
        line = LINE.fullmatch(data, 0, line_end)
        if known is None or line is None or len(data) != head_end + 4 + known.length:
            self._block = block if line is not None and len(block) <= BLOCK_BYTES else None
            return False
        method, path, query = line.groups(b"")
        request = Request(METHODS[method], path.decode("ascii"), query, known.headers, True, known.found)
        self._find_route(request)
        route = request.route
        if route is None or known.length > min(route.body_bytes, self.limits.unknown_body_bytes):
            return False
        if request.ready is None:
            self.shared.known_heads.remember(data[:head_end], request, known.length)
        request.body = data[head_end + 4 :]
        self._take(request)
        return True

    def _feed(self, data: bytes) -> None:
        rest = memoryview(data)
        while not self._deaf:
            try:
                self.parser.feed_data(rest)
            except httptools.HttpParserUpgrade as upgrade:
                rest = rest[upgrade.args[0] :]
                self._ignore_upgrade()
            else:
                return

    def _ignore_upgrade(self) -> None:
        """HTTP/1.1 goes on after an offer to speak another protocol, and the body is as long as the head says."""
        request = self._parsed
        if request is None:
            return
        self._upgrading = False
        self.parser = httptools.HttpRequestParser(self)
        coding = b"transfer-encoding: chunked" if b"transfer-encoding" in request.found else b"content-length: %b"
        framing = coding.replace(b"%b", request.found.get(b"content-length", b"0"))
        self._resuming = True
        self.parser.feed_data(b"POST / HTTP/1.1\r\n%b\r\n\r\n" % framing)
        self._resuming = False

    def on_message_begin(self) -> None:
        if self._resuming:
            return
        self.url = b""
        self.headers = []
        self._first = self._chunk
        self._fed = 0
        self._allowance = self._head_allowance
        self._phase = HEADERS
        self._since = monotonic()

    def on_url(self, url: bytes) -> None:
        if self._resuming:
            return
        self.url += url
        if len(self.url) > self.limits.url_bytes:
            raise Refusal(414, "UriTooLong", "the URL is too long")

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._resuming:
            return
        headers = self.headers
        headers.append((name.lower(), value))
        if len(headers) > self.limits.header_count:
            raise Refusal(431, "HeadersTooLarge", f"a request may have {self.limits.header_count} headers")

    def on_headers_complete(self) -> None:
        if self._resuming:
            return
        parser = self.parser
        version = parser.get_http_version()
        method = parser.get_method().decode()
        path, query = split_url(method, self.url)
        keep_alive = parser.should_keep_alive() and version == "1.1"
        request = self._parsed = Request(method, path.decode("latin-1"), query, self.headers, keep_alive)
        self._phase = BODY
        self._upgrading = parser.should_upgrade()
        self._body = b""
        self.headers = []  # What follows are trailers: bounded alike, and of no use to anyone.
        self._check_head(request, version)
        self._find_route(request)
        if self.limits.same_site_only and (b"origin" in request.found or b"sec-fetch-site" in request.found):
            check_site(request)
        self._check_body(request)
        self._check_caller(request)
        if b"expect" in request.found:
            self._go_ahead(request)
        if self._block is not None:
            self._learn(request)

    def _learn(self, request: Request) -> None:
        assert self._block is not None
        if request.keep_alive and not self._upgrading:
            self.shared.known_heads.learn(self._block, request.headers, request.found)
        self._block = None

    def _find_route(self, request: Request) -> None:
        try:
            self.shared.router.match(request)
        except Refusal as refusal:
            # A wrong path or method is no reason to part: the request is read to its end and answered.
            request.ready = (request.fault or json_fault)(refusal, "")

    def _check_head(self, request: Request, version: str) -> None:
        found = request.found
        host = found.get(b"host")
        if version == "1.1":
            if host is None:
                raise Refusal(400, "HostRequired", "a Host header is required", field="host")
        elif version != "1.0":
            raise Refusal(505, "VersionNotSupported", "only HTTP/1.1 and HTTP/1.0 are supported")
        if len(found) != len(request.headers):
            check_repeated(request.headers)
        if self.limits.home_only and host is not None and host not in self.shared.hosts:
            self._check_host(host)
        if self._first + self._fed > self.limits.header_bytes:
            check_size(request.headers, self.limits.header_bytes)

    def _check_host(self, host: bytes) -> None:
        if not is_home(host, self.limits.hosts):
            text = "without authentication this server answers only to names of this machine, or of QUEUE_BASE_URL"
            raise Refusal(403, "HostNotAllowed", text, field="host")
        if len(self.shared.hosts) < 1000 and len(host) <= MAX_HOST:
            self.shared.hosts.add(host)

    def _check_body(self, request: Request) -> None:
        found = request.found
        coding = found.get(b"transfer-encoding")
        length = found.get(b"content-length")
        if coding is not None:
            check_coding(coding, length)
        self._body_room = request.route.body_bytes if request.route is not None else self.limits.web_body_bytes
        # Bytes in all, should the body come in chunks of one byte.
        self._allowance += 8 * self._body_room
        if length is not None and int(length) > self._body_room:
            raise self._too_large(request)

    # Who sends it

    def _check_caller(self, request: Request) -> None:
        """Ask who sends a large body before any of it is kept."""
        route = request.route
        if route is None or request.ready is not None or announced(request, route) <= self.limits.unknown_body_bytes:
            return
        answer = route.admit(request) if route.admit is not None else self._admit(request, route)
        if isinstance(answer, Response):
            raise Refused(answer)
        if answer is not None:
            self.flow.pause_reading()
            self._admission = self.loop.create_task(self._await_admission(request, answer))

    def _admit(self, request: Request, route: Route) -> Admission:
        if route.open or self.shared.authenticator.remembered(request.authorization) is not None:
            return None
        return self._look_up(request)

    async def _look_up(self, request: Request) -> None:
        await self.shared.authenticator.principal(request.authorization)

    async def _await_admission(self, request: Request, admission: Awaitable[Response | None]) -> None:
        refusal: Exception | Response | None
        try:
            refusal = await admission
        except asyncio.CancelledError:
            return
        except Exception as error:
            refusal = self._fault(request, error)
        self._admission = None
        if self._deaf:
            return
        if refusal is not None:
            self._refuse(refusal)
        else:
            self._go_ahead(request)
            self._read_on()

    def _go_ahead(self, request: Request) -> None:
        expects = request.found.get(b"expect", b"").lower() == b"100-continue"
        if expects and self._admission is None and self._current is None and self._parsed is request:
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _read_on(self) -> None:
        if self.flow.read_paused and self._admission is None and len(self._waiting) <= self.limits.queued_requests:
            self.flow.resume_reading()

    # The body

    def _too_large(self, request: Request) -> Refusal:
        room = request.route.body_bytes if request.route is not None else self.limits.web_body_bytes
        return Refusal(413, "BodyTooLarge", f"the body may have {room} bytes", field="body")

    def on_body(self, body: bytes) -> None:
        self._body_room -= len(body)
        if self._body_room < 0:
            assert self._parsed is not None
            raise self._too_large(self._parsed)
        held = self._body
        if not held:
            self._body = body
            return
        self._hold(len(body) if self._parsed is not None and self._parsed.held else len(held) + len(body))
        if type(held) is bytearray:
            held += body
        else:
            self._body = bytearray(held) + body

    def _hold(self, size: int) -> None:
        """Count bytes of a body that did not come in one piece: many of them could fill the memory."""
        assert self._parsed is not None
        self._parsed.held += size
        if not self.shared.hold(self, size):
            raise Refusal(503, "TooBusy", "too many large requests at once")

    def _hold_or_refuse(self, size: int) -> None:
        try:
            self._hold(size)
        except Refusal as refusal:
            self._refuse(refusal)

    def give_way(self) -> None:
        """The body has been arriving for too long while others need the room."""
        self._refuse(Refusal(503, "TooBusy", "the body came too slowly while the server was busy"))

    @property
    def receiving_since(self) -> float:
        return self._since

    def on_message_complete(self) -> None:
        if self._upgrading:
            return
        request = self._parsed
        assert request is not None
        if request.held:
            self.shared.receiving.pop(self, None)
        request.body, self._body = self._body, b""
        self._parsed = None
        self._phase = IDLE
        self._take(request)

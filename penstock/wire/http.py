"""HTTP as the doors see it: a request, a response, a table of routes.

The doors are written against these few types and never touch a socket. `protocol.py` speaks the bytes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import unquote

from penstock.auth import Principal
from penstock.errors import Invalid

JSON = b"application/json"
TEXT = b"text/plain; charset=utf-8"
SMALL_BODY = 262_144


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpLimits:
    """What one connection, and all of them together, may take from the server."""

    url_bytes: int = 8_192
    header_bytes: int = 32_768
    header_count: int = 100
    web_body_bytes: int = 65_536
    """For everything outside the routes, which name their own."""
    header_s: float = 10.0
    body_s: float = 30.0
    handler_s: float = 30.0
    """A handler that waits on purpose has this much on top of its wait."""
    keep_alive_s: float = 60.0
    write_s: float = 60.0
    """A client that takes nothing for so long is dropped."""
    linger_s: float = 2.0
    """After a refusal what the client still sends is read and dropped, or it would never see the answer."""
    connections: int = 10_000
    connections_per_address: int = 10_000
    """As many as in all, because behind a proxy every client has the proxy's address."""
    requests_in_flight: int = 8_000
    buffered_bytes: int = 268_435_456
    """Of all bodies that are on their way in, or wait for their answer."""
    queued_requests: int = 16
    """Pipelined requests of one connection that wait their turn before reading stops."""
    home_only: bool = False
    """Answer only to names of this machine, and to `hosts`."""
    hosts: frozenset[str] = frozenset()
    sweep_s: float = 1.0
    """How often deadlines are looked at: the precision of all the seconds above."""


class Refusal(Exception):
    """The request itself is at fault, before any door has looked at it."""

    def __init__(
        self, status: int, code: str, message: str, *, field: str | None = None, allow: Iterable[str] = ()
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.field, self.allow = status, code, message, field, allow


class Response:
    __slots__ = ("body", "content_type", "headers", "status")

    def __init__(
        self,
        status: int = 200,
        body: bytes = b"",
        content_type: bytes = JSON,
        headers: tuple[tuple[bytes, bytes], ...] = (),
    ) -> None:
        self.status = status
        self.body = body
        self.content_type = content_type
        self.headers = headers


NO_CONTENT = Response(204)


class Request:
    """One request, whole: the body has arrived before a handler sees it."""

    __slots__ = (
        "arguments",
        "body",
        "client",
        "found",
        "headers",
        "held",
        "if_stopped",
        "keep_alive",
        "late",
        "method",
        "path",
        "principal",
        "query",
        "ready",
        "request_id",
        "route",
        "started",
        "wait_s",
    )

    principal: Principal
    """Set before the handler of any route that is not open."""
    route: Route | None

    def __init__(
        self, method: str, path: str, query: bytes, headers: list[tuple[bytes, bytes]], keep_alive: bool
    ) -> None:
        self.method = method
        self.path = path
        self.query = query
        self.headers = headers
        self.found: dict[bytes, bytes] = dict(headers)
        self.keep_alive = keep_alive
        self.body: bytes | bytearray = b""
        self.client: tuple[str, int] | None = None
        self.request_id = ""
        self.arguments: list[str] = []
        self.route = None
        self.ready: Response | None = None
        self.started = 0.0
        self.held = 0
        self.late = False
        self.wait_s = 0.0
        """A handler that waits on purpose says how long; its time limit grows by as much."""
        self.if_stopped: Response | None = None
        """With `wait_s`: the answer to give when the server stops before the wait is over."""

    def header(self, name: bytes) -> bytes | None:
        return self.found.get(name)

    @property
    def authorization(self) -> str | None:
        value = self.found.get(b"authorization")
        return value.decode("latin-1") if value is not None else None


Handler = Callable[[Request], "Response | Awaitable[Response]"]
"""A handler that need not wait answers at once; any other returns what to wait for."""

Fault = Callable[[Exception, str], Response]
"""How a door puts an error: it is given the request id too."""


class Route:
    __slots__ = ("body_bytes", "counted", "fault", "handler", "method", "open", "path", "safe", "timed", "when")

    def __init__(
        self,
        method: str,
        path: str,
        handler: Handler,
        *,
        fault: Fault,
        body_bytes: int = SMALL_BODY,
        open: bool = False,
        safe: bool = True,
        when: Callable[[Request], bool] | None = None,
    ) -> None:
        self.method = method
        self.path = path
        self.handler = handler
        self.fault = fault
        self.body_bytes = body_bytes
        self.open = open
        """Needs no Authorization header, or judges it itself."""
        self.safe = safe
        """A GET without effects, so that HEAD may stand for it."""
        self.when = when
        """Asked of the head of a request: whether the route takes it. Else it is as if there were no route."""
        self.timed = (method, path)
        self.counted: dict[int, tuple[str, str, str]] = {}

    def labels(self, status: int) -> tuple[str, str, str]:
        labels = self.counted.get(status)
        if labels is None:
            labels = self.counted[status] = (self.method, self.path, str(status))
        return labels


class _Node:
    __slots__ = ("any", "children", "routes")

    def __init__(self) -> None:
        self.children: dict[str, _Node] = {}
        self.any: _Node | None = None
        self.routes: dict[str, Route] = {}

    def grow(self, segment: str) -> _Node:
        if segment.startswith("{"):
            self.any = self.any or _Node()
            return self.any
        return self.children.setdefault(segment, _Node())


_NO_ROUTES: Mapping[str, Route] = {}


class Router:
    """Finds the route of a path by walking its segments.

    `owns` names the first segments under which nobody else serves: an unknown path there is a 404 of ours,
    elsewhere it belongs to the web pages.
    """

    def __init__(self, routes: Iterable[Route], owns: Iterable[str]) -> None:
        self._root = _Node()
        self._owns = frozenset(owns)
        self.routes: list[Route] = []
        for route in routes:
            self.add(route)

    def add(self, route: Route) -> None:
        node = self._root
        for segment in route.path.split("/")[1:]:
            node = node.grow(segment)
        if route.method in node.routes:
            raise ValueError(f"{route.method} {route.path} is served twice")
        node.routes[route.method] = route
        if route.method == "GET" and route.safe:
            node.routes["HEAD"] = route
        self.routes.append(route)

    def match(self, request: Request) -> None:
        """Give the request its route and arguments; none when the path is not ours.

        Below our own prefixes an unknown path or method is a `Refusal`.
        """
        segments = request.path.split("/")
        node = self._root
        for segment in segments[1:]:
            child = node.children.get(segment)
            if child is None:
                child = node.any
                if child is None:
                    return self._unknown(segments, request)
                request.arguments.append(_segment(segment) if "%" in segment else segment)
            node = child
        route = node.routes.get(request.method)
        if route is None or (route.when is not None and not route.when(request)):
            return self._unknown(segments, request, node.routes)
        request.route = route

    def _unknown(self, segments: list[str], request: Request, routes: Mapping[str, Route] = _NO_ROUTES) -> None:
        if segments[1] not in self._owns:
            return
        if not routes:
            raise Refusal(404, "NotFound", "there is nothing at this path", field="path")
        if request.method != "OPTIONS":
            raise Refusal(405, "MethodNotAllowed", f"{request.method} is not served here", field="method", allow=routes)
        request.ready = Response(204, headers=(allow_header(routes),))


def allow_header(methods: Iterable[str]) -> tuple[bytes, bytes]:
    return b"allow", ", ".join(sorted({*methods, "OPTIONS"})).encode()


def _segment(text: str) -> str:
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        raise Refusal(400, "InvalidPath", "the path is not valid UTF-8", field="path") from None


def parse_query(query: bytes) -> dict[str, str]:
    """A name given twice is refused: whichever was meant, the other would be ignored."""
    values: dict[str, str] = {}
    for part in query.decode("latin-1").split("&"):
        if part:
            name, _, value = part.partition("=")
            name, value = _plain(name), _plain(value)
            if name in values:
                raise Invalid(f"{name} is given twice", field=name)
            values[name] = value
    return values


def _plain(text: str) -> str:
    try:
        return unquote(text.replace("+", " "), errors="strict")
    except UnicodeDecodeError:
        raise Invalid("the query is not valid UTF-8", field="query") from None

"""The table of routes, and how a request finds its own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from urllib.parse import unquote

from penstock.wire.http.messages import Refusal, Request, Response, allow_header

SMALL_BODY = 262_144

Handler = Callable[[Request], "Response | Awaitable[Response]"]
"""A handler that need not wait answers at once; any other returns what to wait for."""

Fault = Callable[[Exception, str], Response]
"""How a door puts an error: it is given the request id too."""


Admission = Response | None | Awaitable[Response | None]
"""What a route says to the head of a request with a large body: None lets it in, an answer refuses it."""


class Route:
    __slots__ = (
        "admit",
        "body_bytes",
        "counted",
        "fault",
        "handler",
        "method",
        "open",
        "path",
        "repeats",
        "safe",
        "timed",
        "when",
        "words_refusals",
    )

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
        admit: Callable[[Request], Admission] | None = None,
        words_refusals: bool = False,
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
        self.admit = admit
        """Asked before a large body is read, by routes that judge the Authorization header themselves."""
        self.words_refusals = words_refusals
        """What HTTP itself refuses is put by `fault` too; elsewhere it is said in one way at every door."""
        self.repeats = "{id}" not in path
        """Clients send the same request line again and again."""
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
        self._faults: dict[str, Fault] = {}
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
        if route.words_refusals:
            self._faults.setdefault(route.path.split("/")[1], route.fault)
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
        if route.words_refusals:
            request.fault = route.fault
        if "%00" in request.path:
            _refuse_zero(route, request.arguments)

    def _unknown(self, segments: list[str], request: Request, routes: Mapping[str, Route] = _NO_ROUTES) -> None:
        if segments[1] not in self._owns:
            return
        if all(route.words_refusals for route in routes.values()):
            request.fault = self._faults.get(segments[1])
        if not routes:
            raise Refusal(404, "NotFound", "there is nothing at this path", field="path")
        if request.method != "OPTIONS":
            raise Refusal(405, "MethodNotAllowed", f"{request.method} is not served here", field="method", allow=routes)
        request.ready = Response(204, headers=(allow_header(routes),))


def _segment(text: str) -> str:
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        raise Refusal(400, "InvalidPath", "the path is not valid UTF-8", field="path") from None


def _refuse_zero(route: Route, arguments: list[str]) -> None:
    """No store keeps the character U+0000, so nothing has a name with it."""
    names = [segment[1:-1] for segment in route.path.split("/") if segment.startswith("{")]
    for name, text in zip(names, arguments, strict=True):
        if "\0" in text:
            raise Refusal(400, "InvalidPath", f"{name} contains the character U+0000", field=name)

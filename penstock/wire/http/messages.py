"""HTTP as the doors see it: a request, a response, a refusal.

The doors are written against these few types and never touch a socket. `protocol.py` speaks the bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator, Iterable
from typing import TYPE_CHECKING, Any

from penstock.auth import Principal

if TYPE_CHECKING:
    from penstock.wire.http.router import Route

JSON = b"application/json"
TEXT = b"text/plain; charset=utf-8"


class Refusal(Exception):
    """The request itself is at fault, before any door has looked at it."""

    def __init__(
        self, status: int, code: str, message: str, *, field: str | None = None, allow: Iterable[str] = ()
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.field, self.allow = status, code, message, field, allow


class Refused(Exception):
    """The request is refused with an answer in the words of its door."""

    def __init__(self, response: Response) -> None:
        super().__init__(response.status)
        self.response = response


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


class Direct:
    """A handler's coroutine that the connection may run by itself, without a task.

    It must wait for nothing but answers of the engine's batchers, or for a store; whatever needs a task of its own,
    such as `asyncio.timeout`, comes after `await asyncio.sleep(0)`.
    """

    __slots__ = ("steps",)

    def __init__(self, steps: Coroutine[Any, None, Response]) -> None:
        self.steps = steps

    def __await__(self) -> Generator[Any, None, Response]:
        return self.steps.__await__()


class Request:
    """One request. The whole body has arrived before a handler sees it; `Route.admit` sees the head alone."""

    __slots__ = (
        "arguments",
        "body",
        "client",
        "fault",
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
        self,
        method: str,
        path: str,
        query: bytes,
        headers: list[tuple[bytes, bytes]],
        keep_alive: bool,
        found: dict[bytes, bytes] | None = None,
    ) -> None:
        self.method = method
        self.path = path
        self.query = query
        self.headers = headers
        self.found: dict[bytes, bytes] = dict(headers) if found is None else found
        self.keep_alive = keep_alive
        self.body: bytes | bytearray = b""
        self.client: tuple[str, int] | None = None
        self.request_id = ""
        self.arguments: list[str] = []
        self.route = None
        self.fault: Callable[[Exception, str], Response] | None = None
        """How the door that the path belongs to words refusals, if it has its own way."""
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


def allow_header(methods: Iterable[str]) -> tuple[bytes, bytes]:
    return b"allow", ", ".join(sorted({*methods, "OPTIONS"})).encode()

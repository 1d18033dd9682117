"""HTTP as the doors see it: a request, a response, a refusal.

The doors are written against these few types and never touch a socket. `protocol.py` speaks the bytes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable
from typing import TYPE_CHECKING, Any

from penstock.auth import Principal
from penstock.engine.answers import Answer
from penstock.errors import QueueNotFound

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


Rescue = Callable[["Request", QueueNotFound], Awaitable[Response]]
"""Serves a request again, or raises the error, when there is no queue of the name that the request gave."""


class Direct:
    """A handler's coroutine that the connection may run by itself, without a task.

    It must wait for nothing but answers of the engine's batchers, or for a store; whatever needs a task of its own,
    such as `asyncio.timeout`, comes after `await asyncio.sleep(0)`.
    """

    __slots__ = ("rescue", "steps")

    def __init__(self, steps: Coroutine[Any, None, Response]) -> None:
        self.steps = steps
        self.rescue: Rescue | None = None

    def __await__(self) -> Generator[Any, None, Response]:
        return self.steps.__await__()


class Later:
    """An answer of the engine that is under way, and what makes a response of it. It takes not even a coroutine.

    `finish` may return something to wait for instead. `failed` words what was raised; else the route does.
    """

    __slots__ = ("answer", "failed", "finish", "rescue")

    def __init__(
        self,
        answer: Answer[Any],
        finish: Callable[[Any], Response | Awaitable[Response]],
        failed: Callable[[Exception], Response] | None = None,
    ) -> None:
        self.answer = answer
        self.finish = finish
        self.failed = failed
        self.rescue: Rescue | None = None

    def __await__(self) -> Generator[Any, None, Response]:
        return self._wait().__await__()

    async def _wait(self) -> Response:
        try:
            response = self.finish(await self.answer)
            return response if isinstance(response, Response) else await response
        except Exception as error:
            if self.failed is None:
                raise
            return self.failed(error)


class Request:
    """One request. The whole body has arrived before a handler sees it; `Route.admit` sees the head alone."""

    principal: Principal
    """Set before the handler of any route that is not open."""

    # Most requests leave these as they are, so they cost nothing until they are set.
    body: bytes | bytearray = b""
    client: tuple[str, int] | None = None
    request_id = ""
    route: Route | None = None
    fault: Callable[[Exception, str], Response] | None = None
    """How the door that the path belongs to words refusals, if it has its own way."""
    ready: Response | None = None
    started = 0.0
    held = 0
    late = False
    wait_s: float = 0.0
    """A handler that waits on purpose says how long; its time limit grows by as much."""
    if_stopped: Response | None = None
    """With `wait_s`: the answer to give when the server stops before the wait is over."""

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
        self.arguments: list[str] = []

    def header(self, name: bytes) -> bytes | None:
        return self.found.get(name)

    @property
    def authorization(self) -> str | None:
        value = self.found.get(b"authorization")
        return value.decode("latin-1") if value is not None else None


def allow_header(methods: Iterable[str]) -> tuple[bytes, bytes]:
    return b"allow", ", ".join(sorted({*methods, "OPTIONS"})).encode()

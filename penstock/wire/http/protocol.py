"""The bytes of HTTP/1.1, on uvicorn's extension point for protocols.

A request whose route the router knows is answered here, in one write, past ASGI: on the hot path HTTP costs
more than the queue does. Everything else goes to the ASGI app. Both kinds are read whole first, within the
same caps, and answered in the order they came.

One timer for all connections looks after every deadline, so that a request pays for none.
"""

from __future__ import annotations

import asyncio
import logging
import re
import types
from collections.abc import Awaitable, Coroutine, Generator
from time import monotonic
from typing import TYPE_CHECKING, Any

from uvicorn.config import Config
from uvicorn.server import ServerState

from penstock.auth import Authenticator
from penstock.engine.answers import Answer
from penstock.engine.metrics import Metrics
from penstock.errors import QueueNotFound, Unavailable
from penstock.wire.http.asgi import AsgiExchange, Streamed
from penstock.wire.http.faults import json_fault
from penstock.wire.http.limits import HttpLimits
from penstock.wire.http.messages import Direct, Later, Refusal, Refused, Request, Rescue, Response
from penstock.wire.http.reading import BODY, HEADERS, IDLE, RequestReader
from penstock.wire.http.router import Route, Router
from penstock.wire.http.traffic import NO_BODY, Traffic, access, log_access
from penstock.wire.http.turns import ALONE, Turn, Turns, caller_of

if TYPE_CHECKING:
    from penstock.tracing.spans import Tracer

_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
BUSY = (429, 503)
"""Answers that tell the client to come back: at every door they say when."""
_GONE = Response(499)
"""Written to nobody: how a request is counted whose client left."""


class PenstockProtocol(RequestReader):
    """One connection. Use the class that `protocol_class` makes: it knows its router."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._task: asyncio.Task[None] | None = None
        self._steps: Coroutine[Any, None, Response] | None = None
        """The handler of the current request, when it runs without a task."""
        self._later: Later | None = None
        """What the handler of the current request left to do, when it took no coroutine."""
        self._rescue: Rescue | None = None
        self._turn: Turn | None = None
        """Of the current request, while others are active too."""
        self._awaited: Answer[Any] | None = None
        """What that handler waits for."""
        self._advancing = False
        self._served = False
        self._lingering = False
        self._closing = False
        self._begun = False
        self._entered = False
        self._stalled_at = 0.0
        self._address = ""

    # The connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        shared, limits = self.shared, self.limits
        self._address = self.client[0] if self.client else ""
        fellows = shared.addresses.get(self._address, 0) + 1
        shared.addresses[self._address] = fellows
        shared.watch(self.loop, self.connections)
        if len(self.connections) > limits.connections or fellows > limits.connections_per_address:
            self._refuse(Refusal(503, "TooManyConnections", "too many connections"))

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        left = self.shared.addresses.get(self._address, 1) - 1
        if left:
            self.shared.addresses[self._address] = left
        else:
            self.shared.addresses.pop(self._address, None)
        self._deaf = True
        self._drop_unanswered()
        self.shared.forget(self)
        if self._admission is not None:
            self._admission.cancel()
        # The client is gone: a long poll must not claim messages for it.
        self._cancel()

    def shutdown(self) -> None:
        """The server stops: finish what has begun, take nothing new."""
        self._closing = True
        current = self._current
        if current is None:
            if self._deaf or self._phase != BODY:
                self.transport.close()
        elif current.if_stopped is not None or self._begun:
            self._cancel()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stalled_at = 0.0
        self.shared.stalled.pop(self, None)
        self._advance()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stalled_at = monotonic()
        self.shared.stall(self)

    def check_deadlines(self, now: float) -> None:
        limits, spent = self.limits, now - self._since
        if self._stalled_at and now - self._stalled_at > limits.write_s:
            self.transport.abort()
        elif self._current is not None:
            if now - self._current.started > limits.handler_s + self._current.wait_s:
                self._current.late = True
                self._cancel()
        elif self._deaf:
            if spent > (limits.linger_s if self._lingering else limits.write_s):
                self.transport.abort()
        elif self._phase == HEADERS and spent > limits.header_s:
            self._refuse(Refusal(408, "RequestTimeout", "the headers took too long"))
        elif self._phase == BODY and spent > limits.body_s:
            self._refuse(Refusal(408, "RequestTimeout", "the body took too long"))
        elif self._phase == IDLE and spent > (limits.keep_alive_s if self._served else limits.header_s):
            self.transport.close()

    # Requests

    def _take(self, request: Request) -> None:
        """A whole request has come: answer it, or have it wait its turn."""
        if self._current is None and not self._waiting and not self.flow.write_paused:
            self._start(request)
        else:
            self._waiting.append(request)
            if len(self._waiting) > self.limits.queued_requests:
                self.flow.pause_reading()

    def _refuse(self, refusal: Exception | Response) -> None:
        """Answer in turn, and read no more: where the next request would begin is unknown."""
        if self._deaf:
            return
        self._deaf = True
        request = self._parsed or Request("", "", b"", [], False)
        self._parsed = None
        self._let_go(request)
        request.keep_alive = False
        request.request_id = self._request_id(request)
        request.ready = self._worded(request, refusal)
        self._waiting.append(request)
        self._advance()

    def _worded(self, request: Request, refusal: Exception | Response) -> Response:
        if isinstance(refusal, Refused):
            return refusal.response
        if isinstance(refusal, Response):
            return refusal
        # What HTTP itself refuses is said in one way at every door that has no way of its own.
        refused = isinstance(refusal, Refusal) or request.route is None
        worded = (request.fault or json_fault) if refused or request.route is None else request.route.fault
        return worded(refusal, request.request_id)

    def _let_go(self, request: Request) -> None:
        self.shared.buffered -= request.held
        self.shared.receiving.pop(self, None)
        request.held = 0
        self._body = b""

    def _drop_unanswered(self) -> None:
        dropped = [*self._waiting, self._parsed] if self._parsed is not None else self._waiting
        self.shared.buffered -= sum(request.held for request in dropped)
        self._waiting.clear()
        self._parsed = None

    def _request_id(self, request: Request) -> str:
        given = request.found.get(b"x-request-id")
        if given is not None and _REQUEST_ID.fullmatch(given):
            return given.decode()
        return self.shared.new_request_id()

    # Answering

    def _advance(self) -> None:
        # A loop, not a recursion: a single packet may hold thousands of requests that need no waiting.
        if self._advancing:
            return
        self._advancing = True
        while self._waiting and self._current is None and not self.flow.write_paused:
            self._start(self._waiting.popleft())
        self._advancing = False
        self._read_on()

    def _start(self, request: Request) -> None:
        self._current = request
        request.started = monotonic()
        request.client = self.client
        request.request_id = request.request_id or self._request_id(request)
        self.shared.active[()] += 1
        try:
            answer = request.ready or self._answer(request)
        except Exception as error:
            answer = self._fault(request, error)
        if type(answer) is Later:
            self._later = answer
            self._rescue = answer.rescue
            self._awaited = awaited = answer.answer
            awaited.resume = self._settle
            if awaited.done():
                self._settle()
        elif type(answer) is Direct:
            self._steps = answer.steps
            self._rescue = answer.rescue
            self._step()
        elif isinstance(answer, Response):
            self._finish(request, answer)
        else:
            self._rescue = None
            self._carry_on(request, answer)

    def _carry_on(self, request: Request, answer: Awaitable[Response]) -> None:
        """Answer by a task."""
        self._entered = False
        self._task = task = self.loop.create_task(self._run(request, answer))
        self.tasks.add(task)

    def _answer(self, request: Request) -> Response | Awaitable[Response]:
        shared, route = self.shared, request.route
        if shared.active[()] > self.limits.requests_in_flight:
            raise Unavailable("too many requests are being served")
        if shared.turns is not None and route is not None:
            caller = caller_of(request)
            if caller is not None:
                shared.turns.note(caller)
                if shared.turns.crowded or shared.active[()] > ALONE:
                    self._turn = shared.turns.take_now(caller, request)
                    if self._turn is None:
                        return self._in_turn(request, shared.turns, caller)
        return self._serve(request)

    async def _in_turn(self, request: Request, turns: Turns, caller: int) -> Response:
        """Wait in line first. The turn ends with the request, in `_count`."""
        self._turn = await turns.take(caller, request)
        answer = self._serve(request)
        if isinstance(answer, Response):
            return answer
        if isinstance(answer, Direct | Later):
            self._rescue = answer.rescue
        return await answer

    def _serve(self, request: Request) -> Response | Awaitable[Response]:
        shared, route = self.shared, request.route
        if route is None:
            request.route = shared.web
            return AsgiExchange(self, request, self.server, self.scheme or "http").run(self.app)
        if not route.open:
            principal = shared.authenticator.remembered(request.authorization)
            if principal is None:
                return self._answer_unknown(request, route)
            request.principal = principal
        return route.handler(request)

    async def _answer_unknown(self, request: Request, route: Route) -> Response:
        request.principal = await self.shared.authenticator.principal(request.authorization)
        answer = route.handler(request)
        if isinstance(answer, Response):
            return answer
        if isinstance(answer, Direct | Later):
            self._rescue = answer.rescue
        return await answer

    async def _run(self, request: Request, answer: Awaitable[Response]) -> None:
        self._entered = True
        task = self._task
        try:
            response = await answer
        except asyncio.CancelledError:
            response = self._stopped(request)
        except Exception as error:
            response = await self._rescued(request, error)
        # Not by a callback of the task: that would be one more turn of the loop for every request.
        self.tasks.discard(task)
        self._finish(request, response)

    def _step(self, error: BaseException | None = None) -> None:
        """Run a handler without a task, up to where it waits for the engine, or to its end."""
        steps, request = self._steps, self._current
        assert steps is not None
        assert request is not None
        self._awaited = None
        try:
            awaited = steps.send(None) if error is None else steps.throw(error)
        except StopIteration as end:
            response = end.value
        except asyncio.CancelledError:
            response = self._stopped(request)
        except Exception as failure:
            self._steps = None
            self._fail(request, failure)
            return
        else:
            if type(awaited) is Answer:
                self._awaited = awaited
                awaited.resume = self._step
            else:
                # It waits for something else after all: a task carries it on.
                self._steps = None
                self._carry_on(request, _carried_on(steps, awaited))
            return
        self._steps = None
        self._finish(request, response)

    def _settle(self) -> None:
        """The engine has answered a handler that took no coroutine."""
        later, request = self._later, self._current
        assert later is not None
        assert request is not None
        self._later = self._awaited = None
        try:
            response = later.finish(later.answer.result())
        except asyncio.CancelledError:
            response = self._stopped(request)
        except Exception as failure:
            if later.failed is None:
                self._fail(request, failure)
                return
            response = later.failed(failure)
        if isinstance(response, Response):
            self._finish(request, response)
        else:
            self._carry_on(request, response)

    def _fail(self, request: Request, error: Exception) -> None:
        if self._rescue is not None and isinstance(error, QueueNotFound):
            self._carry_on(request, self._rescued(request, error))
        else:
            self._finish(request, self._fault(request, error))

    async def _rescued(self, request: Request, error: Exception) -> Response:
        rescue, self._rescue = self._rescue, None
        if rescue is None or not isinstance(error, QueueNotFound):
            return self._fault(request, error)
        try:
            return await rescue(request, error)
        except asyncio.CancelledError:
            return self._stopped(request)
        except Exception as failure:
            return self._fault(request, failure)

    def _cancel(self) -> None:
        """End the handler. One that has not begun is left to: a task cancelled so early would end unseen."""
        if self._awaited is not None:
            self._awaited.resume = None
            self._awaited.cancel()
            if self._later is not None:
                self._settle()
            else:
                self._step(asyncio.CancelledError())
        elif self._task is not None:
            if self._entered:
                self._task.cancel()
            else:
                self.loop.call_soon(self._cancel)

    def _stopped(self, request: Request) -> Response:
        """The handler was cancelled: too late, or the server stops, or nobody listens any more."""
        if request.late:
            return self._fault(request, Refusal(408, "RequestTimeout", "the request took too long"))
        if self._closing and request.if_stopped is not None:
            return request.if_stopped
        if self.transport.is_closing():
            return _GONE
        return self._fault(request, Unavailable("the server is stopping"))

    def _fault(self, request: Request, error: Exception) -> Response:
        fault = request.route.fault if request.route is not None else json_fault
        return fault(error, request.request_id)

    def _finish(self, request: Request, response: Response) -> None:
        keep_alive = request.keep_alive and not self._closing
        if self._begun:
            # Half an answer cannot be taken back; that it breaks off must at least be seen.
            if type(response) is not Streamed:
                self.transport.abort()
        elif not self.transport.is_closing():
            self._write(request, response, keep_alive)
        self._count(request, response.status)
        if not keep_alive:
            self._hang_up(request)
        elif self._waiting:
            self._advance()

    def _write(self, request: Request, response: Response, keep_alive: bool) -> None:
        head = self._head(request, response, b"" if keep_alive else b"connection: close\r\n")
        body = response.body
        if response.status in NO_BODY:
            self.transport.write(b"%b\r\n" % head)
        elif request.method == "HEAD":
            self.transport.write(b"%bcontent-length: %d\r\n\r\n" % (head, len(body)))
        else:
            self.transport.write(b"%bcontent-length: %d\r\n\r\n%b" % (head, len(body), body))

    def _head(self, request: Request, response: Response, more: bytes) -> bytes:
        prefix = self.shared.prefix(response.status, response.content_type, self.server_state.default_headers)
        for name, value in response.headers:
            more += b"%b: %b\r\n" % (name, value)
        if response.status in BUSY and b"retry-after: " not in more:
            more += b"retry-after: 1\r\n"
        return b"%bx-request-id: %b\r\n%b" % (prefix, request.request_id.encode(), more)

    def _count(self, request: Request, status: int) -> None:
        """The request is over: note it, and be free for the next."""
        shared, now = self.shared, monotonic()
        route = request.route or shared.web
        elapsed = now - request.started
        shared.active[()] -= 1
        shared.buffered -= request.held
        shared.metrics.requests.add(route.labels(status))
        shared.metrics.request_seconds.observe(route.timed, elapsed)
        self.server_state.total_requests += 1
        self._current = self._task = None
        if self._turn is not None:
            self._turn.end()
            self._turn = None
        self._served = True
        self._since = now
        if access.isEnabledFor(logging.INFO):
            log_access(request, route, status, elapsed)

    def _hang_up(self, request: Request) -> None:
        self._deaf = True
        self._drop_unanswered()
        if self.transport.is_closing():
            return
        if request.ready is not None and self.transport.can_write_eof():
            # Closed with bytes unread, the connection would be reset and the refusal lost with it.
            self._lingering = True
            self.flow.resume_reading()
            self.transport.write_eof()
        else:
            self.transport.close()

    # Answers in pieces

    def write_head(self, request: Request, response: Response) -> None:
        self._begun = True
        if not self.transport.is_closing():
            # Without a length the end of the connection is the end of the answer: that needs no chunks.
            request.keep_alive = False
            self.transport.write(self._head(request, response, b"connection: close\r\n") + b"\r\n")

    async def write_piece(self, data: bytes) -> None:
        if self.flow.write_paused:
            await self.flow.drain()
        if data and not self.transport.is_closing():
            self.transport.write(data)


@types.coroutine
def _carried_on(steps: Coroutine[Any, None, Response], awaited: Any) -> Generator[Any, None, Response]:
    """The rest of a coroutine that was run up to where it waits for `awaited`."""
    response: Response
    waits = True
    while waits:
        try:
            yield awaited
            waits = False
        except BaseException as error:
            try:
                awaited = steps.throw(error)
            except StopIteration as end:
                response = end.value
                return response
    response = yield from steps
    return response


def protocol_class(
    router: Router,
    authenticator: Authenticator,
    metrics: Metrics,
    limits: HttpLimits | None = None,
    tracer: Tracer | None = None,
) -> type[PenstockProtocol]:
    """The class to hand to uvicorn as `http`."""
    limits = limits or HttpLimits()
    shared = Traffic(router, authenticator, metrics, limits)
    known: dict[str, Any] = {"shared": shared, "limits": limits}
    if tracer is None:
        return type("BoundPenstockProtocol", (PenstockProtocol,), known)
    from penstock.wire.http.traced import TracedProtocol

    return type("BoundTracedProtocol", (TracedProtocol,), {**known, "tracer": tracer})

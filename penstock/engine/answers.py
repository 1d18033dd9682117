"""What the caller of a shared statement waits on: a future that can resume its caller without a turn of the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextvars import Context
from typing import Any, Generic, TypeVar

Result = TypeVar("Result")

_PENDING, _DONE, _FAILED, _CANCELLED = range(4)


class Answer(Generic[Result]):
    """Tasks await it as they await a future, and are woken by the loop.

    Who runs a coroutine without a task, as the HTTP server does, sets `resume` instead: it is called from
    `set_result` itself. For a server that answers a hundred requests from one statement this saves a task, a future
    and two turns of the loop for each of them.
    """

    __slots__ = ("_asyncio_future_blocking", "_callbacks", "_outcome", "_state", "resume")

    def __init__(self) -> None:
        self._asyncio_future_blocking = False
        self._state = _PENDING
        self._outcome: Any = None
        self._callbacks: list[tuple[Callable[[Any], object], Context | None]] | None = None
        self.resume: Callable[[], None] | None = None

    def __await__(self) -> Generator[Answer[Result], None, Result]:
        if self._state == _PENDING:
            self._asyncio_future_blocking = True
            yield self
        return self.result()

    __iter__ = __await__

    def done(self) -> bool:
        return self._state != _PENDING

    def cancelled(self) -> bool:
        return self._state == _CANCELLED

    def result(self) -> Result:
        if self._state == _DONE:
            found: Result = self._outcome
            return found
        if self._state == _FAILED:
            raise self._outcome
        if self._state == _CANCELLED:
            raise asyncio.CancelledError
        raise asyncio.InvalidStateError("the answer is not available yet")

    def exception(self) -> BaseException | None:
        if self._state == _FAILED:
            error: BaseException = self._outcome
            return error
        self.result()
        return None

    def set_result(self, result: Result) -> None:
        self._outcome = result
        self._settle(_DONE)

    def set_exception(self, error: Exception) -> None:
        self._outcome = error
        self._settle(_FAILED)

    def cancel(self, msg: object = None) -> bool:
        if self._state != _PENDING:
            return False
        self._settle(_CANCELLED)
        return True

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    def add_done_callback(self, callback: Callable[[Any], object], *, context: Context | None = None) -> None:
        if self._state != _PENDING:
            asyncio.get_running_loop().call_soon(callback, self, context=context)
        elif self._callbacks is None:
            self._callbacks = [(callback, context)]
        else:
            self._callbacks.append((callback, context))

    def remove_done_callback(self, callback: Callable[[Any], object]) -> int:
        kept = [pair for pair in self._callbacks or () if pair[0] != callback]
        removed = len(self._callbacks or ()) - len(kept)
        self._callbacks = kept
        return removed

    def _settle(self, state: int) -> None:
        self._state = state
        if self._callbacks:
            loop = asyncio.get_running_loop()
            for callback, context in self._callbacks:
                loop.call_soon(callback, self, context=context)
            self._callbacks = None
        resume = self.resume
        if resume is not None:
            self.resume = None
            resume()

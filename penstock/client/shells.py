"""Calls as methods: of a client that blocks, and of one that is awaited."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, TypeVar

from penstock.client.exchange import Call, Retries, exchange
from penstock.client.transport import AsyncTransport, Transport, drive, drive_async

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class Namespace:
    """Calls of one kind, of a client that blocks."""

    def __init__(self, transport: Transport, retries: Retries) -> None:
        self._transport = transport
        self._retries = retries

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._transport}>"

    def ask(self, call: Call[Result]) -> Result:
        """Make one call of `penstock.client.api`."""
        return drive(exchange(call, self._retries), self._transport)


class AsyncNamespace:
    """Calls of one kind, awaited."""

    def __init__(self, transport: AsyncTransport, retries: Retries) -> None:
        self._transport = transport
        self._retries = retries

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._transport}>"

    async def ask(self, call: Call[Result]) -> Result:
        """Make one call of `penstock.client.api`."""
        return await drive_async(exchange(call, self._retries), self._transport)


def blocking(make: Callable[Parameters, Call[Result]]) -> Callable[Concatenate[Any, Parameters], Result]:
    """A method that makes the call and returns its result."""

    @functools.wraps(make)
    def method(self: Namespace, /, *args: Parameters.args, **options: Parameters.kwargs) -> Result:
        return self.ask(make(*args, **options))

    return method


def awaited(
    make: Callable[Parameters, Call[Result]],
) -> Callable[Concatenate[Any, Parameters], Coroutine[Any, Any, Result]]:
    """A method that makes the call when it is awaited."""

    @functools.wraps(make)
    async def method(self: AsyncNamespace, /, *args: Parameters.args, **options: Parameters.kwargs) -> Result:
        return await self.ask(make(*args, **options))

    return method

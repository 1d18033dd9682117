"""Calls made at the same time share one request.

There is no timer: a lone call is sent at once, and those that come while it is under way go together in the next
request. So many small calls cost a client little more than one large one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from penstock.errors import Conflict, Forbidden, Invalid, NotFound, PenstockError, QueueFull

Item = TypeVar("Item")
Result = TypeVar("Result")

Send = Callable[[Sequence[Item]], Awaitable[Sequence[Result | PenstockError]]]

REFUSED = (Invalid, Forbidden, NotFound, Conflict, QueueFull)
"""The server looked at the whole request and did none of it."""


class Joiner(Generic[Item, Result]):
    """`send` answers for each item what came of it; when it refuses, the items are tried one by one."""

    def __init__(self, send: Send[Item, Result], *, limit: int, weigh: Callable[[Item], int], heaviest: int) -> None:
        self._send = send
        self._limit = limit
        self._weigh = weigh
        self._heaviest = heaviest
        self._waiting: deque[tuple[Item, asyncio.Future[Result]]] = deque()
        self._runner: asyncio.Task[None] | None = None

    def submit(self, item: Item) -> asyncio.Future[Result]:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Result] = loop.create_future()
        self._waiting.append((item, answer))
        if self._runner is None:
            self._runner = loop.create_task(self._run())
        return answer

    async def drain(self) -> None:
        """Return when everything submitted so far has been answered."""
        if self._runner is not None:
            await self._runner

    async def _run(self) -> None:
        try:
            while self._waiting:
                await self._call(self._take())
        finally:
            self._runner = None

    def _take(self) -> list[tuple[Item, asyncio.Future[Result]]]:
        taken = [self._waiting.popleft()]
        weight = self._weigh(taken[0][0])
        while self._waiting and len(taken) < self._limit:
            weight += self._weigh(self._waiting[0][0])
            if weight > self._heaviest:
                break
            taken.append(self._waiting.popleft())
        return taken

    async def _call(self, taken: list[tuple[Item, asyncio.Future[Result]]]) -> None:
        try:
            results = await self._send([item for item, _ in taken])
        except REFUSED as error:
            # One item that is refused must not fail its neighbours: nothing was done, so each may go alone.
            if len(taken) == 1:
                _answer(taken, [error])
            else:
                for one in taken:
                    await self._call([one])
        except Exception as error:
            _answer(taken, [error] * len(taken))
        else:
            _answer(taken, results)


def _answer(taken: list[tuple[Item, asyncio.Future[Result]]], results: Sequence[Result | Exception]) -> None:
    for (_, answer), result in zip(taken, results, strict=True):
        if answer.done():
            continue  # The caller has left.
        if isinstance(result, Exception):
            answer.set_exception(result)
        else:
            answer.set_result(result)

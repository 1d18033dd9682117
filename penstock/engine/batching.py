"""Natural batching: requests that arrive while a statement is in flight share the next one.

There is no timer unless a linger is asked for. An idle batcher passes a lone request straight on; a busy
one grows its batches exactly as far as the database makes it wait.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Any, Generic, TypeVar

from penstock.engine.answers import Answer
from penstock.errors import Unavailable

Item = TypeVar("Item")
Result = TypeVar("Result")

Flush = Callable[[Sequence[Item]], Awaitable[Sequence[Result]]]


class Batcher(Generic[Item, Result]):
    """Joins the items of many callers into few calls of `flush`, which answers one result per item.

    `linger_s` holds a batch open that long after its first item. `enabled=False` gives every caller a call
    of its own. `observe` is told the size of each batch. `abandoned` is handed what was answered to a caller
    who has cancelled meanwhile.
    """

    def __init__(
        self,
        flush: Flush[Item, Result],
        *,
        limit: int = 1000,
        enabled: bool = True,
        linger_s: float = 0.0,
        observe: Callable[[int], None] | None = None,
        abandoned: Callable[[Sequence[Item], Sequence[Result]], None] | None = None,
    ) -> None:
        self._flush = flush
        self._limit = limit
        self._enabled = enabled
        self._linger_s = linger_s
        self._observe = observe
        self._abandoned = abandoned
        self._waiting: deque[tuple[Sequence[Item], Answer[Sequence[Result]]]] = deque()
        self._runner: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def idle(self) -> bool:
        return self._runner is None and not self._waiting

    def submit(self, items: Sequence[Item]) -> Answer[Sequence[Result]]:
        """One result per item, in order. The items of one call stay together in one batch."""
        answer: Answer[Sequence[Result]] = Answer()
        if not self._enabled:
            task = asyncio.get_running_loop().create_task(self._call([(items, answer)]))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            return answer
        self._waiting.append((items, answer))
        if self._runner is None:
            self._runner = asyncio.get_running_loop().create_task(self._run())
        return answer

    async def drain(self) -> None:
        """Return when everything submitted so far has been answered."""
        if self._runner is not None:
            await self._runner
        await asyncio.gather(*self._tasks)

    async def _run(self) -> None:
        try:
            while self._waiting:
                if self._linger_s:
                    await asyncio.sleep(self._linger_s)
                await self._call(self._take())
        finally:
            self._runner = None

    def _take(self) -> list[tuple[Sequence[Item], Answer[Sequence[Result]]]]:
        waiting = self._waiting
        if len(waiting) <= self._limit and sum([len(items) for items, _ in waiting]) <= self._limit:
            batch = list(waiting)
            waiting.clear()
            return batch
        batch = [waiting.popleft()]
        size = len(batch[0][0])
        while waiting and size + len(waiting[0][0]) <= self._limit:
            batch.append(waiting.popleft())
            size += len(batch[-1][0])
        return batch

    async def _call(self, batch: list[tuple[Sequence[Item], Answer[Sequence[Result]]]]) -> None:
        if len(batch) == 1:
            items: Sequence[Item] = batch[0][0]
        else:
            items = [item for group, _ in batch for item in group]
        if self._observe is not None:
            self._observe(len(items))
        try:
            results = await self._flush(items)
        except Exception as error:
            await self._fail(batch, error)
            return
        start = 0
        for group, answer in batch:
            end = start + len(group)
            part = results[start:end] if len(batch) > 1 else results
            if not answer.done():
                answer.set_result(part)
            elif self._abandoned is not None:
                self._abandoned(group, part)
            start = end

    async def _fail(self, batch: list[tuple[Sequence[Item], Answer[Sequence[Result]]]], error: Exception) -> None:
        # The shared statement was rolled back whole. Unless the database is away, one caller's oddity must
        # not fail its neighbours: each is tried alone, and only the odd one sees the error.
        if len(batch) == 1 or isinstance(error, Unavailable):
            for _, answer in batch:
                if not answer.done():
                    answer.set_exception(error)
            return
        for single in batch:
            await self._call([single])


class KeyedBatchers(Generic[Item, Result]):
    """One shared batcher, and batchers of their own for keys that may have to wait for someone's lock.

    A FIFO send waits for the transaction that holds its group; it must not make other queues wait too.
    """

    def __init__(self, make: Callable[[], Batcher[Item, Result]]) -> None:
        self._make = make
        self._shared = make()
        self._batchers: dict[Hashable, Batcher[Item, Result]] = {}

    def submit(self, items: Sequence[Item], key: Hashable = None) -> Answer[Sequence[Result]]:
        if key is None:
            return self._shared.submit(items)
        batcher = self._batchers.get(key)
        if batcher is None:
            if len(self._batchers) > 1000:
                self._batchers = {each: kept for each, kept in self._batchers.items() if not kept.idle}
            batcher = self._batchers[key] = self._make()
        return batcher.submit(items)

    async def drain(self) -> None:
        await self._shared.drain()
        for batcher in list(self._batchers.values()):
            await batcher.drain()


class MixedBatcher:
    """Joins items of several kinds into shared calls of `flush`: one statement and one commit serve all kinds.

    `flush` takes a list of items for each kind and answers a list of results for each. One call at a time runs, until
    `CROWD` callers wait or the call lasts longer than `SLOW_S`: then another one starts beside it, up to `parallel`.
    """

    CROWD = 24
    SLOW_S = 0.005

    def __init__(
        self,
        flush: Callable[[list[list[Any]]], Awaitable[Sequence[Sequence[Any]]]],
        kinds: int,
        *,
        limit: int = 1000,
        parallel: int = 4,
        abandoned: Callable[[int, Sequence[Any], Sequence[Any]], None] | None = None,
    ) -> None:
        self._flush = flush
        self._kinds = kinds
        self._limit = limit
        self._parallel = parallel
        self._abandoned = abandoned
        self._waiting: deque[_Entry] = deque()
        self._runners: dict[asyncio.Task[None], float] = {}
        """When the call of each began; infinity before it does."""
        self._slow: set[asyncio.Task[None]] = set()
        """Those whose call takes long: they hold up nobody else."""
        self._timer: asyncio.TimerHandle | None = None

    def submit(self, kind: int, items: Sequence[Any]) -> Answer[Sequence[Any]]:
        """One result per item, in order. The items of one call stay together in one batch."""
        answer: Answer[Sequence[Any]] = Answer()
        waiting, runners = self._waiting, self._runners
        waiting.append((kind, items, answer))
        if not runners or (len(waiting) >= self.CROWD and len(runners) < self._parallel):
            self._start()
        elif self._timer is None and self._parallel > 1:
            self._timer = asyncio.get_running_loop().call_later(self.SLOW_S, self._look_for_slow)
        return answer

    async def drain(self) -> None:
        """Return when everything submitted so far has been answered."""
        while self._runners:
            await asyncio.wait(list(self._runners))

    def _start(self) -> None:
        task = asyncio.get_running_loop().create_task(self._run())
        self._runners[task] = float("inf")

    def _look_for_slow(self) -> None:
        """A statement may wait for somebody's lock: the others go on without it."""
        self._timer = None
        if not self._waiting:
            return
        loop = asyncio.get_running_loop()
        before = loop.time() - self.SLOW_S
        self._slow.update(task for task, began in self._runners.items() if began < before)
        if len(self._slow) == len(self._runners) < self._parallel:
            self._start()
        self._timer = loop.call_later(self.SLOW_S, self._look_for_slow)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        task = asyncio.current_task()
        assert task is not None
        try:
            while self._waiting and (len(self._waiting) >= self.CROWD or len(self._runners) - len(self._slow) <= 1):
                self._runners[task] = loop.time()
                await self._call(self._take())
                self._slow.discard(task)
        finally:
            self._slow.discard(task)
            del self._runners[task]

    def _take(self) -> list[_Entry]:
        waiting = self._waiting
        if len(waiting) <= self._limit and sum([len(entry[1]) for entry in waiting]) <= self._limit:
            batch = list(waiting)
            waiting.clear()
            return batch
        batch = [waiting.popleft()]
        size = len(batch[0][1])
        while waiting and size + len(waiting[0][1]) <= self._limit:
            batch.append(waiting.popleft())
            size += len(batch[-1][1])
        return batch

    async def _call(self, batch: list[_Entry]) -> None:
        parts: list[list[Any]] = [[] for _ in range(self._kinds)]
        for kind, items, _ in batch:
            parts[kind].extend(items)
        try:
            results = await self._flush(parts)
        except Exception as error:
            await self._fail(batch, error)
            return
        starts = [0] * self._kinds
        for kind, items, answer in batch:
            start = starts[kind]
            starts[kind] = end = start + len(items)
            part = results[kind][start:end]
            if not answer.done():
                answer.set_result(part)
            elif self._abandoned is not None:
                self._abandoned(kind, items, part)

    async def _fail(self, batch: list[_Entry], error: Exception) -> None:
        # As in Batcher: the statement was rolled back whole, and only the one at fault gets the error.
        if len(batch) == 1 or isinstance(error, Unavailable):
            for _, _, answer in batch:
                if not answer.done():
                    answer.set_exception(error)
            return
        for single in batch:
            await self._call([single])


_Entry = tuple[int, Sequence[Any], Answer[Sequence[Any]]]
"""The kind, the items, and what their caller waits for."""

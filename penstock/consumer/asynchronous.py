"""The consumer for asyncio: it performs the same steps as the one for threads, and its handlers are coroutines."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from inspect import isawaitable
from typing import Any, Unpack

import psycopg

from penstock.consumer import calls, protocol
from penstock.consumer.messages import DONE, Fate, Message, Verdict
from penstock.consumer.options import Options
from penstock.consumer.protocol import Lost, Seen, Source, Step
from penstock.consumer.sync import STOPPERS
from penstock.consumer.worker import Worker, failure, log, traced
from penstock.errors import LeaseStale


class AsyncWorker(Worker):
    """Consumes from one or more sources, in the task that awaits `start`."""

    def __init__(self, dsn: str, sources: Sequence[Source], options: Options) -> None:
        super().__init__(dsn, sources, options)
        self._stopping = asyncio.Event()
        self._connection: psycopg.AsyncConnection[Any] | None = None
        self._transaction: AbstractAsyncContextManager[psycopg.AsyncTransaction] | None = None

    async def start(self) -> None:
        """Consume until `stop`, SIGTERM or SIGINT; the batch under way is finished first."""
        plan = self._plan()
        with self._signals(), self._beating():
            try:
                await self._drive(protocol.consume(plan))
            finally:
                await self._close()
                self._stopping.clear()
                self._looked_at = None

    def stop(self) -> None:
        """From the same event loop, and from a handler."""
        self._stopping.set()

    async def _drive(self, steps: protocol.Steps) -> None:
        try:
            step = next(steps)
            while True:
                try:
                    answer = await self._perform(step)
                except (psycopg.Error, Lost) as error:
                    step = steps.throw(await self._lost(error))
                else:
                    step = steps.send(answer)
        except StopIteration:
            pass

    async def _lost(self, error: psycopg.Error | Lost) -> Lost:
        meant = calls.translate(error) if isinstance(error, psycopg.Error) else error
        if not isinstance(meant, Lost):
            raise meant from error
        log.warning("the connection was lost: %s", " ".join(str(error).split()))
        await self._close()
        return meant

    async def _perform(self, step: Step) -> Any:
        match step:
            case protocol.Connect():
                await self._connect()
            case protocol.Look():
                self._heard, self._looked_at = False, time.monotonic()
                return Seen(asyncio.get_running_loop().time(), self._stopping.is_set())
            case protocol.Fetch():
                return await self._fetch(step)
            case protocol.Tick():
                return await self._tick()
            case protocol.Wait():
                return await self._wait(step.seconds)
            case protocol.Pause():
                await _until(self._stopping, step.seconds)
            case protocol.Run():
                return await self._run(step)
            case protocol.Settle():
                return await self._settle(step)
            case protocol.Begin():
                self._transaction = self._open.transaction()
                await self._transaction.__aenter__()
            case protocol.Commit() | protocol.Rollback():
                await self._end(commit=isinstance(step, protocol.Commit))
        return None

    # The connection

    @property
    def _open(self) -> psycopg.AsyncConnection[Any]:
        assert self._connection is not None, "the middle connects first"
        return self._connection

    async def _connect(self) -> None:
        values = calls.connection_values(self._dsn, self._name)
        self._connection = await psycopg.AsyncConnection.connect(autocommit=True, **values)
        self._connection.add_notify_handler(self._hear)
        for call in calls.opening(self._sources, self._options):
            await self._connection.execute(*call)

    async def _close(self) -> None:
        if self._connection is not None:
            await self._connection.close()
        self._connection = self._transaction = None

    async def _end(self, *, commit: bool) -> None:
        assert self._transaction is not None, "the middle begins first"
        ending, self._transaction = self._transaction, None
        if commit:
            await ending.__aexit__(None, None, None)
        else:
            undo = psycopg.Rollback()
            await ending.__aexit__(type(undo), undo, None)

    # Messages

    async def _fetch(self, step: protocol.Fetch) -> list[Message]:
        rows: list[Any] = []
        for call in calls.fetching(step, self._options):
            rows = await (await self._open.execute(*call)).fetchall()
            if calls.nothing(rows):
                return []
        return self._received(step.source, calls.messages(step.source, rows))

    async def _tick(self) -> bool:
        made = [await (await self._open.execute(*calls.ticking(source))).fetchone() for source in self._sources]
        return any(row is not None and row[0] is not None for row in made)

    async def _settle(self, step: protocol.Settle) -> bool:
        row: Any = None
        try:
            for call in calls.settling(step, self._options):
                row = await (await self._open.execute(*call)).fetchone()
        except psycopg.Error as error:
            if not isinstance(calls.translate(error), LeaseStale):
                raise
            row = [0]
        if not row[0]:
            log.warning("the batch was settled by another process", extra={"queue": step.source.queue})
        return bool(row[0])

    # Handlers

    async def _run(self, step: protocol.Run) -> dict[int, Verdict]:
        if step.in_transaction or self._options.concurrency == 1:
            # One after the other for certain: after the first that finds the connection lost, no other is called.
            run = self._call_in_transaction if step.in_transaction else self._call
            return dict([pair for sequence in step.sequences for pair in await _in_turn(sequence, run)])
        slots = asyncio.Semaphore(self._options.concurrency)

        async def one(sequence: list[Message]) -> list[tuple[int, Verdict]]:
            async with slots:
                return await _in_turn(sequence, self._call)

        found = await asyncio.gather(*map(one, step.sequences))
        return {number: verdict for sequence in found for number, verdict in sequence}

    async def _call(self, message: Message) -> Verdict:
        handler = self._handlers.find(message)
        if handler is None:
            return self._judge_unhandled(message)
        try:
            with traced(message, self._consumer_of(message)):
                result = handler.call(message, self._open) if handler.transactional else handler.call(message)
                if isawaitable(result):
                    await result
        except Exception as error:
            return failure(message, error)
        return message.verdict

    async def _call_in_transaction(self, message: Message) -> Verdict:
        """What a message that failed has written is undone; what it takes with it to the dead letters is not."""
        verdict = DONE
        async with self._open.transaction() as savepoint:
            verdict = calls.in_transaction(self._open, message, await self._call(message))
            if verdict.rolls_back:
                raise psycopg.Rollback(savepoint)
        return verdict

    # Waiting

    async def _wait(self, seconds: float) -> bool:
        loop, woken = asyncio.get_running_loop(), asyncio.Event()
        stopped = asyncio.create_task(self._stopping.wait())
        stopped.add_done_callback(lambda _: woken.set())
        loop.add_reader(self._open.fileno(), woken.set)
        try:
            if not self._heard:
                await _until(woken, seconds)
        finally:
            loop.remove_reader(self._open.fileno())
            stopped.cancel()
        if not woken.is_set() and not self._heard:
            return False
        # Whatever was said, the streams are looked at next; read, so that it does not end the next wait too.
        calls.listen(self._open.pgconn)
        return True

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """The first signal stops in good order; a second one does what it did before.

        Outside the main thread, and where an event loop takes no signals, it is for others to call `stop`.
        """
        loop = asyncio.get_running_loop()

        def restore() -> None:
            for number in STOPPERS:
                loop.remove_signal_handler(number)

        def on_signal() -> None:
            restore()
            self.stop()

        with suppress(ValueError, NotImplementedError, RuntimeError):
            for number in STOPPERS:
                loop.add_signal_handler(number, on_signal)
        try:
            yield
        finally:
            restore()


async def _in_turn(sequence: list[Message], run: Callable[[Message], Awaitable[Verdict]]) -> list[tuple[int, Verdict]]:
    found: list[tuple[int, Verdict]] = []
    for message in sequence:
        verdict = await run(message)
        found.append((message.msg_id, verdict))
        if verdict.fate is Fate.RETRY:
            break
    return found


async def _until(event: asyncio.Event, seconds: float) -> None:
    with suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), seconds)


class AsyncConsumer(AsyncWorker):
    """Consumes one stream under one name; the handlers are coroutine functions."""

    def __init__(self, dsn: str, queue: str, name: str, **options: Unpack[Options]) -> None:
        super().__init__(dsn, [Source(queue, name)], options)

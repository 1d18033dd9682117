"""The consumer for threads: it performs the steps of the middle on one psycopg connection."""

from __future__ import annotations

import selectors
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, Unpack

import psycopg

from penstock.consumer import calls, protocol
from penstock.consumer.messages import DONE, Fate, Message, Verdict
from penstock.consumer.options import Options
from penstock.consumer.protocol import Lost, Seen, Source, Step
from penstock.consumer.worker import Worker, failure, log, traced
from penstock.errors import LeaseStale

STOPPERS = (signal.SIGTERM, signal.SIGINT)


class SyncWorker(Worker):
    """Consumes from one or more sources, in the thread that calls `start`."""

    def __init__(self, dsn: str, sources: Sequence[Source], options: Options) -> None:
        super().__init__(dsn, sources, options)
        self._stopping = threading.Event()
        self._waker: tuple[socket.socket, socket.socket] | None = None
        self._connection: psycopg.Connection[Any] | None = None
        self._transaction: AbstractContextManager[psycopg.Transaction] | None = None

    def start(self) -> None:
        """Consume until `stop`, SIGTERM or SIGINT; the batch under way is finished first."""
        plan = self._plan()
        with self._signals(), self._wakeable(), self._beating():
            try:
                self._drive(protocol.consume(plan))
            finally:
                self._close()
                self._stopping.clear()
                self._looked_at = None

    def stop(self) -> None:
        """From any thread, and from a handler."""
        self._stopping.set()
        waker = self._waker
        if waker is not None:
            # It may end by itself at this very moment.
            with suppress(OSError):
                waker[1].send(b"!")

    def _drive(self, steps: protocol.Steps) -> None:
        try:
            step = next(steps)
            while True:
                try:
                    answer = self._perform(step)
                except (psycopg.Error, Lost) as error:
                    step = steps.throw(self._lost(error))
                else:
                    step = steps.send(answer)
        except StopIteration:
            pass

    def _lost(self, error: psycopg.Error | Lost) -> Lost:
        meant = calls.translate(error) if isinstance(error, psycopg.Error) else error
        if not isinstance(meant, Lost):
            raise meant from error
        log.warning("the connection was lost: %s", " ".join(str(error).split()))
        self._close()
        return meant

    def _perform(self, step: Step) -> Any:
        match step:
            case protocol.Connect():
                self._connect()
            case protocol.Look():
                self._heard, self._looked_at = False, time.monotonic()
                return Seen(time.monotonic(), self._stopping.is_set())
            case protocol.Fetch():
                return self._fetch(step)
            case protocol.Tick():
                return self._tick()
            case protocol.Wait():
                return self._wait(step.seconds)
            case protocol.Pause():
                self._stopping.wait(step.seconds)
            case protocol.Run():
                return self._run(step)
            case protocol.Settle():
                return self._settle(step)
            case protocol.Begin():
                self._transaction = self._open.transaction()
                self._transaction.__enter__()
            case protocol.Commit() | protocol.Rollback():
                self._end(commit=isinstance(step, protocol.Commit))
        return None

    # The connection

    @property
    def _open(self) -> psycopg.Connection[Any]:
        assert self._connection is not None, "the middle connects first"
        return self._connection

    def _connect(self) -> None:
        self._connection = psycopg.connect(autocommit=True, **calls.connection_values(self._dsn, self._name))
        self._connection.add_notify_handler(self._hear)
        for call in calls.opening(self._sources, self._options):
            self._connection.execute(*call)

    def _close(self) -> None:
        # Closing ends a transaction by rolling it back; there is nothing to say goodbye to.
        if self._connection is not None:
            self._connection.close()
        self._connection = self._transaction = None

    def _end(self, *, commit: bool) -> None:
        assert self._transaction is not None, "the middle begins first"
        ending, self._transaction = self._transaction, None
        if commit:
            ending.__exit__(None, None, None)
        else:
            undo = psycopg.Rollback()
            ending.__exit__(type(undo), undo, None)

    # Messages

    def _fetch(self, step: protocol.Fetch) -> list[Message]:
        rows: list[Any] = []
        for call in calls.fetching(step, self._options):
            rows = self._open.execute(*call).fetchall()
            if calls.nothing(rows):
                return []
        return self._received(step.source, calls.messages(step.source, rows))

    def _tick(self) -> bool:
        made = [self._open.execute(*calls.ticking(source)).fetchone() for source in self._sources]
        return any(row is not None and row[0] is not None for row in made)

    def _settle(self, step: protocol.Settle) -> bool:
        row: Any = None
        try:
            for call in calls.settling(step, self._options):
                row = self._open.execute(*call).fetchone()
        except psycopg.Error as error:
            if not isinstance(calls.translate(error), LeaseStale):
                raise
            row = [0]
        if not row[0]:
            log.warning("the batch was settled by another process", extra={"queue": step.source.queue})
        return bool(row[0])

    # Handlers

    def _run(self, step: protocol.Run) -> dict[int, Verdict]:
        run: Callable[[Message], Verdict] = self._call_in_transaction if step.in_transaction else self._call
        if self._options.concurrency == 1 or len(step.sequences) == 1:
            return {number: verdict for sequence in step.sequences for number, verdict in _in_turn(sequence, run)}
        with ThreadPoolExecutor(self._options.concurrency, "penstock") as pool:
            found = list(pool.map(lambda sequence: list(_in_turn(sequence, run)), step.sequences))
        return {number: verdict for sequence in found for number, verdict in sequence}

    def _call(self, message: Message) -> Verdict:
        handler = self._handlers.find(message)
        if handler is None:
            return self._judge_unhandled(message)
        try:
            with traced(message, self._consumer_of(message)):
                handler.call(message, self._open) if handler.transactional else handler.call(message)
        except Exception as error:
            return failure(message, error)
        return message.verdict

    def _call_in_transaction(self, message: Message) -> Verdict:
        """What a message that failed has written is undone; what it takes with it to the dead letters is not."""
        verdict = DONE
        with self._open.transaction() as savepoint:
            verdict = calls.in_transaction(self._open, message, self._call(message))
            if verdict.rolls_back:
                raise psycopg.Rollback(savepoint)
        return verdict

    # Waiting

    def _wait(self, seconds: float) -> bool:
        assert self._waker is not None
        ready: list[Any] = []
        if not self._heard:
            with selectors.DefaultSelector() as selector:
                selector.register(self._open.fileno(), selectors.EVENT_READ)
                selector.register(self._waker[0], selectors.EVENT_READ)
                ready = selector.select(seconds)
        if not ready and not self._heard:
            return False
        # Whatever was said, the streams are looked at next; read, so that it does not end the next wait too.
        calls.listen(self._open.pgconn)
        return True

    @contextmanager
    def _wakeable(self) -> Iterator[None]:
        """A stop must end a wait for the database, which only something to read can."""
        ends = self._waker = socket.socketpair()
        try:
            yield
        finally:
            self._waker = None
            for end in ends:
                end.close()

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """The first signal stops in good order; a second one does what it did before."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.getsignal(number) for number in STOPPERS}

        def on_signal(*_: object) -> None:
            restore()
            self.stop()

        def restore() -> None:
            for number, handler in before.items():
                signal.signal(number, handler)

        for number in STOPPERS:
            signal.signal(number, on_signal)
        try:
            yield
        finally:
            restore()


def _in_turn(sequence: list[Message], run: Callable[[Message], Verdict]) -> Iterator[tuple[int, Verdict]]:
    for message in sequence:
        verdict = run(message)
        yield message.msg_id, verdict
        if verdict.fate is Fate.RETRY:
            return


class Consumer(SyncWorker):
    """Consumes one stream under one name."""

    def __init__(self, dsn: str, queue: str, name: str, **options: Unpack[Options]) -> None:
        super().__init__(dsn, [Source(queue, name)], options)

"""A worker: leases jobs, runs their tasks, keeps the leases alive meanwhile, and reports what came of them."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
import os
import signal
import socket
import uuid
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, TypeVar, overload

from penstock import errors, tracing
from penstock.client import tasks
from penstock.client.address import address
from penstock.client.api.jobs import LeasedJob
from penstock.client.async_client import AsyncClient
from penstock.client.exchange import Call, Retries
from penstock.client.heartbeats import Heartbeats
from penstock.client.job_calls import AsyncJobs
from penstock.client.running import Lease, RunningJob
from penstock.client.tasks import Dead, Retry, Tasks
from penstock.client.transport import AsyncHttpTransport, AsyncTransport

log = logging.getLogger("penstock.worker")

Function = TypeVar("Function", bound=Callable[..., Any])
Result = TypeVar("Result")

LARGEST_LEASE = 100
PATIENT = Retries(attempts=8, base_s=0.2)
"""An outcome is worth waiting for: without it the work is done again."""
LEASE_ATTEMPTS = 2
"""A request for jobs is repeated once in silence, for a connection that was closed meanwhile; then people are told."""
CANCEL_S = 5.0
"""How long a task that was cancelled may take to clean up."""


class Worker:
    """Runs the jobs of one queue, up to `concurrency` at a time.

    Jobs are leased for `lease_s` seconds and renewed at every third of that. A task that is a coroutine is cancelled
    when its lease is lost; one that is a plain function runs in a thread and learns of it from `job.check()`.
    """

    def __init__(
        self,
        url: str | None,
        token: str | None,
        queue: str,
        *,
        concurrency: int = 10,
        lease_s: int = 30,
        poll_s: float = 20.0,
        grace_s: float = 30.0,
        name: str | None = None,
        tasks: Tasks | None = None,
        transport: AsyncTransport | None = None,
    ) -> None:
        self.queue = queue
        self.name = name or f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:6]}"
        self._address = (url, token)
        self._given_transport = transport
        self._concurrency = concurrency
        self._lease_s = lease_s
        self._poll_s = poll_s
        self._grace_s = grace_s
        self._tasks = Tasks() if tasks is None else tasks
        self._held: dict[str, RunningJob] = {}
        self._running: dict[str, asyncio.Task[None]] = {}
        self._settling: set[asyncio.Task[None]] = set()
        self._stop_asked = False
        self._loop: asyncio.AbstractEventLoop | None = None

    def __repr__(self) -> str:
        return f"<Worker {self.name} of queue {self.queue}>"

    # Tasks

    @overload
    def task(self, given: Function) -> Function: ...
    @overload
    def task(self, given: str | None = None) -> Callable[[Function], Function]: ...
    def task(self, given: Function | str | None = None) -> Function | Callable[[Function], Function]:
        """Have a function run jobs: `@worker.task` under its own name, `@worker.task("name")` under that one.

        It is called with the `RunningJob`. What it returns is kept as the result of the job.
        """

        def register(function: Function) -> Function:
            self._tasks.add(given if isinstance(given, str) else function.__name__, function)
            return function

        return register if given is None or isinstance(given, str) else register(given)

    # Life

    def run(self, *, drain: bool = False) -> None:
        """Work until told to stop by SIGTERM, SIGINT or `stop()`; with `drain`, until no job is left to lease."""
        asyncio.run(self._run_with_signals(drain))

    async def serve(self, *, drain: bool = False) -> None:
        """The same inside a running event loop, which keeps its own signals."""
        if not self._tasks:
            raise ValueError("the worker has no task")
        self._loop = asyncio.get_running_loop()
        self._stopping, self._hurried, self._ended = asyncio.Event(), asyncio.Event(), asyncio.Event()
        if self._stop_asked:
            self._stopping.set()
        self._threads = ThreadPoolExecutor(self._concurrency, "penstock") if self._tasks.any_blocks else None
        transport = self._given_transport or AsyncHttpTransport(*address(*self._address))
        self._client = AsyncClient(transport=transport, retries=PATIENT)
        self._leasing = AsyncJobs(transport, replace(PATIENT, attempts=LEASE_ATTEMPTS))
        self._heartbeats = Heartbeats(self._held, transport, self._lease_s, self._lose)
        beating = asyncio.create_task(self._heartbeats.run())
        try:
            await self._lease_and_start(drain)
        finally:
            await self._wind_up()
            beating.cancel()
            await asyncio.gather(beating, return_exceptions=True)
            await self._client.close()
            if self._threads is not None:
                self._threads.shutdown(wait=False, cancel_futures=True)
            self._loop = None

    def stop(self) -> None:
        """Lease no more, finish what is under way, return. May be called from any thread. The second call gives
        what is under way no more time."""
        again, self._stop_asked = self._stop_asked, True
        if again:
            self._grace_s = 0.0
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._hurry if again else self._stopping.set)

    async def _run_with_signals(self, drain: bool) -> None:
        stop_on_signals(self.stop)
        await self.serve(drain=drain)

    # Leasing

    async def _lease_and_start(self, drain: bool) -> None:
        trouble = 0
        while not self._stopping.is_set():
            free = self._free()
            if free <= 0:
                await self._a_job_ended()
                continue
            # What is under way may fail, and be there again: only a look that began with none under way is the last.
            last = drain and not self._held
            try:
                found = await self._lease(free, wait=not drain)
                trouble = 0
            except errors.PenstockError as error:
                if not _may_pass(error):
                    raise
                trouble += 1
                asked_s = error.retry_after_s if isinstance(error, errors.RateLimited) else 0.0
                pause_s = max(PATIENT.pause_s(trouble), min(asked_s, PATIENT.cap_s))
                log.warning("cannot lease jobs of %s, trying again in %.1f s: %s", self.queue, pause_s, error)
                await self._unless_stopped(asyncio.sleep(pause_s))
                continue
            for leased in found:
                self._start(leased)
            if last and not found:
                return
            if drain and not found and self._held:
                await self._a_job_ended()

    def _free(self) -> int:
        """Jobs whose outcome is being reported need no slot, but their number is bounded."""
        return min(self._concurrency - len(self._running), 2 * self._concurrency - len(self._held), LARGEST_LEASE)

    async def _lease(self, limit: int, *, wait: bool) -> list[LeasedJob]:
        wait_s = self._poll_s if wait else 0.0
        asked = self._leasing.lease(self.queue, self.name, max=limit, lease_seconds=self._lease_s, wait=wait_s)
        return await self._unless_stopped(asked) or []

    async def _a_job_ended(self) -> None:
        self._ended.clear()
        await self._unless_stopped(self._ended.wait())

    async def _unless_stopped(self, wanted: Coroutine[Any, Any, Result]) -> Result | None:
        """What is wanted, or None as soon as we are to stop."""
        task = asyncio.ensure_future(wanted)
        stopping = asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait({task, stopping}, return_when=asyncio.FIRST_COMPLETED)
            return task.result() if task.done() else None
        finally:
            stopping.cancel()
            task.cancel()

    # Running

    def _start(self, leased: LeasedJob) -> None:
        assert self._loop is not None
        # Counted from the answer, since a long poll may have begun much earlier; the first heartbeat is exact.
        job = RunningJob(leased, Lease(self._lease_s, self._loop.time()), self._heartbeats.wake)
        self._held[job.token] = job
        task = self._running[job.token] = self._loop.create_task(self._attempt(job))
        task.add_done_callback(lambda _: self._attempted(job))

    async def _attempt(self, job: RunningJob) -> None:
        try:
            outcome = tasks.success(job.leased, await self._call(job))
        except asyncio.CancelledError:
            outcome = tasks.failure(job.leased, Retry("the worker was stopped", after=0))
        except (Retry, Dead) as error:
            outcome = tasks.failure(job.leased, error)
        except Exception as error:
            log.warning("job %s failed", job.id, exc_info=error)
            outcome = tasks.failure(job.leased, error)
        if not job.is_lost:
            job.is_settled = True
            settling = asyncio.create_task(self._settle(job, outcome))
            self._settling.add(settling)
            settling.add_done_callback(self._settling.discard)

    async def _call(self, job: RunningJob) -> Any:
        if job.job.unreadable is not None:
            raise Dead(f"this worker cannot read the {job.job.unreadable}")
        task = self._tasks.find(job.payload)
        about = {"messaging.message.id": job.id}
        parent = tracing.TraceContext.parse(job.leased.traceparent)
        try:
            async with asyncio.timeout(task.timeout_s) as limit:
                with tracing.processing(self.queue, parent, about):
                    if not task.blocks:
                        return await task.function(job)
                    assert self._loop is not None
                    job.in_thread = True
                    # The thread is in the same trace.
                    context = contextvars.copy_context()
                    return await self._loop.run_in_executor(self._threads, context.run, task.function, job)
        except TimeoutError:
            if not limit.expired():
                raise
            raise TimeoutError(f"the task did not end within {task.timeout_s} s") from None

    def _attempted(self, job: RunningJob) -> None:
        del self._running[job.token]
        if not job.is_settled:
            self._held.pop(job.token, None)
        self._ended.set()

    async def _settle(self, job: RunningJob, outcome: Call[Any]) -> None:
        try:
            await self._tell(job, outcome)
        except (errors.Conflict, errors.NotFound):
            log.warning("job %s lost its lease before it ended; its outcome was refused", job.id)
        except errors.PenstockError as error:
            log.error("cannot report the outcome of job %s: %s", job.id, error)
        finally:
            self._held.pop(job.token, None)
            self._ended.set()

    async def _tell(self, job: RunningJob, outcome: Call[Any]) -> None:
        try:
            await self._client.jobs.ask(outcome)
        except errors.Invalid as error:
            # A result that is too large, for example. The job must not hang until its lease ends, and its owner
            # should read why.
            await self._client.jobs.ask(tasks.failure(job.leased, Dead(f"the outcome was refused: {error}")))

    def _lose(self, job: RunningJob) -> None:
        log.warning("the lease of job %s is lost", job.id)
        job.is_lost = True
        task = self._running.get(job.token)
        # A thread cannot be stopped from outside: its function asks job.check(), or works on in vain.
        if task is not None and not job.in_thread:
            task.cancel()

    # Stopping

    def _hurry(self) -> None:
        self._stopping.set()
        self._hurried.set()

    async def _wind_up(self) -> None:
        """Let what is under way end by itself for a while; then cancel it and give the jobs back."""
        if self._running:
            hurried = asyncio.create_task(self._hurried.wait())
            ended = asyncio.create_task(_all(self._running.values()))
            await asyncio.wait({hurried, ended}, timeout=self._grace_s, return_when=asyncio.FIRST_COMPLETED)
            hurried.cancel()
            ended.cancel()
        for token, task in list(self._running.items()):
            job = self._held[token]
            # The thread of a function that blocks works on, so its job is not given back: the lease has to run out.
            job.is_lost = job.is_lost or job.in_thread
            task.cancel()
        if self._running:
            await asyncio.wait(self._running.values(), timeout=CANCEL_S)
        if self._settling:
            await asyncio.wait(self._settling)


def stop_on_signals(stop: Callable[[], None]) -> None:
    """Call this for SIGTERM and SIGINT, in the running event loop."""
    loop = asyncio.get_running_loop()
    with contextlib.suppress(ValueError, RuntimeError, NotImplementedError):  # Not in the main thread, or Windows.
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop)


async def _all(running: Iterable[asyncio.Task[None]]) -> None:
    await asyncio.wait(running)


def _may_pass(error: errors.PenstockError) -> bool:
    """Whether to ask again later: also after a fault of the server, which need not last as long as a worker runs."""
    return isinstance(error, errors.Unavailable | errors.RateLimited) or type(error) is errors.PenstockError

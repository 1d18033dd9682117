"""Tasks: functions that run as jobs, as in Celery. `penstock worker module:app` runs them."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Generic, ParamSpec, TypeVar, Unpack, overload

from penstock.client.address import address
from penstock.client.api.jobs import JobLimits
from penstock.client.api.new_jobs import JobOptions, NewJob
from penstock.client.api.schedules import Schedule, TimetableOptions
from penstock.client.client import Client
from penstock.client.running import RunningJob
from penstock.client.tasks import Dead, Tasks
from penstock.client.worker import Worker, stop_on_signals

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

_current: contextvars.ContextVar[RunningJob] = contextvars.ContextVar("penstock_job")


def current_job() -> RunningJob:
    """The job that the calling task runs for: its id, its attempt, `progress(...)` and `check()`."""
    try:
        return _current.get()
    except LookupError:
        raise RuntimeError("no job is running here: current_job() is for tasks that a worker runs") from None


class TaskFunction(Generic[Parameters, Result]):
    """A function that can be enqueued. Calling it runs it here and now, as if it were not decorated."""

    def __init__(
        self, app: App, function: Callable[Parameters, Result], name: str, queue: str, options: JobOptions
    ) -> None:
        functools.update_wrapper(self, function)
        self.name = name
        self.queue = queue
        self._app = app
        self._function = function
        self._options = options

    def __call__(self, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        return self._function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<task {self.name} of queue {self.queue}>"

    def options(self, **options: Unpack[JobOptions]) -> TaskFunction[Parameters, Result]:
        """The same task with other options for the jobs that are enqueued: `priority`, `run_at`, `after` and so on."""
        _check_names(options, JobOptions.__annotations__)
        merged: JobOptions = {**self._options, **options}
        return TaskFunction(self._app, self._function, self.name, self.queue, merged)

    def job(self, *args: Parameters.args, **kwargs: Parameters.kwargs) -> NewJob:
        """A call of the task as a job to enqueue: for `app.chain`, `app.group` and `client.jobs.enqueue_many`."""
        inspect.signature(self._function).bind(*args, **kwargs)
        payload: dict[str, Any] = {"task": self.name}
        if args:
            payload["args"] = list(args)
        if kwargs:
            payload["kwargs"] = kwargs
        return NewJob(self.queue, payload, **self._options)

    def enqueue(self, *args: Parameters.args, **kwargs: Parameters.kwargs) -> str:
        """Have a worker call the function with these arguments, which must be JSON; the id of the job."""
        return self._app.enqueue_jobs([self.job(*args, **kwargs)])[0]

    def enqueue_many(self, calls: Iterable[Sequence[Any] | Mapping[str, Any]]) -> Sequence[str]:
        """Enqueue many calls at once, each a sequence of arguments or a mapping of named ones; the ids."""
        made = [self.job(**each) if isinstance(each, Mapping) else self.job(*each) for each in calls]  # type: ignore[call-arg]
        return self._app.enqueue_jobs(made)

    def schedule(
        self, name: str, *, kwargs: Mapping[str, Any] | None = None, **times: Unpack[TimetableOptions]
    ) -> Schedule:
        """Enqueue the task by a timetable: one of `cron`, `every`, `when` and `fire_at`. Replaces a schedule of this
        name."""
        payload = self.job(**(kwargs or {})).payload  # type: ignore[call-arg]
        return self._app.client.schedules.put(name, self.queue, target_kind="job", message=payload, **times)


class App:
    """A set of tasks and the server that runs them. `url` and `token` default to PENSTOCK_URL and PENSTOCK_TOKEN."""

    def __init__(self, *, queue: str = "default", url: str | None = None, token: str | None = None) -> None:
        self.queue = queue
        self._address = (url, token)
        self._client: Client | None = None
        self._connected: tuple[str, str] | None = None
        self._tasks = Tasks()
        self._limits: dict[str, JobLimits] = {}
        self.queues: set[str] = {queue}
        """The queues of all tasks."""

    def __repr__(self) -> str:
        return f"<App of queue {self.queue}: {', '.join(self.tasks) or 'no tasks'}>"

    @property
    def url(self) -> str:
        """The URL of the server."""
        return address(*self._address)[0]

    @property
    def tasks(self) -> list[str]:
        """The names of all tasks."""
        return self._tasks.names

    @property
    def client(self) -> Client:
        """A client of the server, made on first use, and anew when PENSTOCK_URL or PENSTOCK_TOKEN have changed."""
        found = address(*self._address)
        if self._client is None or self._connected != found:
            # Tests set the variables for each of their tenants, while the app is that of an imported module.
            self.close()
            self._client, self._connected = Client(*found), found
        return self._client

    def close(self) -> None:
        """Close the connections of the client."""
        if self._client is not None:
            self._client.close()
            self._client = None

    @overload
    def task(self, function: Callable[Parameters, Result]) -> TaskFunction[Parameters, Result]: ...
    @overload
    def task(
        self,
        *,
        name: str | None = None,
        queue: str | None = None,
        timeout: float | timedelta | None = None,
        **options: Unpack[JobOptions],
    ) -> Callable[[Callable[Parameters, Result]], TaskFunction[Parameters, Result]]: ...
    def task(
        self,
        function: Callable[..., Any] | None = None,
        *,
        name: str | None = None,
        queue: str | None = None,
        timeout: float | timedelta | None = None,
        **options: Unpack[JobOptions],
    ) -> Any:
        """Make a function a task: `@app.task`, or `@app.task(queue="mail", max_retries=5, timeout=30)`.

        `timeout` ends an attempt after so many seconds as failed. A coroutine is cancelled; a plain function runs in a
        thread, which cannot be stopped: what it returns after the timeout is ignored.
        """

        _check_names(options, ["name", "queue", "timeout", *JobOptions.__annotations__])

        def register(given: Callable[..., Any]) -> TaskFunction[..., Any]:
            made = TaskFunction(self, given, name or given.__name__, queue or self.queue, options)
            seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
            self._tasks.add(made.name, _adapted(given), timeout=seconds)
            self.queues.add(made.queue)
            return made

        return register if function is None else register(function)

    def limit(
        self, queue: str, *, concurrency: int | None = None, rate: float | None = None, burst: int | None = None
    ) -> None:
        """Limit a queue over all workers: jobs at a time, and starts per second. Set when a worker starts."""
        self._limits[queue] = JobLimits(concurrency=concurrency, rate=rate, burst=burst)

    # Jobs

    def enqueue_jobs(self, jobs: Sequence[NewJob]) -> Sequence[str]:
        """Store jobs, all or none in each request; their ids."""
        return self.client.jobs.enqueue_many(jobs)

    def chain(self, *jobs: NewJob) -> Sequence[str]:
        """Enqueue jobs of which each runs when the one before is completed; their ids."""
        return self.enqueue_jobs(
            [replace(job, after=[*(job.after or ()), n - 1]) if n else job for n, job in enumerate(jobs)]
        )

    def group(self, jobs: Iterable[NewJob], callback: NewJob | None = None) -> Sequence[str]:
        """Enqueue jobs that run side by side, and one that runs when all are completed; their ids, its last."""
        members = list(jobs)
        last = [] if callback is None else [replace(callback, after=[*(callback.after or ()), *range(len(members))])]
        return self.enqueue_jobs([*members, *last])

    # Work

    def worker(self, queue: str | None = None, **options: Any) -> Worker:
        """A worker for one queue. The options are those of `Worker`."""
        return Worker(*self._address, queue or self.queue, tasks=self._tasks, **options)

    def work(self, queues: Iterable[str] | None = None, *, drain: bool = False, **options: Any) -> None:
        """Run the tasks of these queues, or of all, until SIGTERM or SIGINT; with `drain` until no job is left."""
        for name, limits in self._limits.items():
            self.client.jobs.set_limits(name, concurrency=limits.concurrency, rate=limits.rate, burst=limits.burst)
        workers = [self.worker(name, **options) for name in sorted(queues or self.queues)]
        asyncio.run(_serve(workers, drain))


async def _serve(workers: Sequence[Worker], drain: bool) -> None:
    def stop() -> None:
        for worker in workers:
            worker.stop()

    stop_on_signals(stop)
    try:
        async with asyncio.TaskGroup() as group:
            for worker in workers:
                group.create_task(worker.serve(drain=drain))
    except ExceptionGroup as failed:
        # The first worker that fails stops the others, so there is one reason.
        raise failed.exceptions[0] from None


def _check_names(options: Mapping[str, Any], known: Iterable[str]) -> None:
    """A misspelt option is an error where it is written, not where a job is enqueued."""
    for name in options:
        if name not in known:
            raise TypeError(f'unknown option "{name}"; known: {", ".join(known)}')


def _adapted(function: Callable[..., Any]) -> Callable[[RunningJob], Any]:
    """The function as a worker calls it: with the job."""
    if inspect.iscoroutinefunction(function):

        async def awaited(job: RunningJob) -> Any:
            args, kwargs = _arguments(function, job)
            _current.set(job)
            return await function(*args, **kwargs)

        return awaited

    def blocking(job: RunningJob) -> Any:
        args, kwargs = _arguments(function, job)
        return contextvars.copy_context().run(_call, job, function, args, kwargs)

    return blocking


def _call(job: RunningJob, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    _current.set(job)
    return function(*args, **kwargs)


def _arguments(function: Callable[..., Any], job: RunningJob) -> tuple[Sequence[Any], Mapping[str, Any]]:
    payload = job.payload if isinstance(job.payload, dict) else {}
    args, kwargs = payload.get("args", []), payload.get("kwargs", {})
    try:
        inspect.signature(function).bind(*args, **kwargs)
    except TypeError as error:
        raise Dead(f"the arguments do not fit the task: {error}") from None
    return args, kwargs

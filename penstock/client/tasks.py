"""Which function runs which job, and what its end means for the job."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from penstock.client.api import jobs as calls
from penstock.client.api.jobs import LeasedJob
from penstock.client.exchange import Call

Function = Callable[..., Any]

LONGEST_ERROR = 10_000
"""What the server stores of an error."""
UNKNOWN_AFTER_S = 5.0


class Retry(Exception):
    """Raised by a task: try the job again, `after` a while if given, else after the job's own backoff.

    With `spend_retry=False` the attempt does not count, so a job may wait for something as often as it takes.
    """

    def __init__(
        self,
        reason: str = "the task asked for a retry",
        *,
        after: timedelta | float | None = None,
        spend_retry: bool = True,
    ) -> None:
        self.after_s = after.total_seconds() if isinstance(after, timedelta) else after
        self.spend_retry = spend_retry
        super().__init__(reason)


class Dead(Exception):
    """Raised by a task: the job can never succeed, so no retry is worth it."""

    def __init__(self, reason: str = "the task gave the job up") -> None:
        super().__init__(reason)


@dataclass(frozen=True, slots=True)
class Task:
    """Functions that block run in threads, so that they do not block the event loop."""

    function: Function
    blocks: bool
    timeout_s: float | None = None


class Tasks:
    """Tasks by name. A job says in its payload, as `task`, which it is for; the only task there is needs no naming."""

    def __init__(self) -> None:
        self._by_name: dict[str, Task] = {}

    def add(self, name: str, function: Function, *, timeout: float | None = None) -> None:
        if name in self._by_name:
            raise ValueError(f"task {name!r} is already registered")
        self._by_name[name] = Task(function, not inspect.iscoroutinefunction(function), timeout)

    def __bool__(self) -> bool:
        return bool(self._by_name)

    @property
    def names(self) -> list[str]:
        return list(self._by_name)

    @property
    def any_blocks(self) -> bool:
        return any(task.blocks for task in self._by_name.values())

    def find(self, payload: Any) -> Task:
        name = payload.get("task") if isinstance(payload, Mapping) else None
        if isinstance(name, str) and name in self._by_name:
            return self._by_name[name]
        if name is None and len(self._by_name) == 1:
            return next(iter(self._by_name.values()))
        # Another worker may have it, a newer one for example.
        raise Retry(f"this worker has no task {name!r}", after=UNKNOWN_AFTER_S, spend_retry=False)


def success(leased: LeasedJob, result: Any) -> Call[Any]:
    """The call that ends the job well; a result that is no JSON is a failure of the task."""
    try:
        return calls.ack(leased, result)
    except (TypeError, ValueError) as error:
        return failure(leased, TypeError(f"the result cannot be stored as JSON: {error}"))


def failure(leased: LeasedJob, error: BaseException) -> Call[Any]:
    """The call that ends the attempt in failure, with the text that people will look for."""
    if isinstance(error, Retry):
        return calls.nack(leased, _text(error), retry_after=error.after_s, spend_retry=error.spend_retry)
    return calls.nack(leased, _text(error), retry=not isinstance(error, Dead))


def _text(error: BaseException) -> str:
    said = str(error)
    if not isinstance(error, Retry | Dead):
        said = f"{type(error).__name__}: {said}" if said else type(error).__name__
        if error.__traceback__ is not None:
            # The message first, for lists that show one line; of the traceback the end, which tells where.
            said = said[: LONGEST_ERROR // 2] + "\n\n"
            said += "".join(traceback.format_exception(error))[-(LONGEST_ERROR - len(said)) :]
    return said[:LONGEST_ERROR]

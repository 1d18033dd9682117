"""Jobs on their way to the server."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypedDict

from penstock.client.api.requests import moment_text, to_json
from penstock.errors import Invalid

MOST = 1000
HEAVIEST = 512 * 1024
"""A request carries at most so many jobs, of so many bytes together; a job that is heavier goes alone."""


class JobOptions(TypedDict, total=False):
    """What may be said of a job beside its queue and payload; see `NewJob`."""

    task: str | None
    priority: int
    max_retries: int | None
    run_at: datetime | str | None
    unique_key: str | None
    unique_seconds: int | timedelta | None
    backoff: Mapping[str, Any] | None
    after: Sequence[str | int] | None
    tags: Sequence[str]


@dataclass(frozen=True, slots=True)
class NewJob:
    """A job to be enqueued. The payload is any JSON, an empty object if None. `task` names the function of the worker
    that is to run it, and travels in the payload.

    With a `unique_key` a second job of the same queue and key, within `unique_seconds`, is not stored: the id of the
    first is answered. Such a job can also be enqueued again, without harm, after an answer got lost.

    `after` has the ids of jobs that must be completed first. In one call of `enqueue_many` it may also have the
    positions of earlier jobs, from 0. `tags` are texts to find the job by.
    """

    queue_name: str
    payload: Any = None
    task: str | None = None
    priority: int = 0
    max_retries: int | None = None
    run_at: datetime | str | None = None
    unique_key: str | None = None
    unique_seconds: int | timedelta | None = None
    backoff: Mapping[str, Any] | None = None
    after: Sequence[str | int] | None = None
    tags: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class EncodedJob:
    body: bytes
    repeatable: bool


def encode(job: NewJob) -> EncodedJob:
    told: dict[str, Any] = {"queue_name": job.queue_name, "payload": payload_of(job)}
    if job.priority:
        told["priority"] = job.priority
    if job.max_retries is not None:
        told["max_retries"] = job.max_retries
    if job.run_at is not None:
        told["run_at"] = moment_text("run_at", job.run_at)
    if job.unique_key is not None:
        told["unique_key"] = job.unique_key
    if job.unique_seconds is not None:
        told["unique_seconds"] = _seconds(job.unique_seconds)
    if job.backoff is not None:
        told["backoff"] = dict(job.backoff)
    if job.after:
        told["after"] = list(job.after)
    if job.tags:
        told["tags"] = list(job.tags)
    return EncodedJob(to_json(told), job.unique_key is not None)


def payload_of(job: NewJob) -> Any:
    """The payload with the name of the task in it."""
    payload = {} if job.payload is None else job.payload
    if job.task is None:
        return dict(payload) if isinstance(payload, Mapping) else payload
    if not isinstance(payload, Mapping):
        raise Invalid("a job with a task needs an object as its payload, which carries its name", field="payload")
    return {**payload, "task": job.task}


def chunks(jobs: Iterable[NewJob]) -> Iterator[list[EncodedJob]]:
    """The jobs in order, as many together as one request may carry. Positions in `after` need one request for all."""
    given = list(jobs)
    for each in given:
        if not isinstance(each, NewJob):
            raise TypeError(f"jobs to enqueue are NewJob(queue_name, payload, ...), not {type(each).__name__}")
    if any(isinstance(after, int) for job in given for after in job.after or ()):
        if len(given) > MOST:
            raise Invalid(f"jobs that come after each other by position: at most {MOST} in one call", field="after")
        yield [encode(job) for job in given]
        return
    chunk: list[EncodedJob] = []
    weight = 0
    for job in map(encode, given):
        if chunk and (len(chunk) == MOST or weight + len(job.body) > HEAVIEST):
            yield chunk
            chunk, weight = [], 0
        chunk.append(job)
        weight += len(job.body)
    if chunk:
        yield chunk


def _seconds(duration: int | timedelta) -> int:
    return int(duration.total_seconds()) if isinstance(duration, timedelta) else duration

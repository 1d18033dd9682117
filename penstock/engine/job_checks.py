"""Checks of what callers say about jobs, before anything is touched. The bounds themselves are in `limits`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from penstock import limits
from penstock.engine.checks import check_name, check_range, check_text
from penstock.errors import Invalid, TooLarge
from penstock.model.jobs import Backoff, Completion, Failure, Heartbeat, JobLimits, Lease, NewJob

_LATEST = datetime(9000, 1, 1, tzinfo=UTC)


def check_jobs(entries: Sequence[NewJob]) -> None:
    for queue in {entry.queue for entry in entries}:
        check_name(queue, "queue_name")
    for entry in entries:
        _check_job(entry)


def _check_job(entry: NewJob) -> None:
    check_json("payload", entry.payload)
    check_range("priority", entry.priority, limits.JOB_PRIORITY)
    check_range("max_retries", entry.max_retries, limits.JOB_RETRIES)
    if entry.run_at is not None and (entry.run_at.tzinfo is None or entry.run_at > _LATEST):
        raise Invalid("run_at must be a moment with its time zone, before the year 9000", field="run_at")
    if entry.unique_key is not None:
        check_length("unique_key", entry.unique_key, limits.JOB_KEY_CHARACTERS)
    if entry.unique_s is not None:
        check_range("unique_seconds", entry.unique_s, limits.JOB_UNIQUE_S)
    if entry.backoff is not None:
        _check_backoff(entry.backoff)


def check_lease(wish: Lease) -> None:
    check_name(wish.queue, "queue")
    check_range("lease_seconds", wish.lease_s, limits.JOB_LEASE_S)
    check_range("max", len(wish.workers), limits.JOB_LEASE_LIMIT)
    check_length("worker_id", wish.workers[0], limits.WORKER_CHARACTERS)


def check_completion(entry: Completion) -> None:
    if entry.result is not None:
        check_json("result", entry.result)


def check_failure(entry: Failure) -> None:
    check_text("error", entry.error)
    entry.error = entry.error[-limits.JOB_ERROR_CHARACTERS :]
    check_range("retry_after", entry.retry_after_s, limits.JOB_DELAY_S)


def check_heartbeat(entry: Heartbeat) -> None:
    check_range("lease_seconds", entry.lease_s, limits.JOB_LEASE_S)
    check_range("progress", entry.progress, (0, 100))
    if entry.note is not None:
        check_length("note", entry.note, (0, limits.JOB_NOTE_CHARACTERS))


def check_limits(given: JobLimits) -> None:
    check_range("concurrency", given.concurrency, limits.JOB_CONCURRENCY)
    lowest, highest = limits.LOWEST_JOB_RATE, limits.HIGHEST_JOB_RATE
    if given.rate is not None and not lowest <= given.rate <= highest:
        raise Invalid(f"rate must be between {lowest} and {highest}", field="rate")
    check_range("burst", given.burst, limits.JOB_CONCURRENCY)
    if given.burst is not None and given.rate is None:
        raise Invalid("burst needs a rate", field="burst")


def check_json(field: str, text: str) -> None:
    check_text(field, text)
    if len(text) > limits.JOB_PAYLOAD_BYTES or len(text.encode()) > limits.JOB_PAYLOAD_BYTES:
        raise TooLarge(f"{field} may have {limits.JOB_PAYLOAD_BYTES} bytes", field=field)


def check_length(field: str, text: str, bounds: tuple[int, int]) -> None:
    check_text(field, text)
    if not bounds[0] <= len(text) <= bounds[1]:
        raise Invalid(f"{field} must have {bounds[0]} to {bounds[1]} characters", field=field)


def _check_backoff(backoff: Backoff) -> None:
    if backoff.delays_s:
        check_range("backoff.delays", len(backoff.delays_s), limits.JOB_DELAYS)
    for delay in (*backoff.delays_s, backoff.base_s, backoff.cap_s):
        check_range("backoff", delay, limits.JOB_DELAY_S)

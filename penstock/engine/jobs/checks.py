"""Checks of the callers' input about jobs, before anything is changed. The bounds themselves are in `limits`."""

from __future__ import annotations

from collections.abc import Sequence

from penstock import limits
from penstock.engine.checks import check_length, check_moment, check_name, check_range, check_seconds, check_text
from penstock.engine.json_checks import check_json
from penstock.errors import Invalid, TooLarge
from penstock.model.jobs import Backoff, Completion, Failure, Heartbeat, JobLimits, LeaseRequest, NewJob


def check_jobs(entries: Sequence[NewJob]) -> None:
    for queue in {entry.queue for entry in entries}:
        check_name(queue, "queue_name")
    check_range("after", sum(len(entry.after) for entry in entries), limits.JOB_AFTER)
    for entry in entries:
        _check_job(entry)


def _check_job(entry: NewJob) -> None:
    _check_payload("payload", entry.payload)
    check_range("priority", entry.priority, limits.JOB_PRIORITY)
    check_range("max_retries", entry.max_retries, limits.JOB_RETRIES)
    if entry.run_at is not None:
        check_moment("run_at", entry.run_at)
    if entry.unique_key is not None:
        check_length("unique_key", entry.unique_key, limits.JOB_KEY_CHARACTERS)
    if entry.tags:
        check_range("tags", len(entry.tags), limits.JOB_TAGS)
        for tag in entry.tags:
            check_length("tags", tag, limits.JOB_TAG_CHARACTERS)
    if entry.unique_s is not None:
        check_range("unique_seconds", entry.unique_s, limits.JOB_UNIQUE_S)
    if entry.backoff is not None:
        _check_backoff(entry.backoff)


def check_lease(request: LeaseRequest) -> None:
    check_name(request.queue, "queue")
    check_range("lease_seconds", request.lease_s, limits.JOB_LEASE_S)
    check_range("max", len(request.workers), limits.JOB_LEASE_LIMIT)
    check_length("worker_id", request.workers[0], limits.WORKER_CHARACTERS)


def check_completion(entry: Completion) -> None:
    if entry.result is not None:
        _check_payload("result", entry.result)


def check_failure(entry: Failure) -> None:
    check_text("error", entry.error)
    entry.error = entry.error[-limits.JOB_ERROR_CHARACTERS :]
    check_seconds("retry_after", entry.retry_after_s, limits.JOB_DELAY_S)


def check_heartbeat(entry: Heartbeat) -> None:
    check_range("lease_seconds", entry.lease_s, limits.JOB_LEASE_S)
    check_range("progress", entry.progress, (0, 100))
    check_length("note", entry.note, (0, limits.JOB_NOTE_CHARACTERS))


def check_limits(given: JobLimits) -> None:
    check_range("concurrency", given.concurrency, limits.JOB_CONCURRENCY)
    lowest, highest = limits.LOWEST_JOB_RATE, limits.HIGHEST_JOB_RATE
    if given.rate is not None and not lowest <= given.rate <= highest:
        raise Invalid(f"rate must be between {lowest} and {highest}", field="rate")
    check_range("burst", given.burst, limits.JOB_CONCURRENCY)
    if given.burst is not None and given.rate is None:
        raise Invalid("burst needs a rate", field="burst")


def _check_payload(field: str, text: str) -> None:
    check_text(field, text)
    most = limits.JOB_PAYLOAD_BYTES
    # Four bytes are the most that a character takes.
    if len(text) > most or (4 * len(text) > most and len(text.encode()) > most):
        raise TooLarge(f"{field} must have at most {most} bytes", field=field)
    check_json(field, text)


def _check_backoff(backoff: Backoff) -> None:
    if backoff.delays_s:
        check_range("backoff.delays", len(backoff.delays_s), limits.JOB_DELAYS)
    for delay in (*backoff.delays_s, backoff.base_s, backoff.cap_s):
        check_seconds("backoff", delay, limits.JOB_DELAY_S)

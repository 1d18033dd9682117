"""Every call of the jobs API: the request it makes, and how to read its answer. Nothing here does input or output."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from penstock.client.exchange import Call, Exchange, Pause, Request, Retries, exchange
from penstock.client.jobs import Job, JobFailed, JobPage, LeasedJob, job_of, leased_of
from penstock.client.new_jobs import EncodedJob, to_json
from penstock.errors import Invalid

PAGE = 200
PATIENCE_S = 10.0
"""A request that waits at the server is given this much longer to be answered."""


def enqueue(job: EncodedJob) -> Call[str]:
    request = Request("POST", "/jobs", body=job.body, repeatable=job.repeatable)
    return Call(request, lambda found: str(found["job_id"]))


def enqueue_many(jobs: Sequence[EncodedJob]) -> Call[list[str]]:
    body = b'{"jobs":[' + b",".join(job.body for job in jobs) + b"]}"
    request = Request("POST", "/jobs/batch", body=body, repeatable=all(job.repeatable for job in jobs))
    return Call(request, lambda found: list(found["job_ids"]))


def status(job_id: str) -> Call[str]:
    return Call(Request("GET", f"/jobs/{_path(job_id)}"), lambda found: str(found["status"]))


def get(job_id: str) -> Call[Job]:
    return Call(Request("GET", f"/jobs/{_path(job_id)}/detail"), job_of)


def page(queue: str | None, status: str | None, after: str | None, limit: int = PAGE) -> Call[JobPage]:
    asked = {"queue_name": queue, "status": status, "cursor": after, "limit": str(limit)}
    query = {name: value for name, value in asked.items() if value is not None}
    return Call(Request("GET", "/jobs", query), _page)


def _page(found: Any) -> JobPage:
    return JobPage(tuple(map(job_of, found["items"])), found.get("next_cursor"))


def cancel(job_id: str) -> Call[None]:
    return Call(Request("POST", f"/jobs/{_path(job_id)}/cancel"), _nothing)


def queues() -> Call[list[dict[str, Any]]]:
    return Call(Request("GET", "/dashboard/queues"), list)


def lease(queue: str, worker: str, lease_s: int, limit: int, wait_s: float) -> Call[list[LeasedJob]]:
    told: dict[str, Any] = {"worker_id": worker, "lease_seconds": lease_s, "max": limit}
    if wait_s:
        told["wait"] = wait_s
    # Sent twice it may lease twice; jobs of a lost answer are available again when their lease ends.
    request = Request("POST", f"/queues/{_path(queue)}/lease", body=to_json(told), timeout_s=wait_s + PATIENCE_S)
    return Call(request, lambda found: [leased_of(one) for one in found or ()])


def ack(job_id: str, lease_token: str, result: Any = None) -> Call[None]:
    told: dict[str, Any] = {"lease_token": lease_token}
    if result is not None:
        told["result"] = result
    return Call(Request("POST", f"/jobs/{_path(job_id)}/ack", body=to_json(told)), _nothing)


def nack(job_id: str, lease_token: str, error: str, retry: bool = True, after_s: float | None = None) -> Call[None]:
    told: dict[str, Any] = {"lease_token": lease_token, "error": error, "retry": retry}
    if after_s is not None:
        told["retry_after"] = after_s
    return Call(Request("POST", f"/jobs/{_path(job_id)}/nack", body=to_json(told)), _nothing)


def heartbeat(
    job_id: str, lease_token: str, lease_s: int, progress: int | None = None, note: str | None = None
) -> Call[None]:
    told: dict[str, Any] = {"lease_token": lease_token, "lease_seconds": lease_s}
    if progress is not None:
        told["progress"] = progress
    if note is not None:
        told["note"] = note
    path = f"/jobs/{_path(job_id)}/heartbeat"
    # There must be time for another one before the lease ends.
    return Call(Request("POST", path, body=to_json(told), timeout_s=max(lease_s / 3, 1.0)), _nothing)


# Calls that are made of several


FIRST_LOOK_S = 0.02
LONGEST_LOOK_S = 1.0


def wait(job_id: str, timeout_s: float | None, retries: Retries) -> Exchange[Any]:
    """Look again and again, less and less often, until the job is finished: its result, or `JobFailed`."""
    waited, pause = 0.0, FIRST_LOOK_S
    while True:
        job = yield from exchange(get(job_id), retries)
        if job.status == "completed":
            return job.result
        if job.is_finished:
            raise JobFailed(job)
        if timeout_s is not None and waited >= timeout_s:
            raise TimeoutError(f"job {job_id} is still {job.status} after {timeout_s} s")
        left = pause if timeout_s is None else min(pause, timeout_s - waited)
        yield Pause(left)
        waited += left
        pause = min(pause * 1.5, LONGEST_LOOK_S)


def _path(segment: str) -> str:
    if not segment:
        raise Invalid("a job and a queue have a name")
    return quote(segment, safe="")


def _nothing(found: Any) -> None:
    return None

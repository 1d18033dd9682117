"""`penstock job`: jobs, their attempts, and dead jobs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from penstock.cli.options import DryRun, on_server, only_json, read_text
from penstock.cli.output import Output, say
from penstock.cli.remote import Server, segment
from penstock.errors import Invalid

app = typer.Typer(help="Jobs: list, find, enqueue, retry and cancel.", no_args_is_help=True)

JobId = Annotated[str, typer.Argument(metavar="ID", help="Id of the job.")]
Queue = Annotated[str | None, typer.Option(metavar="QUEUE", help="Only jobs of this queue.")]
Status = Annotated[
    str | None,
    typer.Option(metavar="STATUS", help="Only pending, processing, completed, cancelled or dead ones."),
]
Tag = Annotated[str | None, typer.Option(metavar="TAG", help="Only jobs with this tag.")]
COLUMNS = ("id", "queue_name", "status", "attempt", "created_at", "error_text")
ATTEMPT_COLUMNS = ("attempt", "worker_id", "outcome", "started_at", "ended_at", "error")
PAGE = 200
SEARCHED = 10_000
"""Jobs that a search looks at, newest first."""
PARTIAL = 3


def path(job_id: str) -> str:
    return f"/jobs/{segment(job_id)}"


def _jobs(
    server: Server, queue: str | None, status: str | None, limit: int, tag: str | None = None
) -> Iterator[dict[str, Any]]:
    """Page by page, newest first."""
    cursor, left = None, limit
    while left > 0:
        asked = {"queue_name": queue, "status": status, "tag": tag, "cursor": cursor, "limit": min(left, PAGE)}
        page = server.get("/jobs", **asked)
        yield from page["items"]
        left -= len(page["items"])
        cursor = page["next_cursor"]
        if cursor is None:
            return


@app.command("list")
@on_server()
def list_jobs(
    server: Server,
    out: Output,
    queue: Queue = None,
    status: Status = None,
    tag: Tag = None,
    limit: Annotated[int, typer.Option(metavar="N", min=1, max=10_000, help="Maximum number, newest first.")] = 50,
) -> None:
    """List jobs, newest first."""
    out.rows(list(_jobs(server, queue, status, limit, tag)), COLUMNS, "There are no jobs.")


@app.command("queues")
@on_server()
def queues(server: Server, out: Output) -> None:
    """List the queues of jobs with their counts."""
    columns = ("queue_name", "pending", "processing", "completed", "cancelled", "dead", "oldest_pending_created_at")
    out.rows(server.get("/dashboard/queues"), columns, "There are no jobs.")


@app.command("find")
@on_server()
def find(
    server: Server,
    out: Output,
    text: Annotated[str, typer.Argument(help="Text in the payload, result, error or id.")],
    queue: Queue = None,
    status: Status = None,
) -> None:
    """Find jobs that contain a text, among the newest 10 000."""
    found = [job for job in _jobs(server, queue, status, SEARCHED) if _contains(job, text)]
    out.rows(found, COLUMNS, "No job contains this text.")


def _contains(job: dict[str, Any], text: str) -> bool:
    shown = (json.dumps(job[name], ensure_ascii=False, default=str) for name in ("payload", "result"))
    return any(text in part for part in (job["id"], job["error_text"] or "", *shown))


@app.command("show")
@on_server()
def show(server: Server, out: Output, job_id: JobId) -> None:
    """Show a job with its result and its attempts."""
    found = server.get(f"{path(job_id)}/detail")
    if out.as_json or out.columns:
        out.record(found)
        return
    out.record({name: value for name, value in found.items() if name != "attempts"})
    if found["attempts"]:
        print()
        Output().rows(found["attempts"], ATTEMPT_COLUMNS, "")


@app.command("enqueue")
@on_server()
def enqueue(
    server: Server,
    out: Output,
    queue: Annotated[str, typer.Argument(metavar="QUEUE", help="Queue of the job; it need not exist.")],
    payload: Annotated[str, typer.Argument(metavar="JSON", help="Payload. - reads standard input.")] = "{}",
    priority: Annotated[int, typer.Option(metavar="N", help="Higher priorities are leased first.")] = 0,
    max_retries: Annotated[int, typer.Option(metavar="N", help="Maximum number of retries.")] = 3,
    unique_key: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Idempotency key: a second job with the same key is not stored.")
    ] = None,
    tag: Annotated[list[str] | None, typer.Option(metavar="TAG", help="Tag to find it by; may be repeated.")] = None,
) -> None:
    """Enqueue a job."""
    body = {
        "queue_name": queue,
        "payload": only_json(read_text(payload), "the payload"),
        "priority": priority,
        "max_retries": max_retries,
        **({"unique_key": unique_key} if unique_key is not None else {}),
        **({"tags": tag} if tag else {}),
    }
    out.record(server.post("/jobs", body, repeatable=unique_key is not None))


@app.command("cancel")
@on_server()
def cancel(server: Server, out: Output, job_id: JobId) -> None:
    """Cancel a pending job."""
    out.record(server.post(f"{path(job_id)}/cancel"))


@app.command("retry")
@on_server()
def retry(
    server: Server,
    out: Output,
    ids: Annotated[list[str] | None, typer.Argument(metavar="ID...", help="Ids of dead jobs.")] = None,
    queue: Annotated[str | None, typer.Option(metavar="QUEUE", help="All dead jobs of this queue.")] = None,
    limit: Annotated[
        int, typer.Option(metavar="N", min=1, help="With --queue: maximum number, oldest first.")
    ] = 10_000,
    dry_run: DryRun = False,
) -> None:
    """Make dead jobs pending again, with all their retries. Exits with 3 if some are not dead."""
    if bool(ids) == (queue is not None):
        raise Invalid("give the ids of dead jobs, or --queue")
    if queue is not None:
        _retry_queue(server, out, queue, limit, dry_run)
        return
    found = [server.get(f"{path(job_id)}/detail") for job_id in dict.fromkeys(ids or ())]
    dead = [job for job in found if job["status"] == "dead"]
    if dry_run:
        out.rows(dead, COLUMNS, "None of these jobs is dead.")
        return
    by_queue: dict[str, list[str]] = {}
    for job in dead:
        by_queue.setdefault(job["queue_name"], []).append(job["id"])
    done = sum(_requeue(server, name, {"job_ids": jobs}) for name, jobs in by_queue.items())
    out.record({"requeued": done})
    if done < len(found):
        say(f"penstock: not dead, so left alone: {len(found) - done}")
        raise typer.Exit(PARTIAL)


def _retry_queue(server: Server, out: Output, queue: str, limit: int, dry_run: bool) -> None:
    if dry_run:
        out.rows(list(_jobs(server, queue, "dead", limit)), COLUMNS, "There are no dead jobs.")
    else:
        out.record({"requeued": _requeue(server, queue, {"limit": limit})})


def _requeue(server: Server, queue: str, body: dict[str, Any]) -> int:
    return int(server.post(f"/queues/{segment(queue)}/dead/requeue", body)["requeued"])

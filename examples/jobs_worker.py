"""A worker of jobs: runs what is enqueued on a queue, several at a time, and keeps what comes of it.

    python examples/jobs_worker.py reports

PENSTOCK_URL and PENSTOCK_TOKEN say where the server is and who is calling. Stop it with Ctrl-C or SIGTERM: it finishes
what it has begun. Jobs say in their payload, as `task`, which function is to run them:

    client.jobs.enqueue("reports", {"customer": "ada"}, task="write_report")
"""

from __future__ import annotations

import asyncio
import os
import sys

from penstock import Dead, Retry, RunningJob, Worker

worker = Worker(
    os.environ.get("PENSTOCK_URL", "http://127.0.0.1:9324"),
    os.environ.get("PENSTOCK_TOKEN", "anyone"),
    sys.argv[1] if len(sys.argv) > 1 else "reports",
    concurrency=20,
)


@worker.task
async def write_report(job: RunningJob) -> dict[str, str]:
    """A coroutine: it is cancelled should its lease be lost. Doing the work twice must do no harm."""
    for page in range(1, 5):
        await asyncio.sleep(0.01)
        job.progress(25 * page, f"page {page} of 4")
    print(f"wrote the report for {job.payload['customer']}", flush=True)
    return {"report": f"{job.payload['customer']}.pdf"}


@worker.task("send_mail")
def send(job: RunningJob) -> None:
    """A plain function runs in a thread."""
    if "to" not in job.payload:
        raise Dead("nobody to send it to")
    if job.payload["to"] == "busy":
        raise Retry("the mail server is busy", after=60)
    print(f"sent mail to {job.payload['to']}", flush=True)


if __name__ == "__main__":
    worker.run()

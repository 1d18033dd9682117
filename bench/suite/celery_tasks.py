"""Celery as a contender of bench/suite: its app, and its producers.

Run by the Python of Celery's own environment: `python -m bench.suite.celery_tasks ROLE COUNT`, with the address of the
broker in BENCH_BROKER. A producer says `ready`, does its part when it reads a line, and then says `done`;
another line has it throw away the tasks that have not run. Each task that has run adds a byte to the file BENCH_DONE.
"""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from celery import Celery

PAYLOAD = {"customer": "ada", "note": "x" * 150}
PRODUCERS = 16

app = Celery("bench", broker=os.environ["BENCH_BROKER"])
app.conf.update(
    task_default_queue="bench",
    task_ignore_result=True,
    # A task that a worker took with it into its grave is run again, as with us.
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    broker_transport_options={"confirm_publish": True},
    broker_connection_retry_on_startup=True,
    broker_pool_limit=PRODUCERS,
    worker_prefetch_multiplier=50,
)
_done = os.open(os.environ["BENCH_DONE"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)


@app.task(name="noop")  # type: ignore[untyped-decorator]
def noop(**payload: Any) -> None:
    os.write(_done, b".")


def single(count: int) -> None:
    """Sixteen at the same time, each one task after the other."""

    def some(_: int) -> None:
        for _ in range(count // PRODUCERS):
            noop.apply_async(kwargs=PAYLOAD)

    with ThreadPoolExecutor(PRODUCERS) as threads:
        list(threads.map(some, range(PRODUCERS)))


def batch(count: int) -> None:
    """Celery has no call for many tasks; one producer sends them one after the other."""
    with app.producer_pool.acquire(block=True) as producer:
        for _ in range(count):
            noop.apply_async(kwargs=PAYLOAD, producer=producer)


def main() -> None:
    role, count = sys.argv[1], int(sys.argv[2])
    noop.apply_async(kwargs=PAYLOAD)
    print("ready", flush=True)
    sys.stdin.readline()
    {"single": single, "batch": batch}[role](count)
    print("done", flush=True)
    if sys.stdin.readline():
        app.control.purge()


if __name__ == "__main__":
    main()

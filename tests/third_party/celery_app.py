"""A Celery application as its users write it, with SQS as the broker.

As a program it is a worker: python -m tests.third_party.celery_app URL QUEUE FOLDER NAME
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from celery import Celery

VISIBILITY_TIMEOUT_S = 4
"""How long a message stays with a worker that died; no task here takes longer."""


def application(url: str, queue: str, folder: str) -> Any:
    """Broker, queue of the tasks, and a folder for the results."""
    app: Any = Celery("tasks", broker=url.replace("http://", "sqs://"), backend=f"file://{folder}")
    app.conf.update(
        broker_transport_options={
            "polling_interval": 0,
            "queue_name_prefix": "",
            "visibility_timeout": VISIBILITY_TIMEOUT_S,
        },
        broker_connection_retry_on_startup=True,
        task_default_queue=queue,
        worker_prefetch_multiplier=1,
    )
    app.task(add, name="add")
    app.task(fail, name="fail")
    app.task(stumble, name="stumble", bind=True)
    app.task(tell_time, name="tell_time")
    app.task(meet, name="meet", acks_late=True)
    app.task(get_stuck, name="get_stuck", acks_late=True)
    return app


def add(one: int, other: int) -> int:
    return one + other


def fail() -> None:
    raise ValueError("as asked")


def stumble(task: Any, times: int) -> int:
    """Fails that often before it succeeds."""
    if task.request.retries < times:
        # A worker sends the retry and only then writes that it did. Were the other worker quicker, that note would
        # replace the result.
        raise task.retry(countdown=0.5, exc=RuntimeError("stumbled"))
    return int(task.request.retries)


def tell_time() -> float:
    return time.time()


def meet(folder: str, me: str, other: str) -> int:
    """Ends when both run at once, so in two workers. Returns whose child it ran in."""
    (Path(folder) / me).touch()
    give_up = time.monotonic() + 20
    while not (Path(folder) / other).exists():
        if time.monotonic() > give_up:
            raise TimeoutError(f"{other} never came")
        time.sleep(0.02)
    return os.getppid()


def get_stuck(note: str) -> int:
    """The first time, says where and stays there for ever."""
    path = Path(note)
    if path.exists():
        return os.getppid()
    written = path.with_suffix(".new")
    written.write_text(f"{os.getppid()}")
    written.rename(path)
    while True:
        signal.pause()


def main(url: str, queue: str, folder: str, name: str) -> None:
    application(url, queue, folder).worker_main(
        ["worker", "--concurrency=1", f"--hostname={name}@%h", "--loglevel=INFO", "--without-gossip"]
    )


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Tasks for tests that kill workers: `penstock worker tests.system.dag_tasks:app`."""

from __future__ import annotations

import os
import time

from penstock import App

app = App(queue="dag")


@app.task(max_retries=100, backoff={"delays": [0.0]})
def step(number: int) -> int:
    return number


@app.task(queue="lasting", max_retries=100, backoff={"delays": [0.0]})
def last(number: int, seconds: float, journal: str) -> int:
    """Takes longer than a lease, and writes down when it begins and ends."""
    note(journal, "begin", number)
    time.sleep(seconds)
    note(journal, "end", number)
    return number


def note(journal: str, what: str, number: int) -> None:
    """One write, so that the lines of several processes do not mix."""
    descriptor = os.open(journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, f"{what} {number} {os.getpid()} {time.time()}\n".encode())
    os.close(descriptor)

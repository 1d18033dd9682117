"""Tasks for tests that kill workers: `penstock worker tests.system.dag_tasks:app`."""

from __future__ import annotations

from penstock import App

app = App(queue="dag")


@app.task(max_retries=100, backoff={"delays": [0.0]})
def step(number: int) -> int:
    return number

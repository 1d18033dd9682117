"""The examples with web frameworks run: requests enqueue jobs, and workers do them."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys

import pytest

from penstock.testing import TestTenant
from tests.system.serving import ROOT, environment, serving

DJANGO = """
import json
from examples import django_shop as shop
from django.test import Client

shop.create_table()
client = Client(SERVER_NAME="localhost")
made = client.post("/orders", {"email": "ada@example.com", "total": "40"})
refused = client.post("/orders", {"email": "eve@example.com", "total": "-1"})
before = shop.app.client.jobs.queues()
shop.app.work(drain=True)
job = shop.app.client.jobs.get(made.json()["job"])
shop.app.close()
print(json.dumps([
    made.status_code, refused.status_code, [queue.pending for queue in before], job.status, job.result,
    list(shop.Order.objects.values_list("email", "receipt")),
]))
"""


@pytest.mark.timeout(90)
def test_an_order_in_django_and_its_job_are_one_transaction(migrated_database: str) -> None:
    with serving("--database-url", migrated_database) as server:
        done = subprocess.run(
            [sys.executable, "-c", DJANGO],
            env=environment(
                {"DATABASE_URL": migrated_database, "PENSTOCK_URL": server.url, "PENSTOCK_TOKEN": "anyone"}
            ),
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=60,
        )

    assert done.returncode == 0, done.stderr
    receipt = "ada@example.com paid 40.00"
    assert json.loads(done.stdout) == [201, 400, [1], "completed", receipt, [["ada@example.com", receipt]]]


def test_a_request_to_fastapi_enqueues_a_job(penstock_tenant: TestTenant, monkeypatch: pytest.MonkeyPatch) -> None:
    from fastapi.testclient import TestClient

    for name, value in penstock_tenant.environment.items():
        monkeypatch.setenv(name, value)
    shop = importlib.import_module("examples.fastapi_shop")

    with TestClient(shop.app) as client:
        made = client.post("/reports", json={"email": "ada@example.com", "pages": 3})
        report = f"/reports/{made.json()['job']}"
        waiting = client.get(report).json()
        shop.tasks.work(drain=True)
        done = client.get(report).json()
        missing = client.get("/reports/nothing")
        wrong = client.post("/reports", json={"pages": 1})
    shop.tasks.close()

    assert (made.status_code, waiting["status"]) == (202, "pending")
    assert done == {
        "status": "completed",
        "progress": done["progress"],
        "report": {"email": "ada@example.com", "pages": 3},
    }
    assert (missing.status_code, wrong.status_code) == (404, 422)

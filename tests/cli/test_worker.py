"""`penstock worker`: what it prints when it starts, and when it cannot."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from penstock.testing.server import MemoryServer, TestTenant
from tests.cli.commands import penstock

SHOP = """
from penstock import App
app = App(queue="mail")

@app.task
def send_email(to):
    return to

@app.task(queue="reports")
def report(day):
    return day

empty = App()
"""


@pytest.fixture
def tenant(memory_server: MemoryServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TestTenant:
    """The server of the variables, with the app in the current folder."""
    (tmp_path / "shop.py").write_text(SHOP)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, "shop", raising=False)
    tenant = memory_server.new_tenant()
    monkeypatch.setenv("PENSTOCK_URL", tenant.url)
    monkeypatch.setenv("PENSTOCK_TOKEN", tenant.token)
    return tenant


def test_a_worker_says_what_it_runs(tenant: TestTenant) -> None:
    done = penstock("worker", "shop:app", "--drain", "--concurrency", "3")

    assert (done.code, done.out) == (0, "")
    assert done.err == (
        f"Running jobs of {tenant.url}; Ctrl-C stops.\n"
        "  queues  mail, reports; up to 3 jobs of each at a time\n"
        "  tasks   send_email, report\n"
    )


def test_a_queue_without_a_task_is_pointed_out(tenant: TestTenant) -> None:
    done = penstock("worker", "shop:app", "--drain", "--queues", "mail,repots")

    assert (done.code, done.err.splitlines()[-1]) == (
        0,
        "No task of the app has the queue repots; its tasks have mail, reports.",
    )


@pytest.mark.parametrize(
    ("app", "said"),
    [
        ("shop", "'shop' does not name an app: write MODULE:APP, such as shop.tasks:app"),
        ("shop:ap", "module 'shop' has no 'ap'"),
        ("shop:send_email", "'shop:send_email' is not a penstock.App"),
        ("shop:empty", "'shop:empty' has no tasks; its module must import those that define them"),
    ],
)
def test_an_app_that_cannot_run_is_one_line(tenant: TestTenant, app: str, said: str) -> None:
    done = penstock("worker", app, "--drain")

    assert (done.code, done.err) == (2, f"penstock: {said}\n")


def test_a_token_that_is_refused_is_one_line(tenant: TestTenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_TOKEN", "wrong")

    done = penstock("worker", "shop:app")

    assert (done.code, done.err.splitlines()[3:]) == (5, ["penstock: the token is unknown, expired or revoked"])

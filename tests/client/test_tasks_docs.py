"""The pages about tasks are true: their examples run as printed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from penstock.testing import TestTenant
from tests.docs.pages import blocks, page
from tests.system.serving import environment


def run(script: str, tenant: TestTenant, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script + "\napp.close()\n"],
        env=environment({"PENSTOCK_URL": tenant.url, "PENSTOCK_TOKEN": tenant.token}),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def worker(tenant: TestTenant, folder: Path, *arguments: str) -> Iterator[None]:
    process = subprocess.Popen(
        [sys.executable, "-m", "penstock", "worker", *arguments],
        env=environment({"PENSTOCK_URL": tenant.url, "PENSTOCK_TOKEN": tenant.token}),
        cwd=folder,
        start_new_session=True,
    )
    try:
        yield
    finally:
        process.terminate()
        process.wait(30)
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)


@pytest.mark.parametrize("name", ["docs/tasks.md", "docs/migrate/oban.md"])
def test_the_examples_of_tasks_answer_as_printed(penstock_tenant: TestTenant, tmp_path: Path, name: str) -> None:
    found = blocks(page(name))
    script = "\n".join(text for language, text in found if language == "python")
    printed = "".join(text for language, text in found if language == "text")

    assert run(script, penstock_tenant, tmp_path) == printed


def test_the_first_steps_of_celery_and_a_worker_that_reloads(penstock_tenant: TestTenant, tmp_path: Path) -> None:
    found = blocks(page("docs/migrate/celery.md"))
    [tasks] = [text for language, text in found if language == "python" and text.startswith("# tasks.py")]
    [steps] = [text for language, text in found if language == "python" and text.startswith("from tasks import")]
    [printed] = [text for language, text in found if language == "text"]
    module = tmp_path / "tasks.py"
    module.write_text(tasks, encoding="utf-8")

    with worker(penstock_tenant, tmp_path, "tasks:app", "--reload"), penstock_tenant.client() as client:
        assert run(steps, penstock_tenant, tmp_path) == printed

        module.write_text(tasks.replace("x + y", "x * y"), encoding="utf-8")
        give_up = time.monotonic() + 40
        while (answer := _add(client)) != 16:
            assert answer == 8
            assert time.monotonic() < give_up, "the worker still runs the old task"


def _add(client: object) -> object:
    jobs = client.jobs  # type: ignore[attr-defined]
    return jobs.wait(jobs.enqueue("tasks", {"task": "add", "args": [4, 4]}), timeout=20)

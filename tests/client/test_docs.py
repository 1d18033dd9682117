"""The page about the client is true: its examples run as printed, and so does the worker in examples."""

from __future__ import annotations

import dataclasses
import inspect
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from penstock import Client, Job, JobFailed, NewJob, RunningJob, Worker
from penstock.client import LeasedJob
from penstock.client.running import Lease
from tests.docs.pages import DOCUMENTED_ADDRESS, ROOT, blocks, page, plain, quoted, rows, section
from tests.system.serving import Running, environment, serving


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with serving("--memory") as found:
        yield found


def test_the_examples_of_the_client_answer_as_printed(server: Running) -> None:
    found = blocks(page("docs/client.md"))
    script = "\n".join(text for language, text in found if language == "python")
    printed = "".join(text for language, text in found if language == "text")

    done = subprocess.run(
        [sys.executable, "-c", script.replace(DOCUMENTED_ADDRESS, server.url)],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert (done.stdout, done.returncode) == (printed, 0), done.stderr


def test_every_option_of_a_job_is_documented() -> None:
    documented = [plain(row[0]) for row in rows(section(page("docs/client.md"), "## Enqueue"))]

    assert documented == [field.name for field in dataclasses.fields(NewJob)][2:]


def test_everything_of_workers_and_running_jobs_is_documented() -> None:
    table = dict[str, list[str]]()
    for row in rows(section(page("docs/client.md"), "## Work")):
        for name in quoted(row[0]):
            table.setdefault(name.partition("(")[0], row)
    options = [name for name, each in inspect.signature(Worker).parameters.items() if each.kind is each.KEYWORD_ONLY]
    job = Job(id="1", queue_name="q", status="processing", max_retries=0)
    running = RunningJob(LeasedJob(job=job, lease_token="t"), Lease(30, 0.0), lambda: None)
    # What the worker alone uses.
    inner = {"reported", "take_report", "report_again", "tasks", "transport"}

    assert set(table) == ({name for name in dir(running) if not name.startswith("_")} | set(options)) - inner
    assert [int(table[name][1]) for name in ("concurrency", "lease_s", "poll_s", "grace_s")] == [10, 30, 20, 30]


def test_the_worker_of_jobs_runs_and_stops_in_good_order(server: Running) -> None:
    worker = subprocess.Popen(
        [sys.executable, ROOT / "examples" / "jobs_worker.py", "reports"],
        env=environment({"PENSTOCK_URL": server.url}),
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        with Client(server.url, "anyone") as client:
            report = client.jobs.enqueue("reports", {"customer": "ada"}, task="write_report")
            nobody = client.jobs.enqueue("reports", {}, task="send_mail")
            assert client.jobs.wait(report, timeout=30) == {"report": "ada.pdf"}
            with pytest.raises(JobFailed, match="nobody to send it to"):
                client.jobs.wait(nobody, timeout=30)
    finally:
        worker.send_signal(signal.SIGTERM)
        printed, _ = worker.communicate(timeout=20)

    assert (printed, worker.returncode) == ("wrote the report for ada\n", 0)

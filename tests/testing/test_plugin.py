"""The pytest plugin as its users have it: in a run of its own, with boto3, jobs and several processes."""

from __future__ import annotations

import subprocess
import sys
import time
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from penstock.testing import MemoryServer
from tests.docs.pages import blocks, page

SUITE = """
import boto3, httpx, penstock, pytest

def test_sqs(penstock_sqs):
    url = penstock_sqs.create_queue(QueueName="same-name")["QueueUrl"]
    penstock_sqs.send_message(QueueUrl=url, MessageBody="hello")
    [message] = penstock_sqs.receive_message(QueueUrl=url, WaitTimeSeconds=5)["Messages"]
    assert message["Body"] == "hello"

@pytest.mark.parametrize("n", range(4))
def test_every_test_has_a_world_of_its_own(penstock_sqs, n):
    assert "QueueUrls" not in penstock_sqs.list_queues()
    penstock_sqs.create_queue(QueueName="same-name")

def test_sns_to_sqs(penstock_sns, penstock_sqs):
    url = penstock_sqs.create_queue(QueueName="inbox")["QueueUrl"]
    arn = penstock_sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    topic = penstock_sns.create_topic(Name="news")["TopicArn"]
    penstock_sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn)
    penstock_sns.publish(TopicArn=topic, Message="extra")
    assert penstock_sqs.receive_message(QueueUrl=url, WaitTimeSeconds=5)["Messages"]

def test_jobs(penstock_client):
    assert penstock_client.jobs.status(penstock_client.jobs.enqueue("mail", {"to": "ada"})) == "pending"

app = penstock.App(queue="math")
add = app.task(name="add")(lambda x, y: x + y)

@pytest.mark.parametrize("n", range(2))
def test_the_programs_own_clients(penstock_environment, n):
    job_id = add.enqueue(2, 3)
    app.work(drain=True)
    assert app.client.jobs.wait(job_id, timeout=5) == 5
    app.close()
    boto3.client("sqs").create_queue(QueueName="mine")
    assert [queue.name for queue in penstock.Client().queues.list()] == ["mine"]

def test_rest(penstock_tenant):
    made = httpx.post(f"{penstock_tenant.url}/v1/queues", json={"name": "q"}, headers=penstock_tenant.headers)
    assert made.status_code == 201
"""


def python_of(name: str) -> list[str]:
    return [text for language, text in blocks(page(name)) if language == "python"]


@pytest.mark.parametrize(
    "options",
    [pytest.param([], id="one process"), pytest.param(["-n", "2"], id="xdist", marks=pytest.mark.slow)],
)
def test_the_fixtures_serve_a_suite_and_the_examples_of_the_page(tmp_path: Path, options: list[str]) -> None:
    (tmp_path / "test_suite.py").write_text(SUITE)
    (tmp_path / "test_page.py").write_text("\n".join(python_of("docs/testing.md")))
    (tmp_path / "shop.py").write_text(python_of("docs/tasks.md")[0])

    # Pytest finds the plugin of an installed package by itself, and refuses to load it twice.
    found = entry_points(group="pytest11", name="penstock")
    plugin = ["-p", "no:cacheprovider", *([] if found else ["-p", "penstock.testing.plugin"])]
    quiet = ["-o", "asyncio_default_fixture_loop_scope=function"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *plugin, *options, *quiet, "--rootdir", str(tmp_path), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=100,
    )

    assert "14 passed" in done.stdout, done.stdout + done.stderr


def test_a_server_starts_and_stops_within_a_process() -> None:
    with MemoryServer():
        pass
    began = time.process_time()
    with MemoryServer() as server:
        started = time.process_time() - began
        first, second = server.new_tenant(), server.new_tenant()

    assert first.token != second.token
    # Processor time, since the machine may be busy; the modules are imported already.
    assert started < 0.7


def test_a_setting_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(TypeError, match="no_such_setting"), MemoryServer(no_such_setting=1):
        pass

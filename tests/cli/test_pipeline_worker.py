"""`penstock pipeline worker`: jobs run pipelines and the upkeep of the lake. Without Spark: upkeep needs none."""

from __future__ import annotations

import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from penstock.cli import app
from penstock.cli.database import Database
from penstock.cli.pipeline_worker import PipelineWorker, arguments
from penstock.client import Client
from penstock.config import Settings
from penstock.errors import Invalid, NotFound
from tests import cluster
from tests.cli.runner import CliRunner

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def dsn(postgres_dsn: str) -> Iterator[str]:
    with cluster.migrated_database(postgres_dsn) as found:
        yield found


@pytest.fixture
def client(dsn: str) -> Iterator[Client]:
    opened = Database(Settings.load({}, {}, {"database_url": dsn}), "default", creates=False)
    with Client(transport=opened) as found:
        yield found


def work(dsn: str, lake: Path, queue: str) -> None:
    given = ["pipeline", "worker", "--queue", queue, "--lake", str(lake), "--drain", "--database-url", dsn]
    done = CliRunner().invoke(app, given)
    assert done.exit_code == 0, done.output


def test_a_job_is_a_command_with_settings_of_its_pipeline() -> None:
    archive = {"pipeline": "archive", "settings": {"stream": ["a", "-b"], "messages": True, "partition-by": "date"}}
    replay = {"pipeline": "replay", "settings": {"name": "--lake", "to": "orders", "limit": 5}}

    assert arguments(archive) == [
        "pipeline", "run", "archive", "--stream=a", "--stream=-b", "--messages", "--partition-by=date",
    ]  # fmt: skip
    assert arguments(replay) == ["pipeline", "run", "replay", "--to=orders", "--limit=5", "--", "--lake"]
    assert arguments({"pipeline": "cdc", "settings": {"history": False}}) == ["pipeline", "run", "cdc", "--no-history"]
    assert arguments({"pipeline": "compact"}) == ["lake", "compact"]
    assert arguments({"pipeline": "vacuum", "settings": {"retention": "3d"}}) == ["lake", "vacuum", "--retention=3d"]


@pytest.mark.parametrize(
    "payload",
    [
        None,
        {"pipeline": 1},
        {"pipeline": "archive", "settings": []},
        {"pipeline": "archive", "other": 1},
        {"pipeline": "archive", "settings": {"conf": "spark.driver.extraJavaOptions=x"}},
        {"pipeline": "archive", "settings": {"master": "spark://elsewhere:7077"}},
        {"pipeline": "archive", "settings": {"database_url": "postgresql://elsewhere"}},
        {"pipeline": "archive", "settings": {"lake": "/etc"}},
        {"pipeline": "archive", "settings": {"stream": {"a": 1}}},
        {"pipeline": "compact", "settings": {"path": "/etc"}},
    ],
)
def test_a_job_decides_about_nothing_else(payload: Any) -> None:
    with pytest.raises(Invalid):
        arguments(payload)


def test_a_job_cannot_import() -> None:
    with pytest.raises(NotFound, match="cannot run 'import'"):
        arguments({"pipeline": "import", "settings": {"source": "csv"}})


def test_a_schedule_compacts_the_lake(dsn: str, client: Client, tmp_path: Path) -> None:
    for number in range(3):
        write_deltalake(str(tmp_path / "events"), pa.table({"n": [number]}), mode="append")
    given = ["--kind", "job", "--message", '{"pipeline": "compact"}', "--cron", "0 3 * * *", "--database-url", dsn]
    for command in (["create", "nightly", "upkeep", *given], ["run", "nightly", "--database-url", dsn]):
        done = CliRunner().invoke(app, ["schedule", *command])
        assert done.exit_code == 0, done.output

    work(dsn, tmp_path, "upkeep")

    [job] = client.jobs.list(queue_name="upkeep").items
    assert job.status == "completed", job.error_text
    assert len(DeltaTable(str(tmp_path / "events")).file_uris()) == 1
    assert "merged 3 files into 1" in client.jobs.get(job.id).result["said"]


def test_a_job_that_fails_says_why_and_is_retried(dsn: str, client: Client, tmp_path: Path) -> None:
    failing = client.jobs.enqueue("failing", {"pipeline": "compact", "settings": {"file-mb": 0}}, max_retries=1)
    refused = client.jobs.enqueue("failing", {"pipeline": "nonsense"})

    work(dsn, tmp_path, "failing")

    assert client.jobs.get(refused).status == "dead"
    assert "cannot run 'nonsense'" in str(client.jobs.get(refused).error_text)
    assert client.jobs.get(failing).status == "pending"
    assert client.jobs.get(failing).retry_count == 1
    assert "file-mb" in str(client.jobs.get(failing).error_text)


def test_a_lost_lease_ends_the_run(dsn: str, client: Client) -> None:
    client.jobs.enqueue("lost", {"pipeline": "compact"})
    [leased] = client.jobs.lease("lost", "me", lease_seconds=120)
    client.jobs.nack(leased, "as if the lease had ended")
    worker = PipelineWorker(client, {}, {}, threading.Event().is_set, beat_s=0.1)

    with tempfile.TemporaryFile() as log:
        assert worker._run(leased, [sys.executable, "-c", "import time; time.sleep(60)"], log) is None

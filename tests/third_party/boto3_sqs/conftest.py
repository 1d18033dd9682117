"""boto3, in the protocol it speaks today and in the one it spoke until 2023."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import boto3
import botocore.session
import pytest

from tests.system.serving import Running
from tests.third_party.boto3_sqs.calls import CONFIG, Connect
from tests.third_party.environment import KEY, REGION, SECRET
from tests.third_party.query_model import write_query_model

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of the four pairs of store and protocol, three are quick enough for every run; two, with many clients."""
    for item in items:
        if item.path.is_relative_to(HERE):
            slow = "query" if item.path.name == "test_many_at_once.py" else "postgres-query"
            if slow in item.name:
                item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def query_models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    write_query_model(folder)
    return folder


@pytest.fixture(scope="session", params=["json", "query"])
def session(request: pytest.FixtureRequest, query_models: Path) -> boto3.Session:
    core = botocore.session.Session()
    if request.param == "query":
        core.get_component("data_loader").search_paths.insert(0, str(query_models))
    return boto3.Session(KEY, SECRET, region_name=REGION, botocore_session=core)


@pytest.fixture
def connect(server: Running, session: boto3.Session) -> Connect:
    """Makes clients of their own, which threads do not share here."""

    def make(**more: Any) -> Any:
        return session.client("sqs", endpoint_url=server.url, config=CONFIG, **more)

    return make


@pytest.fixture
def sqs(connect: Connect) -> Any:
    return connect()


@pytest.fixture
def url(sqs: Any, name: str) -> str:
    """A standard queue."""
    return str(sqs.create_queue(QueueName=name)["QueueUrl"])


@pytest.fixture
def fifo(sqs: Any, name: str) -> str:
    attributes = {"FifoQueue": "true", "ContentBasedDeduplication": "true"}
    return str(sqs.create_queue(QueueName=f"{name}.fifo", Attributes=attributes)["QueueUrl"])

"""boto3 against a server that checks signatures."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from tests import cluster
from tests.system.serving import penstock, serving
from tests.third_party.boto3_sqs.calls import ATTRIBUTES, CONFIG, counts, delete, receive_one
from tests.third_party.environment import KEY, SECRET


@contextmanager
def checking(*place: str) -> Iterator[tuple[str, str, str]]:
    """The address of a server that checks signatures, and an access key."""
    created = penstock("token", "create", "--aws", "--json", *place)
    assert created.returncode == 0, created.stderr
    key = json.loads(created.stdout)
    with serving("--auth", "sigv4", *place) as server:
        yield server.url, key["access_key_id"], key["secret_access_key"]


@pytest.fixture(scope="session")
def signed_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str, str]]:
    with checking("--sqlite", str(tmp_path_factory.mktemp("signed") / "penstock.db")) as found:
        yield found


@pytest.fixture(scope="session")
def signed_postgres(postgres_dsn: str) -> Iterator[tuple[str, str, str]]:
    with cluster.migrated_database(postgres_dsn) as dsn, checking("--database-url", dsn) as found:
        yield found


@pytest.fixture(params=["sqlite", "postgres"])
def signed(request: pytest.FixtureRequest) -> tuple[str, str, str]:
    found: tuple[str, str, str] = request.getfixturevalue(f"signed_{request.param}")
    return found


def test_a_signed_life_is_a_whole_one(signed: tuple[str, str, str], session: boto3.Session, name: str) -> None:
    address, key, secret = signed
    sqs: Any = session.client(
        "sqs", endpoint_url=address, aws_access_key_id=key, aws_secret_access_key=secret, config=CONFIG
    )
    url = sqs.create_queue(QueueName=name)["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody="signed & sealed 🚰", MessageAttributes=ATTRIBUTES)
    message = receive_one(sqs, url, MessageAttributeNames=["All"])
    assert (message["Body"], message["MessageAttributes"]) == ("signed & sealed 🚰", ATTRIBUTES)
    delete(sqs, url, [message])
    assert counts(sqs, url) == (0, 0, 0)
    sqs.delete_queue(QueueUrl=url)


@pytest.mark.parametrize(
    ("forged", "code"), [("secret", "SignatureDoesNotMatch"), ("key", "InvalidClientTokenId")], ids=["secret", "key"]
)
def test_a_forged_signature_opens_nothing(
    signed: tuple[str, str, str], session: boto3.Session, forged: str, code: str
) -> None:
    address, key, secret = signed
    sqs: Any = session.client(
        "sqs",
        endpoint_url=address,
        aws_access_key_id=KEY if forged == "key" else key,
        aws_secret_access_key=SECRET if forged == "secret" else secret,
        config=CONFIG,
    )

    with pytest.raises(ClientError) as refused:
        sqs.list_queues()

    assert refused.value.response["Error"]["Code"] == code
    assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 403

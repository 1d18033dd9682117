"""A server that verifies signatures, as AWS SDKs meet it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import boto3
import httpx
import pytest
from botocore.auth import SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials
from botocore.exceptions import ClientError

from tests.system.serving import Running, penstock, serving

Key = tuple[str, str]


def announced(server: Running, name: str) -> str:
    found = re.search(rf"^export {name}=(\S+)$", server.said, re.M)
    assert found is not None, server.said
    return found[1]


def first_key(server: Running) -> Key:
    return announced(server, "AWS_ACCESS_KEY_ID"), announced(server, "AWS_SECRET_ACCESS_KEY")


def sqs(server: Running, key: Key, region: str = "us-east-1") -> Any:
    return boto3.client(
        "sqs",
        endpoint_url=server.url,
        region_name=region,
        aws_access_key_id=key[0],
        aws_secret_access_key=key[1],
        config=Config(retries={"total_max_attempts": 1}),
    )


def fault(error: pytest.ExceptionInfo[ClientError]) -> tuple[str, int]:
    answer = error.value.response
    return answer["Error"]["Code"], answer["ResponseMetadata"]["HTTPStatusCode"]


@pytest.fixture(scope="module")
def memory() -> Iterator[Running]:
    with serving("--memory", "--auth", "sigv4") as server:
        yield server


def test_the_first_start_shows_a_key_and_a_token_once(tmp_path: Path) -> None:
    store = ("--sqlite", tmp_path / "q.db", "--auth", "sigv4")
    with serving(*store) as server:
        key_id, secret = first_key(server)
        assert re.fullmatch(r"PSAK[A-Z0-9]{16}", key_id)
        assert server.status("/v1/queues", announced(server, "PENSTOCK_TOKEN")) == 200
        assert secret not in server.log
    with serving(*store) as server:
        assert "export" not in server.said
        assert "penstock token create --aws" in server.said


def test_the_rest_door_takes_tokens_and_no_keys(memory: Running) -> None:
    key_id, secret = first_key(memory)
    assert memory.status("/v1/queues", announced(memory, "PENSTOCK_TOKEN")) == 200
    for wrong in (secret, key_id, f"pst_{key_id}_{secret}"):
        assert memory.status("/v1/queues", wrong) == 401
    header = {"Authorization": f"AWS4-HMAC-SHA256 Credential={key_id}/20260101/us-east-1/sqs/aws4_request"}
    assert httpx.get(f"{memory.url}/v1/queues", headers=header).status_code == 401


def test_a_key_opens_the_sqs_door(memory: Running) -> None:
    client = sqs(memory, first_key(memory))
    url = client.create_queue(QueueName="signed")["QueueUrl"]
    client.send_message(QueueUrl=url, MessageBody="hé <llo> & +")

    [message] = client.receive_message(QueueUrl=url)["Messages"]

    assert message["Body"] == "hé <llo> & +"
    client.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])


@pytest.mark.parametrize(
    ("key_id", "secret", "code"),
    [
        (None, "wrong", "SignatureDoesNotMatch"),
        ("PSAK0000000000000000", None, "InvalidClientTokenId"),
        ("test", "test", "InvalidClientTokenId"),
    ],
)
def test_a_wrong_key_opens_nothing(key_id: str | None, secret: str | None, code: str, memory: Running) -> None:
    good = first_key(memory)
    with pytest.raises(ClientError) as refused:
        sqs(memory, (key_id or good[0], secret or good[1])).list_queues()
    assert fault(refused) == (code, 403)


def test_a_clock_far_off_is_told_so(memory: Running) -> None:
    late = (datetime.now(UTC) - timedelta(minutes=16)).replace(tzinfo=None)
    with patch("botocore.auth.get_current_datetime", return_value=late), pytest.raises(ClientError) as refused:
        sqs(memory, first_key(memory)).list_queues()
    assert fault(refused) == ("SignatureDoesNotMatch", 403)
    assert "Signature expired" in str(refused.value)


def test_a_presigned_address_needs_no_header(memory: Running) -> None:
    key = first_key(memory)
    asked = AWSRequest("GET", f"{memory.url}/", params={"Action": "ListQueues", "Version": "2012-11-05"})
    SigV4QueryAuth(Credentials(*key), "sqs", "us-east-1", 60).add_auth(asked)

    assert asked.url is not None
    assert httpx.get(asked.url).status_code == 200
    forged = httpx.get(asked.url.replace("ListQueues", "ListQueueTags"))
    assert forged.status_code == 403
    assert "SignatureDoesNotMatch" in forged.text


def test_nothing_at_all_opens_nothing(memory: Running) -> None:
    for answer in (
        httpx.get(f"{memory.url}/?Action=ListQueues"),
        httpx.post(f"{memory.url}/", data={"Action": "ListQueues"}),
    ):
        assert answer.status_code == 403
        assert "MissingAuthenticationToken" in answer.text


def test_keys_have_tenants_scopes_queues_and_an_end(tmp_path: Path) -> None:
    store = ("--sqlite", tmp_path / "q.db")
    with serving(*store, "--auth", "sigv4") as server:

        def make(*arguments: str) -> Key:
            made = penstock("token", "create", "--aws", *arguments, *store).stdout.split()
            return made[0].partition("=")[2], made[1].partition("=")[2]

        admin = sqs(server, first_key(server))
        url = admin.create_queue(QueueName="orders-eu")["QueueUrl"]
        other = admin.create_queue(QueueName="invoices")["QueueUrl"]

        sender = sqs(server, make("--scope", "send", "--queues", "orders-*"))
        sender.send_message(QueueUrl=url, MessageBody="hello")
        forbidden: list[tuple[Any, dict[str, str]]] = [
            (sender.receive_message, {"QueueUrl": url}),
            (sender.send_message, {"QueueUrl": other, "MessageBody": "hello"}),
            (sender.delete_queue, {"QueueUrl": url}),
        ]
        for action, arguments in forbidden:
            with pytest.raises(ClientError) as refused:
                action(**arguments)
            assert fault(refused)[1] == 403

        penstock("tenant", "create", "acme", *store)
        stranger = sqs(server, make("--tenant", "acme"))
        assert "QueueUrls" not in stranger.list_queues()
        assert "QueueUrls" not in sqs(server, first_key(server), "eu-west-1").list_queues()

        with pytest.raises(ClientError) as refused:
            sqs(server, make("--expires", "0s")).list_queues()
        assert fault(refused) == ("InvalidClientTokenId", 403)

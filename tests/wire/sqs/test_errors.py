"""What SQS refuses, and in which words: every row is sent in both protocols."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio

from penstock import errors
from penstock.errors import BY_CODE
from penstock.wire.sqs import errors as sqs_errors
from tests.plain import PLAIN
from tests.wire.amazon import Raw, text, xml
from tests.wire.conftest import running
from tests.wire.sqs.refusals import (
    batches,
    moves,
    queue_attributes,
    queues,
    receiving,
    sending,
    shapes,
    tags_and_permissions,
)
from tests.wire.sqs.refusals.rows import Q, Row, arn
from tests.wire.sqs.refusals.shapes import QUERY_ROWS

PREFIX = "AWS.SimpleQueueService."
KINDS = {
    "Invalid": ("InvalidParameterValueException", "InvalidParameterValue", 400),
    "Missing": ("MissingRequiredParameterException", "MissingParameter", 400),
    "Malformed": ("SerializationException", "MalformedInput", 400),
    "AttributeName": ("InvalidAttributeName", "InvalidAttributeName", 400),
    "AttributeValue": ("InvalidAttributeValue", "InvalidAttributeValue", 400),
    "NoQueue": ("QueueDoesNotExist", f"{PREFIX}NonExistentQueue", 400),
    "Exists": ("QueueNameExists", "QueueAlreadyExists", 400),
    "Contents": ("InvalidMessageContents", "InvalidMessageContents", 400),
    "Receipt": ("ReceiptHandleIsInvalid", "ReceiptHandleIsInvalid", 400),
    "Empty": ("EmptyBatchRequest", f"{PREFIX}EmptyBatchRequest", 400),
    "TooMany": ("TooManyEntriesInBatchRequest", f"{PREFIX}TooManyEntriesInBatchRequest", 400),
    "EntryId": ("InvalidBatchEntryId", f"{PREFIX}InvalidBatchEntryId", 400),
    "NotDistinct": ("BatchEntryIdsNotDistinct", f"{PREFIX}BatchEntryIdsNotDistinct", 400),
    "TooLong": ("BatchRequestTooLong", f"{PREFIX}BatchRequestTooLong", 400),
    "Unsupported": ("UnsupportedOperation", f"{PREFIX}UnsupportedOperation", 400),
    "OverLimit": ("OverLimit", "OverLimit", 400),
    "NotFound": ("ResourceNotFoundException", "ResourceNotFoundException", 404),
}
ROWS = [
    *queues.ROWS,
    *queue_attributes.ROWS,
    *sending.ROWS,
    *batches.ROWS,
    *receiving.ROWS,
    *tags_and_permissions.ROWS,
    *moves.ROWS,
    *shapes.ROWS,
]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def world() -> AsyncIterator[tuple[Raw, dict[str, str]]]:
    """A server with the queues of the table, and the handles it names. What is refused leaves it as it is."""
    async with running() as live, httpx.AsyncClient(base_url=live.url, trust_env=False, verify=PLAIN) as http:
        raw = Raw(http)
        policy = json.dumps({"deadLetterTargetArn": arn("dead"), "maxReceiveCount": 1})
        for name, attributes in {
            "q": {},
            "other": {},
            "small": {"MaximumMessageSize": "1024"},
            "q.fifo": {"FifoQueue": "true"},
            "dead": {},
            "source": {"RedrivePolicy": policy},
        }.items():
            assert (await raw.json("CreateQueue", {"QueueName": name, "Attributes": attributes})).status_code == 200
        await raw.json(
            "AddPermission", Q | {"Label": "known", "AWSAccountIds": ["111111111111"], "Actions": ["SendMessage"]}
        )
        yield (
            raw,
            {
                "HANDLE": await _received(raw, "q"),
                "OTHER": await _received(raw, "other"),
                "GONE": await _received(raw, "q", delete=True),
            },
        )


async def _received(raw: Raw, queue: str, *, delete: bool = False) -> str:
    await raw.json("SendMessage", {"QueueUrl": queue, "MessageBody": "x"})
    answer = await raw.json("ReceiveMessage", {"QueueUrl": queue})
    handle: str = answer.json()["Messages"][0]["ReceiptHandle"]
    if delete:
        await raw.json("DeleteMessage", {"QueueUrl": queue, "ReceiptHandle": handle})
    return handle


def filled(given: dict[str, Any], handles: dict[str, str]) -> dict[str, Any]:
    receipt = given.get("ReceiptHandle")
    return given | {"ReceiptHandle": handles[receipt]} if receipt in handles else given


def test_the_table_is_long_enough() -> None:
    assert len(ROWS) >= 150
    assert len({json.dumps([row.action, row.given], default=str) for row in ROWS}) == len(ROWS)


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize("row", ROWS, ids=str)
async def test_in_json(world: tuple[Raw, dict[str, str]], row: Row) -> None:
    raw, handles = world
    given = filled(row.given, handles)
    kind, code, status = KINDS[row.kind]

    answer = await raw.json(row.action, given)

    assert (answer.status_code, answer.json()["__type"].partition("#")[2]) == (status, kind), answer.text
    assert answer.headers["x-amzn-query-error"] == f"{code};Sender"
    if row.message is not None:
        assert answer.json()["message"] == row.message


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize("row", [*(row for row in ROWS if row.query != ""), *QUERY_ROWS], ids=str)
async def test_in_query(world: tuple[Raw, dict[str, str]], row: Row) -> None:
    raw, handles = world
    given = filled(row.given, handles)
    _, code, status = KINDS[row.query_kind or row.kind]

    answer = await raw.query(row.action, given)

    found = xml(answer)
    assert (answer.status_code, text(found, "Error", "Code")) == (status, code), answer.text
    assert text(found, "Error", "Type") == "Sender"
    expected = row.query or row.message
    if expected is not None:
        # XML has no way to write the control characters some rows are about.
        assert text(found, "Error", "Message") == expected


def test_every_error_of_the_tree_has_a_kind() -> None:
    for error in BY_CODE.values():
        assert error in sqs_errors.FAULTS, error
    for kind in sqs_errors.FAULTS.values():
        assert kind in sqs_errors.KINDS or kind in sqs_errors.COMMON, kind


def test_what_is_foreseen_is_no_fault_of_ours() -> None:
    ours = {errors.PenstockError, errors.Unavailable}
    for kind in BY_CODE.values():
        error = kind()
        assert (sqs_errors.to_aws_error(error).fault == "Receiver") == (kind in ours), kind

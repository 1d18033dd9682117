"""A row of what SQS refuses, and the words that several rows share."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any
from zlib import crc32

NO_DEDUP = (
    "The queue should either have ContentBasedDeduplication enabled or MessageDeduplicationId provided explicitly"
)
WRONG_TYPE = "The request include parameter that is not valid for this queue type."
Q = {"QueueUrl": "q"}
FIFO = {"QueueUrl": "q.fifo"}


@dataclass(frozen=True)
class Row:
    action: str
    given: dict[str, Any]
    kind: str
    message: str | None
    query: str | None = None
    """The message in the Query protocol, where that is another; '' where the row has no meaning there."""
    query_kind: str | None = None

    def __str__(self) -> str:
        return f"{self.action}-{self.kind}-{crc32(json.dumps(self.given, default=str).encode()):08x}"


class Rows(list[Row]):
    """A part of the table, written row by row."""

    def row(self, action: str, given: dict[str, Any], kind: str, message: str | None, **more: Any) -> None:
        self.append(Row(action, given, kind, message, **more))


def arn(name: str, service: str = "sqs") -> str:
    return f"arn:aws:{service}:us-east-1:000000000000:{name}"


def value(shown: object, parameter: str, reason: str) -> str:
    return f"Value {shown} for parameter {parameter} is invalid. Reason: {reason}"


def must_contain(parameter: str) -> str:
    return f"The request must contain the parameter {parameter}."


def id_text(parameter: str) -> str:
    return f"{parameter} can only include alphanumeric and punctuation characters. 1 to 128 in length."

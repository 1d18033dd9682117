"""Amazon resource names (ARNs) of queues and topics."""

from __future__ import annotations

from typing import NamedTuple

ACCOUNT = "000000000000"
"""The account of every queue and topic. Any other account in a path or an ARN is accepted and means this one."""


class Arn(NamedTuple):
    partition: str
    service: str
    region: str
    account: str
    resource: str

    def __str__(self) -> str:
        return ":".join(("arn", *self))


def parse_arn(text: str) -> Arn | None:
    parts = text.split(":", 5)
    if len(parts) != 6 or parts[0] != "arn" or not all(parts):
        return None
    return Arn(*parts[1:])


def partition_of(region: str) -> str:
    if region.startswith("cn-"):
        return "aws-cn"
    return "aws-us-gov" if region.startswith("us-gov-") else "aws"


def queue_arn(region: str, name: str) -> str:
    return str(Arn(partition_of(region), "sqs", region, ACCOUNT, name))


def sns_arn(region: str, resource: str) -> str:
    """The ARN of a topic, or of anything else of SNS."""
    return str(Arn(partition_of(region), "sns", region, ACCOUNT, resource))


def subscription_arn(region: str, topic: str, key: str) -> str:
    return sns_arn(region, f"{topic}:{key}")

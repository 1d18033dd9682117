"""The attributes of a queue: which there are, which values they take, how they read in the engine's settings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from penstock.model import DedupScope, Queue, QueueCounts, ThroughputLimit
from penstock.model.arns import queue_arn
from penstock.wire.aws.errors import AwsError
from penstock.wire.sqs.errors import sqs_error
from penstock.wire.sqs.policies import POLICY_BYTES, check_allow_policy, check_policy, redrive_shown
from penstock.wire.sqs.types import AttributeValue

NUMBERS: dict[str, tuple[str, tuple[int, int]]] = {
    "DelaySeconds": ("delay_s", (0, 900)),
    "MaximumMessageSize": ("max_message_bytes", (1_024, 1_048_576)),
    "MessageRetentionPeriod": ("retention_s", (60, 1_209_600)),
    "ReceiveMessageWaitTimeSeconds": ("receive_wait_s", (0, 20)),
    "VisibilityTimeout": ("visibility_timeout_s", (0, 43_200)),
}
"""Attributes that are numbers: the engine's setting, and AWS's bounds."""
REUSE_S = (60, 86_400)

SCOPES = {"queue": DedupScope.QUEUE, "messageGroup": DedupScope.GROUP}
LIMITS = {"perQueue": ThroughputLimit.QUEUE, "perMessageGroupId": ThroughputLimit.GROUP}
ON_FIFO = ("FifoQueue", "ContentBasedDeduplication", "DeduplicationScope", "FifoThroughputLimit")
KMS = ("KmsMasterKeyId", "KmsDataKeyReusePeriodSeconds")
WRITABLE = (*NUMBERS, "Policy", "RedrivePolicy", "RedriveAllowPolicy", *KMS, "SqsManagedSseEnabled", *ON_FIFO)
COUNTED = (
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesNotVisible",
    "ApproximateNumberOfMessagesDelayed",
)
READABLE = frozenset({*WRITABLE, *COUNTED, "CreatedTimestamp", "LastModifiedTimestamp", "QueueArn", "All"})

_DIGITS = re.compile(r"[0-9]{1,10}")


@dataclass(slots=True)
class Changes:
    """What a set of attributes means: settings of the engine, and labels it keeps for us (None: removed)."""

    settings: dict[str, Any] = field(default_factory=dict)
    labels: dict[str, str | None] = field(default_factory=dict)
    redrive: str | None = None
    """The text of a RedrivePolicy; '' takes it away."""


def texts(given: Mapping[str, AttributeValue] | None) -> dict[str, str]:
    """The attributes as texts. null says nothing; `True` is how some clients write true."""
    found = {}
    for name, value in (given or {}).items():
        if isinstance(value, bool):
            found[name] = "true" if value else "false"
        elif value is not None:
            found[name] = str(value)
    return found


def is_true(value: str | None) -> bool:
    return value is not None and value.lower() == "true"


def unknown(name: str) -> AwsError:
    return sqs_error("InvalidAttributeName", f"Unknown Attribute {name}.")


def bad_value(name: str, reason: str = "") -> AwsError:
    text = f"Invalid value for the parameter {name}."
    return sqs_error("InvalidAttributeValue", f"{text} Reason: {reason}" if reason else text)


def read_attributes(given: Mapping[str, str], *, fifo: bool, have: Mapping[str, str] | None) -> Changes:
    """Check attributes for a queue of this kind; `have` are those of a queue that is there, None is a new one.

    The caller checks RedrivePolicy, which needs other queues.
    """
    _check_names(given, fifo)
    _check_sizes(given)
    changes = Changes()
    for name, value in given.items():
        if name in NUMBERS:
            setting, bounds = NUMBERS[name]
            changes.settings[setting] = _number(name, value, bounds)
        elif name in ON_FIFO:
            _read_fifo(name, value, changes, new=have is None)
        elif name == "RedrivePolicy":
            changes.redrive = value
        else:
            _read_label(name, value, changes)
    _check_throughput(given, have or {})
    _settle_encryption(given, changes)
    return changes


def _check_sizes(given: Mapping[str, str]) -> None:
    """Values are stored as given, so padding counts. A policy has a refusal of its own."""
    for name, value in given.items():
        if name != "Policy" and len(value.encode()) > POLICY_BYTES:
            raise bad_value(name)


def _check_names(given: Mapping[str, str], fifo: bool) -> None:
    for name in given:
        if not fifo and name in ("DeduplicationScope", "FifoThroughputLimit"):
            text = f"You can specify the {name} only when FifoQueue is set to true."
            raise sqs_error("InvalidAttributeName", text)
        if name not in WRITABLE or (not fifo and name in ON_FIFO):
            raise unknown(name)


def _number(name: str, value: str, bounds: tuple[int, int]) -> int:
    if _DIGITS.fullmatch(value) is None or not bounds[0] <= int(value) <= bounds[1]:
        raise bad_value(name)
    return int(value)


def _flag(name: str, value: str) -> bool:
    if value.lower() not in ("true", "false"):
        raise bad_value(name)
    return value.lower() == "true"


def _read_fifo(name: str, value: str, changes: Changes, *, new: bool) -> None:
    if name == "FifoQueue":
        if not _flag(name, value):
            raise bad_value(name, "Modifying queue type is not supported.")
    elif name == "ContentBasedDeduplication":
        changes.settings["content_dedup"] = _flag(name, value)
    elif name == "FifoThroughputLimit":
        if value not in LIMITS:
            raise bad_value(name)
        changes.settings["throughput_limit"] = LIMITS[value]
    else:
        if value not in SCOPES:
            raise bad_value(name)
        # Changed later it is shown, but the queue goes on as it was made: so does AWS.
        changes.labels[name] = value
        if new:
            changes.settings["dedup_scope"] = SCOPES[value]


def _check_throughput(given: Mapping[str, str], have: Mapping[str, str]) -> None:
    scope = given.get("DeduplicationScope", have.get("DeduplicationScope"))
    if given.get("FifoThroughputLimit") == "perMessageGroupId" and scope != "messageGroup":
        text = "The perMessageGroupId value is allowed only when the value for DeduplicationScope is messageGroup"
        raise sqs_error("InvalidAttributeValue", text)


def _read_label(name: str, value: str, changes: Changes) -> None:
    if name == "Policy":
        check_policy(value)
    elif name == "RedriveAllowPolicy":
        check_allow_policy(value)
    elif name == "SqsManagedSseEnabled":
        value = "true" if _flag(name, value) else "false"
    elif name == "KmsDataKeyReusePeriodSeconds":
        _number(name, value, REUSE_S)
    changes.labels[name] = value or None


def _settle_encryption(given: Mapping[str, str], changes: Changes) -> None:
    """One kind of encryption at a time: a key of KMS, or SQS's own."""
    keyed, managed = given.get("KmsMasterKeyId"), is_true(given.get("SqsManagedSseEnabled"))
    if keyed and managed:
        text = (
            "You can use one type of server-side encryption (SSE) at one time. "
            "You can either enable KMS SSE or SQS SSE."
        )
        raise sqs_error("InvalidAttributeName", text)
    if keyed:
        changes.labels["SqsManagedSseEnabled"] = "false"
    elif keyed == "" or managed:
        changes.labels.update(dict.fromkeys(KMS))


# Outwards


def shown(queue: Queue, region: str) -> dict[str, str]:
    """Every attribute that does not need counting."""
    settings, labels = queue.settings, queue.settings.labels
    found = {
        "QueueArn": queue_arn(region, queue.name),
        "CreatedTimestamp": _seconds(queue.created_at),
        "LastModifiedTimestamp": _seconds(queue.updated_at),
        **{name: str(getattr(settings, setting)) for name, (setting, _) in NUMBERS.items()},
        "SqsManagedSseEnabled": labels.get("SqsManagedSseEnabled", "true"),
        **{name: labels[name] for name in ("Policy", "RedriveAllowPolicy", *KMS) if name in labels},
    }
    if "KmsMasterKeyId" in labels:
        found.setdefault("KmsDataKeyReusePeriodSeconds", "300")
    redrive = redrive_shown(queue, region)
    if redrive is not None:
        found["RedrivePolicy"] = redrive
    if queue.fifo:
        found |= _fifo_shown(queue)
    return found


def _fifo_shown(queue: Queue) -> dict[str, str]:
    settings = queue.settings
    scope = next(name for name, scope in SCOPES.items() if scope == settings.dedup_scope)
    return {
        "FifoQueue": "true",
        "ContentBasedDeduplication": "true" if settings.content_dedup else "false",
        "DeduplicationScope": settings.labels.get("DeduplicationScope", scope),
        "FifoThroughputLimit": next(name for name, limit in LIMITS.items() if limit == settings.throughput_limit),
    }


def counted(counts: QueueCounts) -> dict[str, str]:
    return dict(zip(COUNTED, map(str, (counts.visible, counts.in_flight, counts.delayed)), strict=True))


def _seconds(moment: datetime) -> str:
    return str(int(moment.timestamp()))

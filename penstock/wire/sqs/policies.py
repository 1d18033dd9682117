"""The documents among a queue's attributes: who may use it, where its dead letters go, whose it takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from penstock import limits
from penstock.model import Queue
from penstock.model.arns import parse_arn, queue_arn
from penstock.wire.aws.errors import AwsError, invalid_value
from penstock.wire.sqs.errors import sqs_error

MAX_RECEIVES = (1, 1000)
MOST_SOURCES = 10
MOST_STATEMENTS = 20
POLICY_BYTES = 8192
POLICY_VERSIONS = ("2008-10-17", "2012-10-17")
POLICY_MEMBERS = frozenset({"Version", "Id", "Statement"})
STATEMENT_MEMBERS = frozenset(
    {
        "Sid", "Effect", "Principal", "NotPrincipal", "Action", "NotAction", "Resource", "NotResource", "Condition"
    }
)  # fmt: skip
MOST_ACTIONS = 7
SHARED_ACTIONS = frozenset(
    {
        "*", "ChangeMessageVisibility", "ChangeMessageVisibilityBatch", "DeleteMessage", "DeleteMessageBatch",
        "GetQueueAttributes", "GetQueueUrl", "ListDeadLetterSourceQueues", "PurgeQueue", "ReceiveMessage",
        "SendMessage", "SendMessageBatch",
    }
)  # fmt: skip
"""What an owner may let others do."""
OWNER_ACTIONS = frozenset(
    {
        "AddPermission", "CancelMessageMoveTask", "CreateQueue", "DeleteQueue", "ListMessageMoveTasks", "ListQueueTags",
        "ListQueues", "RemovePermission", "SetQueueAttributes", "StartMessageMoveTask", "TagQueue", "UntagQueue",
    }
)  # fmt: skip

_BAD_ALLOW_POLICY = (
    "Invalid value for the parameter RedriveAllowPolicy. Reason: Amazon SQS can't create the redrive allow policy, "
    "as it\N{RIGHT SINGLE QUOTATION MARK}s in an unsupported format."
)
_NO_SOURCES = (
    "Amazon SQS can't create the redrive allow policy. When you specify the byQueue permission type, "
    "you must also specify one or more sourceQueueArns values."
)
_NOT_BY_QUEUE = (
    "Amazon SQS can't create the redrive allow policy. To specify one or more source queue ARNs, "
    "you must set redrivePermission to byQueue."
)
_MANY_SOURCES = (
    "Amazon SQS can't create the redrive allow policy. The maximum number of source queue ARNs you can specify is 10."
)


def _document(text: str) -> dict[str, Any] | None:
    try:
        found = msgspec.json.decode(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


# Policy


def check_policy(text: str) -> None:
    if not text:
        return
    document = _document(text)
    statements = _statements(document) if document is not None and _is_policy(document) else None
    if not isinstance(statements, list) or not statements or not all(map(_is_statement, statements)):
        raise sqs_error("InvalidAttributeValue", "Invalid value for the parameter Policy.")
    _check_size(text, len(statements))


def _check_size(policy: str, statements: int) -> None:
    if statements > MOST_STATEMENTS:
        text = f"{statements} statements were found in the submitted policy, max allowed is {MOST_STATEMENTS}"
        raise sqs_error("OverLimit", text)
    size = len(policy.encode())
    if size > POLICY_BYTES:
        raise sqs_error("OverLimit", f"The submitted policy has {size} bytes, max allowed is {POLICY_BYTES}")


def _is_policy(document: dict[str, Any]) -> bool:
    return POLICY_MEMBERS.issuperset(document) and document.get("Version", POLICY_VERSIONS[0]) in POLICY_VERSIONS


def _is_statement(statement: Any) -> bool:
    return (
        isinstance(statement, dict)
        and STATEMENT_MEMBERS.issuperset(statement)
        and statement.get("Effect") in ("Allow", "Deny")
    )


def with_permission(policy: str | None, label: str, accounts: Sequence[str], actions: Sequence[str], arn: str) -> str:
    """The policy with one statement more."""
    document = _document(policy) if policy else None
    document = document or {"Version": "2008-10-17", "Id": f"{arn}/SQSDefaultPolicy", "Statement": []}
    statements = _statements(document)
    if any(statement.get("Sid") == label for statement in statements):
        raise invalid_value(label, "Label", "Already exists.")
    partition = arn.split(":", 2)[1]
    allowed = {
        "Sid": label,
        "Effect": "Allow",
        "Principal": {"AWS": _one_or_many([f"arn:{partition}:iam::{account}:root" for account in accounts])},
        "Action": _one_or_many([f"SQS:{action}" for action in actions]),
        "Resource": arn,
    }
    document["Statement"] = [*statements, allowed]
    changed = msgspec.json.encode(document).decode()
    _check_size(changed, len(statements) + 1)
    return changed


def without_permission(policy: str | None, label: str) -> str | None:
    """The policy without a statement; None when it was the last."""
    document = _document(policy) if policy else None
    statements = _statements(document or {})
    left = [statement for statement in statements if statement.get("Sid") != label]
    if document is None or len(left) == len(statements):
        raise invalid_value(label, "Label", "can't find label.")
    if not left:
        return None
    document["Statement"] = left
    return msgspec.json.encode(document).decode()


def _statements(document: dict[str, Any]) -> list[dict[str, Any]]:
    found = document.get("Statement") or []
    return [found] if isinstance(found, dict) else found


def _one_or_many(items: list[str]) -> str | list[str]:
    return items[0] if len(items) == 1 else items


# Redrive


def read_redrive(text: str, name: str, region: str) -> tuple[str, int]:
    """The dead-letter queue and the number of receives that a RedrivePolicy names."""
    document = _document(text)
    if document is None:
        reason = "Redrive policy is not a valid JSON map."
        raise sqs_error("InvalidAttributeValue", f"Invalid value for the parameter RedrivePolicy. Reason: {reason}")
    for member in ("maxReceiveCount", "deadLetterTargetArn"):
        if member not in document:
            raise bad_redrive(text, f"Redrive policy does not contain mandatory attribute: {member}.")
    if len(document) > 2:
        reason = "Only following attributes are supported: [maxReceiveCount, deadLetterTargetArn]."
        raise bad_redrive(text, reason)
    count = _max_receives(document["maxReceiveCount"])
    if count is None:
        reason = (
            f"Invalid value for maxReceiveCount: {document['maxReceiveCount']}, "
            "valid values are from 1 to 1000 both inclusive."
        )
        raise bad_redrive(text, reason)
    return _target(text, document["deadLetterTargetArn"], name, region), count


def bad_redrive(text: str, reason: str) -> AwsError:
    return invalid_value(text, "RedrivePolicy", reason)


def _max_receives(value: Any) -> int | None:
    """A number, or a text that is one."""
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 10:
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not MAX_RECEIVES[0] <= value <= MAX_RECEIVES[1]:
        return None
    return value


def _target(text: str, given: Any, name: str, region: str) -> str:
    arn = parse_arn(given) if isinstance(given, str) else None
    if arn is None:
        raise bad_redrive(text, "Invalid value for deadLetterTargetArn.")
    if arn.service != "sqs":
        raise bad_redrive(text, "Only SQS queues are valid resources for deadLetterTargetArn.")
    if arn.region != region or limits.QUEUE_NAME.fullmatch(arn.resource) is None:
        raise bad_redrive(text, "Dead letter target does not exist.")
    if arn.resource.endswith(".fifo") != name.endswith(".fifo"):
        raise bad_redrive(text, "Dead-letter queue must be same type of queue as the source..")
    return arn.resource


def redrive_shown(queue: Queue, region: str) -> str | None:
    """As it was given, while it still says what the queue does."""
    settings = queue.settings
    if settings.dead_letter_queue is None or settings.max_receives is None:
        return None
    kept = settings.labels.get("RedrivePolicy")
    if kept is not None:
        document = _document(kept) or {}
        arn = parse_arn(str(document.get("deadLetterTargetArn")))
        says = arn.resource if arn is not None else None, _max_receives(document.get("maxReceiveCount"))
        if says == (settings.dead_letter_queue, settings.max_receives):
            return kept
    target = queue_arn(region, settings.dead_letter_queue)
    return msgspec.json.encode({"deadLetterTargetArn": target, "maxReceiveCount": settings.max_receives}).decode()


# Redrive, seen from the other end


def check_allow_policy(text: str) -> None:
    if not text:
        return
    document = _document(text)
    if document is None or not document.keys() <= {"redrivePermission", "sourceQueueArns"}:
        raise sqs_error("InvalidAttributeValue", _BAD_ALLOW_POLICY)
    permission, sources = document.get("redrivePermission"), document.get("sourceQueueArns")
    listed = isinstance(sources, list) and all(isinstance(source, str) for source in sources)
    if permission not in ("allowAll", "denyAll", "byQueue") or not (sources is None or listed):
        raise sqs_error("InvalidAttributeValue", _BAD_ALLOW_POLICY)
    reason = _fault_in_sources(permission, sources)
    if reason is not None:
        raise invalid_value(text, "RedriveAllowPolicy", reason)


def _fault_in_sources(permission: str, sources: list[str] | None) -> str | None:
    if permission != "byQueue":
        return _NOT_BY_QUEUE if sources else None
    if not sources:
        return _NO_SOURCES
    return _MANY_SOURCES if len(sources) > MOST_SOURCES else None


def allows(target: Queue, source: str, region: str) -> bool:
    """Whether a dead-letter queue takes the dead letters of a queue."""
    policy = _document(target.settings.labels.get("RedriveAllowPolicy", "")) or {}
    if policy.get("redrivePermission") == "denyAll":
        return False
    if policy.get("redrivePermission") != "byQueue":
        return True
    named = (parse_arn(str(arn)) for arn in policy.get("sourceQueueArns") or ())
    return any(arn is not None and (arn.resource, arn.region) == (source, region) for arn in named)

"""Attributes of queues, and the documents among them."""

from __future__ import annotations

import json
from typing import Any

from tests.wire.sqs.refusals.rows import FIFO, Q, Rows, arn, must_contain, value

ONE_SSE = "You can use one type of server-side encryption (SSE) at one time. You can either enable KMS SSE or SQS SSE."
ALLOW_FORMAT = (
    "Invalid value for the parameter RedriveAllowPolicy. Reason: Amazon SQS can't create the redrive allow policy, "
    "as it\N{RIGHT SINGLE QUOTATION MARK}s in an unsupported format."
)
NO_SOURCES = (
    "Amazon SQS can't create the redrive allow policy. When you specify the byQueue permission type, "
    "you must also specify one or more sourceQueueArns values."
)

ROWS = Rows()
row = ROWS.row

# When a queue is made and when it is changed


def attribute(name: str, bad: str, kind: str, message: str | None, *, fifo: bool = False) -> None:
    kept = {"FifoQueue": "true"} if fifo else {}
    new = "new.fifo" if fifo else "new"
    row("CreateQueue", {"QueueName": new, "Attributes": {**kept, name: bad}}, kind, message)
    row("SetQueueAttributes", {"QueueUrl": "q.fifo" if fifo else "q", "Attributes": {name: bad}}, kind, message)


for name, values in {
    "DelaySeconds": ("-1", "901", "", " 6", "1.5", "x"),
    "MaximumMessageSize": ("1023", "1048577", "x"),
    "MessageRetentionPeriod": ("59", "1209601", "65.2"),
    "ReceiveMessageWaitTimeSeconds": ("-1", "21"),
    "VisibilityTimeout": ("-1", "43201"),
    "KmsDataKeyReusePeriodSeconds": ("59", "86401"),
    "SqsManagedSseEnabled": ("yes",),
}.items():
    for bad in values:
        attribute(name, bad, "AttributeValue", f"Invalid value for the parameter {name}.")
for name, bad in {"ContentBasedDeduplication": "x", "DeduplicationScope": "all", "FifoThroughputLimit": "none"}.items():
    attribute(name, bad, "AttributeValue", f"Invalid value for the parameter {name}.", fifo=True)
attribute(
    "FifoThroughputLimit", "perMessageGroupId", "AttributeValue",
    "The perMessageGroupId value is allowed only when the value for DeduplicationScope is messageGroup", fifo=True,
)  # fmt: skip
for name in ("Colour", "ApproximateNumberOfMessages", "QueueArn", "CreatedTimestamp", "All"):
    attribute(name, "1", "AttributeName", f"Unknown Attribute {name}.")
for name in ("DeduplicationScope", "FifoThroughputLimit"):
    attribute(name, "queue", "AttributeName", f"You can specify the {name} only when FifoQueue is set to true.")
attribute("ContentBasedDeduplication", "true", "AttributeName", "Unknown Attribute ContentBasedDeduplication.")
row(
    "SetQueueAttributes", FIFO | {"Attributes": {"FifoQueue": "false"}}, "AttributeValue",
    "Invalid value for the parameter FifoQueue. Reason: Modifying queue type is not supported.",
)  # fmt: skip
row(
    "SetQueueAttributes", Q | {"Attributes": {"FifoQueue": "true"}}, "AttributeName", "Unknown Attribute FifoQueue."
)  # fmt: skip
row(
    "SetQueueAttributes", Q | {"Attributes": {"KmsMasterKeyId": "k", "SqsManagedSseEnabled": "true"}},
    "AttributeName", ONE_SSE,
)  # fmt: skip
row("SetQueueAttributes", Q, "Missing", must_contain("Attributes"), query=must_contain("Attribute.Name"))
row("GetQueueAttributes", Q | {"AttributeNames": ["Colour"]}, "AttributeName", "Unknown Attribute Colour.")

# Documents among the attributes

STATEMENT: dict[str, Any] = {"Effect": "Allow", "Principal": "*", "Action": "SQS:SendMessage", "Resource": arn("q")}
BAD_POLICIES: list[dict[str, Any]] = [
    {},
    {"Statement": []},
    {"Statement": [STATEMENT | {"Effect": "Maybe"}]},
    {"Statement": [STATEMENT | {"Colour": "red"}]},
    {"Statement": STATEMENT, "Colour": "red"},
    {"Statement": STATEMENT, "Version": "2024-10-17"},
]
for bad in ("x", "[]", "5", *map(json.dumps, BAD_POLICIES)):
    attribute("Policy", bad, "AttributeValue", "Invalid value for the parameter Policy.")
attribute(
    "Policy", json.dumps({"Statement": [{"Effect": "Allow"}] * 21}), "OverLimit",
    "21 statements were found in the submitted policy, max allowed is 20",
)  # fmt: skip
attribute(
    "Policy", '{"Statement": [{"Effect": "Allow"}]}'.ljust(8193), "OverLimit",
    "The submitted policy has 8193 bytes, max allowed is 8192",
)  # fmt: skip
for name, start in {
    "KmsMasterKeyId": "alias/",
    "RedrivePolicy": json.dumps({"deadLetterTargetArn": arn("dead"), "maxReceiveCount": 3}),
    "RedriveAllowPolicy": '{"redrivePermission": "allowAll"}',
}.items():
    attribute(name, start.ljust(8193), "AttributeValue", f"Invalid value for the parameter {name}.")
for bad in (" ", "x", "[]", "4"):
    attribute(
        "RedrivePolicy", bad, "AttributeValue",
        "Invalid value for the parameter RedrivePolicy. Reason: Redrive policy is not a valid JSON map.",
    )  # fmt: skip
BAD_REDRIVES: list[tuple[dict[str, Any], str]] = [
    ({}, "Redrive policy does not contain mandatory attribute: maxReceiveCount."),
    ({"maxReceiveCount": 5}, "Redrive policy does not contain mandatory attribute: deadLetterTargetArn."),
    (
        {"deadLetterTargetArn": arn("dead"), "maxReceiveCount": 0},
        "Invalid value for maxReceiveCount: 0, valid values are from 1 to 1000 both inclusive.",
    ),
    (
        {"deadLetterTargetArn": arn("dead"), "maxReceiveCount": "1001"},
        "Invalid value for maxReceiveCount: 1001, valid values are from 1 to 1000 both inclusive.",
    ),
    ({"deadLetterTargetArn": "dummy", "maxReceiveCount": 42}, "Invalid value for deadLetterTargetArn."),
    (
        {"deadLetterTargetArn": arn("dead", "sns"), "maxReceiveCount": 5},
        "Only SQS queues are valid resources for deadLetterTargetArn.",
    ),
    (
        {"deadLetterTargetArn": arn("q.fifo"), "maxReceiveCount": 5},
        "Dead-letter queue must be same type of queue as the source..",
    ),
    ({"deadLetterTargetArn": arn("nowhere"), "maxReceiveCount": 5}, "Dead letter target does not exist."),
    (
        {"deadLetterTargetArn": "arn:aws:sqs:eu-west-1:000000000000:dead", "maxReceiveCount": 5},
        "Dead letter target does not exist.",
    ),
    (
        {"deadLetterTargetArn": arn("dead"), "maxReceiveCount": 5, "more": 1},
        "Only following attributes are supported: [maxReceiveCount, deadLetterTargetArn].",
    ),
]
for document, reason in BAD_REDRIVES:
    policy = json.dumps(document)
    attribute("RedrivePolicy", policy, "Invalid", value(policy, "RedrivePolicy", reason))
for bad in ("x", "[]", "{}", '{"redrivePermission": "some"}', '{"redrivePermission": "allowAll", "more": 1}'):
    attribute("RedriveAllowPolicy", bad, "AttributeValue", ALLOW_FORMAT)
attribute(
    "RedriveAllowPolicy", '{"redrivePermission": "byQueue", "sourceQueueArns": "x"}', "AttributeValue", ALLOW_FORMAT
)
BAD_ALLOWANCES: list[tuple[dict[str, Any], str]] = [
    ({"redrivePermission": "byQueue"}, NO_SOURCES),
    ({"redrivePermission": "byQueue", "sourceQueueArns": []}, NO_SOURCES),
    (
        {"redrivePermission": "denyAll", "sourceQueueArns": [arn("q")]},
        "Amazon SQS can't create the redrive allow policy. To specify one or more source queue ARNs, "
        "you must set redrivePermission to byQueue.",
    ),
    (
        {"redrivePermission": "byQueue", "sourceQueueArns": [arn(f"q{number}") for number in range(11)]},
        "Amazon SQS can't create the redrive allow policy. "
        "The maximum number of source queue ARNs you can specify is 10.",
    ),
]
for document, reason in BAD_ALLOWANCES:
    policy = json.dumps(document)
    attribute("RedriveAllowPolicy", policy, "Invalid", value(policy, "RedriveAllowPolicy", reason))

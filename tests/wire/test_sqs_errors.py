"""What SQS refuses, and in which words: every row is sent in both protocols."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import httpx
import pytest
import pytest_asyncio

from penstock import errors
from penstock.errors import BY_CODE
from penstock.wire import sqs_errors
from tests.wire.amazon import Raw, text, xml
from tests.wire.conftest import running

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

NAME = "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length"
FIFO_NAME = (
    "The name of a FIFO queue can only include alphanumeric characters, hyphens, or underscores, "
    "must end with .fifo suffix and be 1 to 80 in length."
)
NO_QUEUE = "The specified queue does not exist."
NO_QUEUE_QUERY = "The specified queue does not exist for this wsdl version."
CHARACTERS = (
    "Invalid characters found. Valid unicode characters are "
    "#x9 | #xA | #xD | #x20 to #xD7FF | #xE000 to #xFFFD | #x10000 to #x10FFFF"
)
ENTRY_ID = (
    "A batch entry id can only contain alphanumeric characters, hyphens and underscores. "
    "It can be at most 80 letters long."
)
NO_DEDUP = (
    "The queue should either have ContentBasedDeduplication enabled or MessageDeduplicationId provided explicitly"
)
WRONG_TYPE = "The request include parameter that is not valid for this queue type."
RESERVED = (
    "You can't use message attribute names beginning with 'AWS.' or 'Amazon.'. "
    "These strings are reserved for internal use. Additionally, they cannot start or end with '.'."
)
ATTRIBUTE_NAME = (
    "Message (user) attributes name can only contain upper and lower score characters, digits, periods, "
    "hyphens and underscores. "
)
ONE_SSE = "You can use one type of server-side encryption (SSE) at one time. You can either enable KMS SSE or SQS SSE."
ALLOW_FORMAT = (
    "Invalid value for the parameter RedriveAllowPolicy. Reason: Amazon SQS can't create the redrive allow policy, "
    "as it\N{RIGHT SINGLE QUOTATION MARK}s in an unsupported format."
)
NO_SOURCES = (
    "Amazon SQS can't create the redrive allow policy. When you specify the byQueue permission type, "
    "you must also specify one or more sourceQueueArns values."
)
ARN_FORM = "arn:<partition>:<service>:<region>:<account-id>:<resource-id>"
MAX_RESULTS = "Value for parameter MaxResults is invalid. Reason: MaxResults must be an integer between 1 and 1000."


def arn(name: str, service: str = "sqs") -> str:
    return f"arn:aws:{service}:us-east-1:000000000000:{name}"


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


def value(shown: object, parameter: str, reason: str) -> str:
    return f"Value {shown} for parameter {parameter} is invalid. Reason: {reason}"


def must_contain(parameter: str) -> str:
    return f"The request must contain the parameter {parameter}."


def id_text(parameter: str) -> str:
    return f"{parameter} can only include alphanumeric and punctuation characters. 1 to 128 in length."


Q = {"QueueUrl": "q"}
FIFO = {"QueueUrl": "q.fifo"}
ROWS: list[Row] = []


def row(action: str, given: dict[str, Any], kind: str, message: str | None, **more: Any) -> None:
    ROWS.append(Row(action, given, kind, message, **more))


# A queue that is not there, or not named

OF_A_QUEUE: dict[str, dict[str, Any]] = {
    "AddPermission": {"Label": "l", "AWSAccountIds": ["111111111111"], "Actions": ["*"]},
    "ChangeMessageVisibility": {"ReceiptHandle": "x", "VisibilityTimeout": 1},
    "ChangeMessageVisibilityBatch": {"Entries": [{"Id": "a", "ReceiptHandle": "x", "VisibilityTimeout": 1}]},
    "DeleteMessage": {"ReceiptHandle": "x"},
    "DeleteMessageBatch": {"Entries": [{"Id": "a", "ReceiptHandle": "x"}]},
    "DeleteQueue": {},
    "GetQueueAttributes": {"AttributeNames": ["All"]},
    "ListDeadLetterSourceQueues": {},
    "ListQueueTags": {},
    "PurgeQueue": {},
    "ReceiveMessage": {},
    "RemovePermission": {"Label": "l"},
    "SendMessage": {"MessageBody": "x"},
    "SendMessageBatch": {"Entries": [{"Id": "a", "MessageBody": "x"}]},
    "SetQueueAttributes": {"Attributes": {"DelaySeconds": "1"}},
    "TagQueue": {"Tags": {"a": "b"}},
    "UntagQueue": {"TagKeys": ["a"]},
}
for action, given in OF_A_QUEUE.items():
    row(action, given | {"QueueUrl": "nowhere"}, "NoQueue", NO_QUEUE, query=NO_QUEUE_QUERY)
    row(action, given, "Missing", must_contain("QueueUrl"))

for bad in ("http://here/000000000000/", "not a name!", "a" * 81, "http://here/000000000000/x.y"):
    row("ReceiveMessage", {"QueueUrl": bad}, "NoQueue", NO_QUEUE, query=NO_QUEUE_QUERY)

# GetQueueUrl, ListQueues

row("GetQueueUrl", {"QueueName": "nowhere"}, "NoQueue", NO_QUEUE, query=NO_QUEUE_QUERY)
row("GetQueueUrl", {"QueueName": "no/name"}, "NoQueue", NO_QUEUE, query=NO_QUEUE_QUERY)
row("GetQueueUrl", {}, "Missing", must_contain("QueueName"))
for number in (0, -1, 1001):
    row("ListQueues", {"MaxResults": number}, "Invalid", MAX_RESULTS)
    row("ListDeadLetterSourceQueues", Q | {"MaxResults": number}, "Invalid", MAX_RESULTS)
row("ListQueues", {"NextToken": "***"}, "Invalid", "Invalid or expired next token.")
row("ListQueues", {"NextToken": "bm90IGEgbmFtZSE="}, "Invalid", "Invalid or expired next token.")

# CreateQueue

row(
    "CreateQueue", {}, "Invalid", "Value for parameter QueueName is invalid. Reason: Must specify a queue name.",
    query=must_contain("QueueName"), query_kind="Missing",
)  # fmt: skip
row("CreateQueue", {"QueueName": ""}, "Invalid", "Queue name cannot be empty")
for bad in ("a/b", "in.fo", "é", "a b", "x" * 81, "lonely.fifo", "x" * 76 + ".fifo"):
    row("CreateQueue", {"QueueName": bad}, "Invalid", NAME)
row("CreateQueue", {"QueueName": "x.fifo", "Attributes": {"FifoQueue": "false"}}, "Invalid", NAME)
row("CreateQueue", {"QueueName": "x" * 76 + ".fifo", "Attributes": {"FifoQueue": "true"}}, "Invalid", NAME)
for bad in ("x", "x.ifo"):
    row("CreateQueue", {"QueueName": bad, "Attributes": {"FifoQueue": "true"}}, "Invalid", FIFO_NAME)
row(
    "CreateQueue", {"QueueName": "q", "Attributes": {"DelaySeconds": "1"}}, "Exists",
    "A queue already exists with the same name and a different value for attribute DelaySeconds",
)  # fmt: skip
row(
    "CreateQueue", {"QueueName": "q.fifo", "Attributes": {"FifoQueue": "true", "ContentBasedDeduplication": "true"}},
    "Exists", "A queue already exists with the same name and a different value for attribute ContentBasedDeduplication",
)  # fmt: skip
row("CreateQueue", {"QueueName": "x", "tags": {"": "v"}}, "Invalid", None)


# Attributes, when a queue is made and when it is changed


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

for bad in ("x", "[]", "5", "{}", '{"Statement": []}', '{"Statement": [{"Effect": "Maybe"}]}'):
    attribute("Policy", bad, "AttributeValue", "Invalid value for the parameter Policy.")
attribute(
    "Policy", json.dumps({"Statement": [{"Effect": "Allow"}] * 21}), "OverLimit",
    "21 statements were found in the submitted policy, max allowed is 20",
)  # fmt: skip
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

# SendMessage

row("SendMessage", Q, "Missing", must_contain("MessageBody"))
row("SendMessage", Q | {"MessageBody": ""}, "Missing", must_contain("MessageBody"))
for bad in ("\x00", "a\x01", "\x1f", "\ufffe", "\uffff", "a\x7f\x0b"):
    row("SendMessage", Q | {"MessageBody": bad}, "Contents", CHARACTERS)
for number in (-1, 901):
    reason = "DelaySeconds must be >= 0 and <= 900."
    row(
        "SendMessage",
        Q | {"MessageBody": "x", "DelaySeconds": number},
        "Invalid",
        value(number, "DelaySeconds", reason),
    )
row(
    "SendMessage", {"QueueUrl": "small", "MessageBody": "x" * 1025}, "Invalid",
    "One or more parameters are invalid. Reason: Message must be shorter than 1024 bytes.",
)  # fmt: skip
row(
    "SendMessage", Q | {"MessageBody": "x", "MessageDeduplicationId": "d"}, "Invalid",
    value("d", "MessageDeduplicationId", WRONG_TYPE),
)  # fmt: skip
for bad in ("", "a b", "x" * 129, "ü"):
    row(
        "SendMessage", Q | {"MessageBody": "x", "MessageGroupId": bad}, "Invalid",
        value(bad, "MessageGroupId", id_text("MessageGroupId")),
    )  # fmt: skip
    row(
        "SendMessage", FIFO | {"MessageBody": "x", "MessageGroupId": "g", "MessageDeduplicationId": bad}, "Invalid",
        value(bad, "MessageDeduplicationId", id_text("MessageDeduplicationId")),
    )  # fmt: skip
row(
    "SendMessage", FIFO | {"MessageBody": "x", "MessageDeduplicationId": "d"}, "Missing", must_contain("MessageGroupId")
)
row("SendMessage", FIFO | {"MessageBody": "x", "MessageGroupId": "g"}, "Invalid", NO_DEDUP)
row(
    "SendMessage",
    FIFO | {"MessageBody": "x", "MessageGroupId": "g", "MessageDeduplicationId": "d", "DelaySeconds": 3},
    "Invalid", value(3, "DelaySeconds", WRONG_TYPE),
)  # fmt: skip


# Message attributes


def sent(attributes: dict[str, Any], message: str | None, kind: str = "Invalid") -> None:
    row("SendMessage", Q | {"MessageBody": "x", "MessageAttributes": attributes}, kind, message)


def text_attribute(shown: str = "v", kind: str = "String") -> dict[str, Any]:
    return {"DataType": kind, "StringValue": shown}


sent(
    {f"a{number}": text_attribute() for number in range(11)},
    "Number of message attributes [11] exceeds the allowed maximum [10].",
)
sent({"": text_attribute()}, "The request must contain non-empty message (user) attribute names.")
sent({"x" * 257: text_attribute()}, "Message (user) attribute names must be shorter than 256 Bytes")
for bad in ("a b", "a$", "a/b", "漢"):
    sent({bad: text_attribute()}, ATTRIBUTE_NAME)
for bad in ("AWS.x", "aws.x", "Amazon.x", "AMAZON.x", ".x", "x."):
    sent({bad: text_attribute()}, RESERVED)
sent({"a": text_attribute("")}, "Message (user) attribute 'a' must contain a non-empty value of type 'String'.")
sent({"a": {"DataType": "String"}}, "Message (user) attribute 'a' must contain a non-empty value of type 'String'.")
sent({"a": {"DataType": "Binary"}}, "Message (user) attribute 'a' must contain a non-empty value of type 'Binary'.")
sent({"a": {"StringValue": "v"}}, "The message attribute 'a' must contain non-empty message attribute type.")
for bad in ("Text", "string", "Strings", "Float.Number"):
    sent(
        {"a": text_attribute(kind=bad)},
        "The message attribute 'a' has an invalid message attribute type, "
        "the set of supported type prefixes is Binary, Number, and String.",
    )
sent({"a": text_attribute(kind=f"String.{'x' * 256}")}, "Message (user) attribute types must be shorter than 256 Bytes")
for bad in ("x", "1,5", "--1", "1e"):
    sent({"a": text_attribute(bad, "Number")}, "Can't cast the value of message (user) attribute 'a' to a number.")
sent({"a": text_attribute("\x01")}, CHARACTERS)
sent(
    {"a": {"DataType": "String", "StringListValues": ["x"]}},
    "Message attribute list values in SendMessage operation are not supported.",
    "Unsupported",
)
row(
    "SendMessage", Q | {"MessageBody": "x", "MessageSystemAttributes": {"Other": text_attribute()}}, "Invalid",
    "Message system attribute name 'Other' is invalid.",
)  # fmt: skip
row(
    "SendMessage",
    Q | {"MessageBody": "x", "MessageSystemAttributes": {"AWSTraceHeader": text_attribute("1", "Number")}},
    "Invalid", "The data type of message system attribute 'AWSTraceHeader' must be 'String'.",
)  # fmt: skip

# Batches

BATCHES: dict[str, dict[str, Any]] = {
    "SendMessageBatch": {"MessageBody": "x"},
    "DeleteMessageBatch": {"ReceiptHandle": "x"},
    "ChangeMessageVisibilityBatch": {"ReceiptHandle": "x", "VisibilityTimeout": 0},
}
for action, extra in BATCHES.items():
    entry = f"{action}RequestEntry"

    def entries(*ids: str | None, extra: dict[str, Any] = extra) -> dict[str, Any]:
        return Q | {"Entries": [({} if found is None else {"Id": found}) | extra for found in ids]}

    empty = f"There should be at least one {entry} in the request."
    row(action, Q, "Missing", must_contain("Entries"), query=empty, query_kind="Empty")
    row(action, Q | {"Entries": []}, "Empty", empty)
    many = entries(*map(str, range(11)))
    row(action, many, "TooMany", "Maximum number of entries per request are 10. You have sent 11.")
    for bad in ("", "a:b", "é", "x" * 81, "a b"):
        row(action, entries("ok", bad), "EntryId", ENTRY_ID)
    row(action, entries("a", "b", "a"), "NotDistinct", "Id a repeated.")
    row(action, entries("a", None), "Missing", must_contain(f"{entry}.2.Id"))

halves = [{"Id": "a", "MessageBody": "x" * 600_000}, {"Id": "b", "MessageBody": "x" * 600_000}]
row(
    "SendMessageBatch", Q | {"Entries": halves}, "TooLong",
    "Batch requests cannot be longer than 1048576 bytes. You have sent 1200000 bytes.",
)  # fmt: skip
row(
    "SendMessageBatch", FIFO | {"Entries": [{"Id": "a", "MessageBody": "x", "MessageDeduplicationId": "d"}]}, "Invalid",
    must_contain("MessageGroupId"),
)  # fmt: skip
row(
    "SendMessageBatch",
    FIFO | {"Entries": [{"Id": "a", "MessageBody": "x", "MessageGroupId": "g"}]},
    "Invalid",
    NO_DEDUP,
)

# ReceiveMessage

for number in (0, -1, 11):
    row(
        "ReceiveMessage", Q | {"MaxNumberOfMessages": number}, "Invalid",
        value(number, "MaxNumberOfMessages", "Must be between 1 and 10, if provided."),
    )  # fmt: skip
for number in (-1, 21):
    row(
        "ReceiveMessage", Q | {"WaitTimeSeconds": number}, "Invalid",
        value(number, "WaitTimeSeconds", "Must be >= 0 and <= 20, if provided."),
    )  # fmt: skip
for number in (-1, 43_201):
    row(
        "ReceiveMessage", Q | {"VisibilityTimeout": number}, "Invalid",
        value(number, "VisibilityTimeout", "Must be >= 0 and <= 43200, if provided."),
    )  # fmt: skip
row("ReceiveMessage", Q | {"AttributeNames": ["Colour"]}, "AttributeName", "Unknown Attribute Colour.")
row("ReceiveMessage", Q | {"MessageSystemAttributeNames": ["Colour"]}, "AttributeName", "Unknown Attribute Colour.")
row(
    "ReceiveMessage", Q | {"ReceiveRequestAttemptId": "a"}, "Invalid", value("a", "ReceiveRequestAttemptId", WRONG_TYPE)
)  # fmt: skip
row(
    "ReceiveMessage", FIFO | {"ReceiveRequestAttemptId": "a b"}, "Invalid",
    value("a b", "ReceiveRequestAttemptId", id_text("ReceiveRequestAttemptId")),
)  # fmt: skip

# Receipts

for action, extra in {"DeleteMessage": {}, "ChangeMessageVisibility": {"VisibilityTimeout": 1}}.items():
    row(action, Q | extra, "Missing", must_contain("ReceiptHandle"))
    for bad in ("garbage", "AAAA", "OTHER"):
        row(action, Q | extra | {"ReceiptHandle": bad}, "Receipt", None)
row("ChangeMessageVisibility", Q | {"ReceiptHandle": "HANDLE"}, "Missing", must_contain("VisibilityTimeout"))
row(
    "ChangeMessageVisibility", Q | {"ReceiptHandle": "HANDLE", "VisibilityTimeout": -1}, "Invalid",
    value(-1, "VisibilityTimeout", "VisibilityTimeout must be an integer between 0 and 43200"),
)  # fmt: skip
row(
    "ChangeMessageVisibility", Q | {"ReceiptHandle": "HANDLE", "VisibilityTimeout": 43_201}, "Invalid",
    value(43_201, "VisibilityTimeout", "Total VisibilityTimeout for the message is beyond the limit [43200 seconds]"),
)  # fmt: skip
row("ChangeMessageVisibility", Q | {"ReceiptHandle": "GONE", "VisibilityTimeout": 1}, "Invalid", None)

# Tags and permissions

row("TagQueue", Q, "Missing", must_contain("Tags"))
row("TagQueue", Q | {"Tags": {f"t{number}": "" for number in range(51)}}, "Invalid", "Too many tags added for queue q.")
for bad in ("", "x" * 129):
    row("TagQueue", Q | {"Tags": {bad: "v"}}, "Invalid", "Tag keys must be between 1 and 128 characters in length.")
row("TagQueue", Q | {"Tags": {"a": "x" * 257}}, "Invalid", "Tag values must be between 0 and 256 characters in length.")
row("TagQueue", Q | {"Tags": {"aws:a": "x"}}, "Invalid", None)
row("UntagQueue", Q, "Missing", must_contain("TagKeys"))
row(
    "UntagQueue", Q | {"TagKeys": []}, "Invalid", "Tag keys must be between 1 and 128 characters in length.", query=""
)  # fmt: skip
GRANT = Q | {"Label": "l", "AWSAccountIds": ["111111111111"], "Actions": ["SendMessage"]}
row("AddPermission", GRANT | {"Label": ""}, "Missing", must_contain("Label"))
row(
    "AddPermission", GRANT | {"AWSAccountIds": []}, "Missing", must_contain("AWSAccountIds"),
    query=must_contain("AWSAccountId"),
)  # fmt: skip
row("AddPermission", GRANT | {"Actions": []}, "Missing", must_contain("Actions"), query=must_contain("ActionName"))
row("AddPermission", GRANT | {"Label": "x" * 81}, "Invalid", None)
row("AddPermission", GRANT | {"Label": "known"}, "Invalid", value("known", "Label", "Already exists."))
row("AddPermission", GRANT | {"AWSAccountIds": ["1"]}, "Invalid", value("[1]", "PrincipalId", "Unable to verify."))
row(
    "AddPermission",
    GRANT | {"Actions": ["SendMessage"] * 8},
    "OverLimit",
    "8 Actions were found, maximum allowed is 7.",
)
row(
    "AddPermission", GRANT | {"Actions": ["Levitate"]}, "Invalid",
    value("SQS:Levitate", "ActionName", "Please refer to the appropriate WSDL for a list of valid actions. "),
)  # fmt: skip
row(
    "AddPermission", GRANT | {"Actions": ["RemovePermission"]}, "Invalid",
    value("SQS:RemovePermission", "ActionName", "Only the queue owner is allowed to invoke this action."),
)  # fmt: skip
row("RemovePermission", Q, "Missing", must_contain("Label"))
row("RemovePermission", Q | {"Label": "unknown"}, "Invalid", value("unknown", "Label", "can't find label."))

# Move tasks


def handle(**members: str) -> str:
    return base64.b64encode(json.dumps(members).encode()).decode()


UUID = "3ee0bb5e-d13b-8d3d-a545-f4914f6cdd1d"
ABSENT = "The resource that you specified for the {} parameter doesn't exist."
row("StartMessageMoveTask", {}, "Missing", must_contain("SourceArn"))
row("ListMessageMoveTasks", {}, "Missing", must_contain("SourceArn"))
for action in ("StartMessageMoveTask", "ListMessageMoveTasks"):
    form = f"You must use this format to specify the SourceArn: {ARN_FORM}"
    row(action, {"SourceArn": "dummy"}, "Invalid", form)
    row(action, {"SourceArn": arn("nowhere")}, "NotFound", ABSENT.format("SourceArn"))
    row(action, {"SourceArn": arn("dead", "sns")}, "NotFound", ABSENT.format("SourceArn"))
row(
    "StartMessageMoveTask", {"SourceArn": arn("dead"), "DestinationArn": arn("nowhere")}, "NotFound",
    ABSENT.format("DestinationArn"),
)  # fmt: skip
row(
    "StartMessageMoveTask", {"SourceArn": arn("dead"), "DestinationArn": "dummy"}, "Invalid",
    f"You must use this format to specify the DestinationArn: {ARN_FORM}",
)  # fmt: skip
row("StartMessageMoveTask", {"SourceArn": arn("dead"), "DestinationArn": arn("dead")}, "Invalid", None)
row(
    "StartMessageMoveTask", {"SourceArn": arn("q")}, "Invalid",
    "Source queue must be configured as a Dead Letter Queue.",
)  # fmt: skip
for number in (0, 501):
    row(
        "StartMessageMoveTask", {"SourceArn": arn("dead"), "MaxNumberOfMessagesPerSecond": number}, "Invalid",
        value(number, "MaxNumberOfMessagesPerSecond", "Must be between 1 and 500, if provided."),
    )  # fmt: skip
for number in (0, 11):
    row(
        "ListMessageMoveTasks", {"SourceArn": arn("dead"), "MaxResults": number}, "Invalid",
        value(number, "MaxResults", "Must be between 1 and 10, if provided."),
    )  # fmt: skip
row("CancelMessageMoveTask", {}, "Missing", must_contain("TaskHandle"))
for bad in ("garbage", "AAAA", handle(taskId="x"), base64.b64encode(b"{").decode()):
    row("CancelMessageMoveTask", {"TaskHandle": bad}, "Invalid", "Value for parameter TaskHandle is invalid.")
row(
    "CancelMessageMoveTask", {"TaskHandle": handle(taskId=UUID, sourceArn=arn("nowhere"))}, "NotFound",
    ABSENT.format("SourceArn"),
)  # fmt: skip
for bad in (UUID, "x", ""):
    task = handle(taskId=bad, sourceArn=arn("dead"))
    row("CancelMessageMoveTask", {"TaskHandle": task}, "NotFound", "Task does not exist.")

# The wrong shape. In the Query protocol every value is a text.

for action, given, message in (
    ("SendMessage", Q | {"MessageBody": 5}, "NUMBER_VALUE can not be converted to a String"),
    ("SendMessage", Q | {"MessageBody": True}, "TRUE_VALUE can not be converted to a String"),
    ("SendMessage", Q | {"MessageBody": []}, "Start of list found where not expected"),
    ("SendMessage", Q | {"MessageBody": {}}, "Start of structure or map found where not expected."),
    ("SendMessage", {"QueueUrl": 7, "MessageBody": "x"}, "NUMBER_VALUE can not be converted to a String"),
    ("SendMessage", Q | {"MessageBody": "x", "DelaySeconds": "1"}, "STRING_VALUE can not be converted to an Integer"),
    ("SendMessage", Q | {"MessageBody": "x", "DelaySeconds": 1.5}, "NUMBER_VALUE can not be converted to an Integer"),
    ("SendMessage", Q | {"MessageBody": "x", "DelaySeconds": []}, "Start of list found where not expected"),
    ("ReceiveMessage", Q | {"AttributeNames": {}}, "Start of structure or map found where not expected."),
    ("ReceiveMessage", Q | {"AttributeNames": [1]}, "NUMBER_VALUE can not be converted to a String"),
    ("CreateQueue", {"QueueName": "x", "Attributes": {"DelaySeconds": {}}}, None),
    ("CreateQueue", {"QueueName": "x", "Attributes": []}, "Start of list found where not expected"),
    ("SendMessageBatch", Q | {"Entries": {}}, "Start of structure or map found where not expected."),
    ("SendMessageBatch", Q | {"Entries": [[]]}, "Start of list found where not expected"),
    (
        "SendMessage",
        Q | {"MessageBody": "x", "MessageAttributes": {"a": {"DataType": "Binary", "BinaryValue": "***"}}},
        "Invalid base64 encoded string",
    ),
):
    row(action, given, "Malformed", message, query="")
QUERY_ROWS = [
    Row(
        "ReceiveMessage",
        Q | {"MaxNumberOfMessages": "many"},
        "Malformed",
        "STRING_VALUE can not be converted to an Integer",
    ),
    Row("SendMessage", Q | {"MessageBody": "x", "DelaySeconds": "1.5"}, "Malformed", None),
    Row("SendMessage", Q | {"MessageBody.1": "x"}, "Malformed", "Start of structure or map found where not expected."),
    Row("CreateQueue", {"QueueName": "x", "Attribute.1.Value": "5"}, "Malformed", None),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world() -> AsyncIterator[tuple[Raw, dict[str, str]]]:
    """A server with the queues of the table, and the handles it names. What is refused leaves it as it is."""
    async with running() as live, httpx.AsyncClient(base_url=live.url, trust_env=False) as http:
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


@pytest.mark.asyncio(loop_scope="module")
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


@pytest.mark.asyncio(loop_scope="module")
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
        assert (sqs_errors.put(error).fault == "Receiver") == (kind in ours), kind

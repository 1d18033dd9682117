"""Messages sent one by one, and their attributes."""

from __future__ import annotations

from typing import Any

from tests.wire.sqs.refusals.rows import FIFO, NO_DEDUP, WRONG_TYPE, Q, Rows, id_text, must_contain, value

CHARACTERS = (
    "Invalid characters found. Valid unicode characters are "
    "#x9 | #xA | #xD | #x20 to #xD7FF | #xE000 to #xFFFD | #x10000 to #x10FFFF"
)
RESERVED = (
    "You can't use message attribute names beginning with 'AWS.' or 'Amazon.'. "
    "These strings are reserved for internal use. Additionally, they cannot start or end with '.'."
)
ATTRIBUTE_NAME = (
    "Message (user) attributes name can only contain upper and lower score characters, digits, periods, "
    "hyphens and underscores. "
)

ROWS = Rows()
row = ROWS.row

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
sent({"x..y": text_attribute()}, "Message (user) attribute name must not have successive '.' characters.")
TWO_VALUES = {"StringValue": "v", "BinaryValue": b"v"}
for kind, field in {"String": "String", "Number": "String", "Binary": "Binary"}.items():
    sent({"a": {"DataType": kind} | TWO_VALUES}, "Message (user) attribute 'a' must have a single value.")
    other = "BinaryValue" if field == "String" else "StringValue"
    sent(
        {"a": {"DataType": kind, other: TWO_VALUES[other]}},
        f"Message (user) attribute 'a' with type '{kind}' must use field '{field}'.",
    )
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

"""Values of the wrong shape. In the Query protocol every value is a text."""

from __future__ import annotations

from tests.wire.sqs.refusals.rows import Q, Row, Rows

ROWS = Rows()
row = ROWS.row
STRUCTURE = "Start of structure or map found where not expected."
LIST = "Start of list found where not expected"

for action, given, message in (
    ("SendMessage", Q | {"MessageBody": 5}, "NUMBER_VALUE can not be converted to a String"),
    ("SendMessage", Q | {"MessageBody": True}, "TRUE_VALUE can not be converted to a String"),
    ("SendMessage", Q | {"MessageBody": []}, LIST),
    ("SendMessage", Q | {"MessageBody": {}}, STRUCTURE),
    ("SendMessage", {"QueueUrl": 7, "MessageBody": "x"}, "NUMBER_VALUE can not be converted to a String"),
    ("SendMessage", Q | {"MessageBody": "x", "DelaySeconds": "1"}, "STRING_VALUE can not be converted to an Integer"),
    ("SendMessage", Q | {"MessageBody": "x", "DelaySeconds": 1.5}, "NUMBER_VALUE can not be converted to an Integer"),
    ("SendMessage", Q | {"MessageBody": "x", "DelaySeconds": []}, LIST),
    ("ReceiveMessage", Q | {"AttributeNames": {}}, STRUCTURE),
    ("ReceiveMessage", Q | {"AttributeNames": [1]}, "NUMBER_VALUE can not be converted to a String"),
    ("CreateQueue", {"QueueName": "x", "Attributes": {"DelaySeconds": {}}}, STRUCTURE),
    ("CreateQueue", {"QueueName": "x", "Attributes": {"DelaySeconds": []}}, LIST),
    ("CreateQueue", {"QueueName": "x", "Attributes": []}, LIST),
    ("SendMessageBatch", Q | {"Entries": {}}, STRUCTURE),
    ("SendMessageBatch", Q | {"Entries": [[]]}, LIST),
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
    Row("SendMessage", Q | {"MessageBody.1": "x"}, "Malformed", STRUCTURE),
    Row("CreateQueue", {"QueueName": "x", "Attribute.1.Value": "5"}, "Malformed", None),
]

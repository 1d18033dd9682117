"""Receives, and the receipts they give."""

from __future__ import annotations

from tests.wire.sqs.refusals.rows import FIFO, WRONG_TYPE, Q, Rows, id_text, must_contain, value

ROWS = Rows()
row = ROWS.row

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
row("ChangeMessageVisibility", Q | {"ReceiptHandle": "garbage"}, "Missing", must_contain("VisibilityTimeout"))
row("ChangeMessageVisibility", Q | {"ReceiptHandle": "GONE", "VisibilityTimeout": 1}, "Invalid", None)

"""Tasks that move messages."""

from __future__ import annotations

import base64
import json

from tests.wire.sqs.refusals.rows import Rows, arn, must_contain

ARN_FORM = "arn:<partition>:<service>:<region>:<account-id>:<resource-id>"

ROWS = Rows()
row = ROWS.row


def handle(**members: str) -> str:
    return base64.b64encode(json.dumps(members).encode()).decode()


UUID = "3ee0bb5e-d13b-8d3d-a545-f4914f6cdd1d"
BETWEEN = "Value for parameter {} is invalid. Reason: You must enter a number that's between 1 and {}."
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
row(
    "StartMessageMoveTask", {"SourceArn": arn("dead"), "DestinationArn": arn("dead")}, "Invalid",
    "Source queue arn and destination queue arn cannot be the same.",
)  # fmt: skip
row(
    "StartMessageMoveTask", {"SourceArn": arn("dead"), "DestinationArn": arn("q.fifo")}, "Invalid",
    "The source queue and destination queue must be of the same queue type.",
)  # fmt: skip
row(
    "StartMessageMoveTask", {"SourceArn": arn("q")}, "Invalid",
    "Source queue must be configured as a Dead Letter Queue.",
)  # fmt: skip
for number in (0, 501):
    row(
        "StartMessageMoveTask", {"SourceArn": arn("dead"), "MaxNumberOfMessagesPerSecond": number}, "Invalid",
        BETWEEN.format("MaxNumberOfMessagesPerSecond", 500),
    )  # fmt: skip
for number in (0, 11):
    row(
        "ListMessageMoveTasks", {"SourceArn": arn("dead"), "MaxResults": number}, "Invalid",
        BETWEEN.format("MaxResults", 10),
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

"""Queues that are not there or not named, and names that no queue may have."""

from __future__ import annotations

from typing import Any

from tests.wire.sqs.refusals.rows import Q, Rows, must_contain

NAME = "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length"
FIFO_NAME = (
    "The name of a FIFO queue can only include alphanumeric characters, hyphens, or underscores, "
    "must end with .fifo suffix and be 1 to 80 in length."
)
NO_QUEUE = "The specified queue does not exist."
NO_QUEUE_QUERY = "The specified queue does not exist for this wsdl version."
MAX_RESULTS = "Value for parameter MaxResults is invalid. Reason: MaxResults must be an integer between 1 and 1000."

ROWS = Rows()
row = ROWS.row

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

"""The shapes of SQS: what each action is given, and what it answers."""

from __future__ import annotations

from typing import Annotated

from msgspec import field

from penstock.wire.aws.shapes import Given, Named, Result

AttributeValue = str | int | float | bool | None
"""Of a queue's attribute: text, but AWS takes the bare numbers and booleans some clients write."""

QueueAttributes = Annotated[dict[str, AttributeValue], Named("Attribute", "Name", "Value")]
Tags = Annotated[dict[str, str], Named("Tag", "Key", "Value")]
QueueUrls = Annotated[list[str], Named("QueueUrl", json="queueUrls")]
AttributeNames = Annotated[list[str], Named("AttributeName")]


class OfQueue(Given, kw_only=True):
    queue_url: str | None = None


# Queues


class CreateQueue(Given, kw_only=True):
    queue_name: str | None = None
    attributes: QueueAttributes | None = None
    tags: Tags | None = field(default=None, name="tags")


class QueueUrl(Result, kw_only=True):
    queue_url: str


class GetQueueUrl(Given, kw_only=True):
    queue_name: str | None = None
    queue_owner_aws_account_id: str | None = field(default=None, name="QueueOwnerAWSAccountId")


class ListQueues(Given, kw_only=True):
    queue_name_prefix: str | None = None
    next_token: str | None = None
    max_results: int | None = None


class QueueList(Result, kw_only=True):
    queue_urls: QueueUrls | None = None
    next_token: str | None = None


class ListDeadLetterSourceQueues(OfQueue, kw_only=True):
    next_token: str | None = None
    max_results: int | None = None


class SourceList(Result, kw_only=True):
    queue_urls: QueueUrls = field(name="queueUrls")
    next_token: str | None = None


class GetQueueAttributes(OfQueue, kw_only=True):
    attribute_names: AttributeNames | None = None


class AttributeList(Result, kw_only=True):
    attributes: Annotated[dict[str, str], Named("Attribute", "Name", "Value")] | None = None


class SetQueueAttributes(OfQueue, kw_only=True):
    attributes: QueueAttributes | None = None


class TagQueue(OfQueue, kw_only=True):
    tags: Tags | None = None


class UntagQueue(OfQueue, kw_only=True):
    tag_keys: Annotated[list[str], Named("TagKey")] | None = None


class TagList(Result, kw_only=True):
    tags: Tags | None = None


class AddPermission(OfQueue, kw_only=True):
    label: str | None = None
    account_ids: Annotated[list[str], Named("AWSAccountId")] | None = field(default=None, name="AWSAccountIds")
    actions: Annotated[list[str], Named("ActionName")] | None = None


class RemovePermission(OfQueue, kw_only=True):
    label: str | None = None


# Messages


class SentAttribute(Given, kw_only=True):
    data_type: str | None = None
    string_value: str | None = None
    binary_value: bytes | None = None
    string_list_values: Annotated[list[str], Named("StringListValue")] | None = None
    binary_list_values: Annotated[list[bytes], Named("BinaryListValue")] | None = None


class NewMessage(Given, kw_only=True):
    """What SendMessage and an entry of SendMessageBatch have in common."""

    message_body: str | None = None
    delay_seconds: int | None = None
    message_attributes: Annotated[dict[str, SentAttribute], Named("MessageAttribute", "Name", "Value")] | None = None
    message_system_attributes: (
        Annotated[dict[str, SentAttribute], Named("MessageSystemAttribute", "Name", "Value")] | None
    ) = None
    message_deduplication_id: str | None = None
    message_group_id: str | None = None


class SendMessage(NewMessage, kw_only=True):
    queue_url: str | None = None


class Sent(Result, kw_only=True):
    md5_of_message_body: str = field(name="MD5OfMessageBody")
    md5_of_message_attributes: str | None = field(default=None, name="MD5OfMessageAttributes")
    md5_of_message_system_attributes: str | None = field(default=None, name="MD5OfMessageSystemAttributes")
    message_id: str
    sequence_number: str | None = None


class SendEntry(NewMessage, kw_only=True):
    id: str | None = None


class SendMessageBatch(OfQueue, kw_only=True):
    entries: Annotated[list[SendEntry], Named("SendMessageBatchRequestEntry")] | None = None


class SentEntry(Sent, kw_only=True):
    id: str


class FailedEntry(Result, kw_only=True):
    id: str
    sender_fault: bool
    code: str
    message: str


Failed = Annotated[list[FailedEntry], Named("BatchResultErrorEntry")]


class SentBatch(Result, kw_only=True):
    successful: Annotated[list[SentEntry], Named("SendMessageBatchResultEntry")] | None = None
    failed: Failed | None = None


class ReceiveMessage(OfQueue, kw_only=True):
    attribute_names: AttributeNames | None = None
    message_system_attribute_names: Annotated[list[str], Named("MessageSystemAttributeName")] | None = None
    message_attribute_names: Annotated[list[str], Named("MessageAttributeName")] | None = None
    max_number_of_messages: int | None = None
    visibility_timeout: int | None = None
    wait_time_seconds: int | None = None
    receive_request_attempt_id: str | None = None


class AttributeOut(Result, kw_only=True):
    string_value: str | None = None
    binary_value: bytes | None = None
    data_type: str


class Message(Result, kw_only=True):
    message_id: str
    receipt_handle: str
    md5_of_body: str = field(name="MD5OfBody")
    body: str
    attributes: Annotated[dict[str, str], Named("Attribute", "Name", "Value")] | None = None
    md5_of_message_attributes: str | None = field(default=None, name="MD5OfMessageAttributes")
    message_attributes: Annotated[dict[str, AttributeOut], Named("MessageAttribute", "Name", "Value")] | None = None


class Received(Result, kw_only=True):
    messages: Annotated[list[Message], Named("Message", json="messages")] | None = None


class DeleteMessage(OfQueue, kw_only=True):
    receipt_handle: str | None = None


class DeleteEntry(Given, kw_only=True):
    id: str | None = None
    receipt_handle: str | None = None


class DeleteMessageBatch(OfQueue, kw_only=True):
    entries: Annotated[list[DeleteEntry], Named("DeleteMessageBatchRequestEntry")] | None = None


class DoneEntry(Result, kw_only=True):
    id: str


class DeletedBatch(Result, kw_only=True):
    successful: Annotated[list[DoneEntry], Named("DeleteMessageBatchResultEntry")] | None = None
    failed: Failed | None = None


class ChangeMessageVisibility(OfQueue, kw_only=True):
    receipt_handle: str | None = None
    visibility_timeout: int | None = None


class ChangeEntry(Given, kw_only=True):
    id: str | None = None
    receipt_handle: str | None = None
    visibility_timeout: int | None = None


class ChangeMessageVisibilityBatch(OfQueue, kw_only=True):
    entries: Annotated[list[ChangeEntry], Named("ChangeMessageVisibilityBatchRequestEntry")] | None = None


class ChangedBatch(Result, kw_only=True):
    successful: Annotated[list[DoneEntry], Named("ChangeMessageVisibilityBatchResultEntry")] | None = None
    failed: Failed | None = None


# Move tasks


class StartMessageMoveTask(Given, kw_only=True):
    source_arn: str | None = None
    destination_arn: str | None = None
    max_number_of_messages_per_second: int | None = None


class TaskStarted(Result, kw_only=True):
    task_handle: str


class CancelMessageMoveTask(Given, kw_only=True):
    task_handle: str | None = None


class TaskCancelled(Result, kw_only=True):
    approximate_number_of_messages_moved: int


class ListMessageMoveTasks(Given, kw_only=True):
    source_arn: str | None = None
    max_results: int | None = None


class Task(Result, kw_only=True):
    task_handle: str | None = None
    status: str
    source_arn: str
    destination_arn: str | None = None
    max_number_of_messages_per_second: int | None = None
    approximate_number_of_messages_moved: int
    approximate_number_of_messages_to_move: int | None = None
    failure_reason: str | None = None
    started_timestamp: int


class TaskList(Result, kw_only=True):
    results: Annotated[list[Task], Named("ListMessageMoveTasksResultEntry")] | None = None

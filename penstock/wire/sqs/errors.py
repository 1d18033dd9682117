"""How SQS puts an error: one table of its own kinds, one over the whole error tree."""

from __future__ import annotations

from penstock import errors
from penstock.wire.aws.errors import AwsError
from penstock.wire.aws.gateway import Call

_PREFIX = "AWS.SimpleQueueService."

KINDS: dict[str, tuple[str, int]] = {
    "BatchEntryIdsNotDistinct": (f"{_PREFIX}BatchEntryIdsNotDistinct", 400),
    "BatchRequestTooLong": (f"{_PREFIX}BatchRequestTooLong", 400),
    "EmptyBatchRequest": (f"{_PREFIX}EmptyBatchRequest", 400),
    "InvalidAddress": ("InvalidAddress", 400),
    "InvalidAttributeName": ("InvalidAttributeName", 400),
    "InvalidAttributeValue": ("InvalidAttributeValue", 400),
    "InvalidBatchEntryId": (f"{_PREFIX}InvalidBatchEntryId", 400),
    "InvalidMessageContents": ("InvalidMessageContents", 400),
    "MessageNotInflight": (f"{_PREFIX}MessageNotInflight", 400),
    "OverLimit": ("OverLimit", 400),
    "PurgeQueueInProgress": (f"{_PREFIX}PurgeQueueInProgress", 403),
    "QueueDeletedRecently": (f"{_PREFIX}QueueDeletedRecently", 400),
    "QueueDoesNotExist": (f"{_PREFIX}NonExistentQueue", 400),
    "QueueNameExists": ("QueueAlreadyExists", 400),
    "ReceiptHandleIsInvalid": ("ReceiptHandleIsInvalid", 400),
    "RequestThrottled": ("RequestThrottled", 400),
    "ResourceNotFoundException": ("ResourceNotFoundException", 404),
    "TooManyEntriesInBatchRequest": (f"{_PREFIX}TooManyEntriesInBatchRequest", 400),
    "UnsupportedOperation": (f"{_PREFIX}UnsupportedOperation", 400),
}
"""The errors of the service model: their older codes, their statuses."""

COMMON: dict[str, tuple[str, int]] = {
    "AccessDeniedException": ("AccessDenied", 403),
    "InternalFailure": ("InternalFailure", 500),
    "InvalidParameterValueException": ("InvalidParameterValue", 400),
    "ServiceUnavailable": ("ServiceUnavailable", 503),
}
"""Errors every AWS service has."""

FAULTS: dict[type[errors.PenstockError], str] = {
    errors.Invalid: "InvalidParameterValueException",
    errors.InvalidName: "InvalidParameterValueException",
    errors.TooLarge: "InvalidParameterValueException",
    errors.InvalidReceipt: "ReceiptHandleIsInvalid",
    errors.NotFound: "ResourceNotFoundException",
    errors.QueueNotFound: "QueueDoesNotExist",
    errors.MessageNotFound: "InvalidParameterValueException",
    errors.TaskNotFound: "ResourceNotFoundException",
    errors.TokenNotFound: "AccessDeniedException",
    errors.TopicNotFound: "ResourceNotFoundException",
    errors.SubscriptionNotFound: "ResourceNotFoundException",
    errors.DeliveryNotFound: "ResourceNotFoundException",
    errors.JobNotFound: "ResourceNotFoundException",
    errors.StreamNotFound: "ResourceNotFoundException",
    errors.ScheduleNotFound: "ResourceNotFoundException",
    errors.Conflict: "UnsupportedOperation",
    errors.QueueExists: "QueueNameExists",
    errors.ReceiptStale: "InvalidParameterValueException",
    errors.MoveInProgress: "InvalidParameterValueException",
    errors.LeaseStale: "UnsupportedOperation",
    errors.ScheduleExists: "UnsupportedOperation",
    errors.QueueFull: "OverLimit",
    errors.RateLimited: "RequestThrottled",
    errors.Forbidden: "AccessDeniedException",
    errors.Unauthorized: "AccessDeniedException",
    errors.Unsupported: "UnsupportedOperation",
    errors.Unavailable: "ServiceUnavailable",
    errors.PenstockError: "InternalFailure",
}

_NAME = "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length"
_NO_QUEUE = "The specified queue does not exist."
_NO_QUEUE_QUERY = "The specified queue does not exist for this wsdl version."
_TASK_RUNS = "There is already a task running. Only one active task is allowed for a source queue arn at a given time."

TEXTS: dict[type[errors.PenstockError], str] = {
    errors.InvalidName: _NAME,
    errors.TaskNotFound: "Task does not exist.",
    errors.MoveInProgress: _TASK_RUNS,
    errors.Forbidden: "Access to the resource is denied.",
    errors.Unauthorized: "Access to the resource is denied.",
    errors.Unavailable: "The service is unavailable. Please try again.",
    errors.PenstockError: "We encountered an internal error. Please try again.",
}
"""Where AWS has a text of its own; any other error keeps the engine's."""


def sqs_error(kind: str, message: str) -> AwsError:
    if kind in KINDS:
        code, status = KINDS[kind]
        return AwsError(kind, message, code=code, status=status, space="com.amazonaws.sqs")
    code, status = COMMON[kind]
    return AwsError(kind, message, code=code, status=status)


def explain(error: Exception, call: Call) -> AwsError | None:
    if not isinstance(error, errors.PenstockError):
        return None
    if isinstance(error, errors.QueueNotFound):
        return sqs_error("QueueDoesNotExist", _NO_QUEUE_QUERY if call.query else _NO_QUEUE)
    return to_aws_error(error)


def to_aws_error(error: errors.PenstockError) -> AwsError:
    kind = next(FAULTS[ancestor] for ancestor in type(error).__mro__ if ancestor in FAULTS)
    return sqs_error(kind, TEXTS.get(type(error), error.message))


def no_such_queue(call: Call) -> AwsError:
    return sqs_error("QueueDoesNotExist", _NO_QUEUE_QUERY if call.query else _NO_QUEUE)

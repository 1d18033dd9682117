"""How SNS puts an error: one table of its own kinds, one over the whole error tree."""

from __future__ import annotations

from penstock import errors
from penstock.wire.aws.errors import AwsError
from penstock.wire.aws.gateway import Call

KINDS: dict[str, tuple[str, int]] = {
    "AuthorizationErrorException": ("AuthorizationError", 403),
    "BatchEntryIdsNotDistinctException": ("BatchEntryIdsNotDistinct", 400),
    "BatchRequestTooLongException": ("BatchRequestTooLong", 400),
    "ConcurrentAccessException": ("ConcurrentAccess", 400),
    "EmptyBatchRequestException": ("EmptyBatchRequest", 400),
    "EndpointDisabledException": ("EndpointDisabled", 400),
    "FilterPolicyLimitExceededException": ("FilterPolicyLimitExceeded", 403),
    "InternalErrorException": ("InternalError", 500),
    "InvalidBatchEntryIdException": ("InvalidBatchEntryId", 400),
    "InvalidParameterException": ("InvalidParameter", 400),
    "InvalidParameterValueException": ("ParameterValueInvalid", 400),
    "InvalidStateException": ("InvalidState", 400),
    "NotFoundException": ("NotFound", 404),
    "OptedOutException": ("OptedOut", 400),
    "PlatformApplicationDisabledException": ("PlatformApplicationDisabled", 400),
    "ResourceNotFoundException": ("ResourceNotFound", 404),
    "SubscriptionLimitExceededException": ("SubscriptionLimitExceeded", 403),
    "TagLimitExceededException": ("TagLimitExceeded", 400),
    "ThrottledException": ("Throttled", 429),
    "TooManyEntriesInBatchRequestException": ("TooManyEntriesInBatchRequest", 400),
    "TopicLimitExceededException": ("TopicLimitExceeded", 403),
    "UserErrorException": ("UserError", 400),
    "VerificationException": ("VerificationException", 400),
}
"""The errors of the service model: their codes, their statuses."""

COMMON: dict[str, tuple[str, int]] = {
    "ServiceUnavailable": ("ServiceUnavailable", 503),
    "ValidationError": ("ValidationError", 400),
}

FAULTS: dict[type[errors.PenstockError], str] = {
    errors.Invalid: "InvalidParameterException",
    errors.NotFound: "NotFoundException",
    errors.Conflict: "ConcurrentAccessException",
    errors.QueueFull: "ThrottledException",
    errors.RateLimited: "ThrottledException",
    errors.Forbidden: "AuthorizationErrorException",
    errors.Unsupported: "InvalidParameterException",
    errors.Unavailable: "ServiceUnavailable",
    errors.PenstockError: "InternalErrorException",
}

TEXTS: dict[type[errors.PenstockError], str] = {
    errors.TopicNotFound: "Topic does not exist",
    errors.SubscriptionNotFound: "Subscription does not exist",
    errors.Forbidden: "The caller is not authorized to perform this operation on this resource",
    errors.Unavailable: "The service is unavailable. Please try again.",
    errors.PenstockError: "We encountered an internal error. Please try again.",
}
"""Where AWS has a text of its own; any other error keeps the engine's."""


def sns_error(kind: str, message: str) -> AwsError:
    if kind in KINDS:
        code, status = KINDS[kind]
        return AwsError(kind, message, code=code, status=status, space="com.amazonaws.sns")
    code, status = COMMON[kind]
    return AwsError(kind, message, code=code, status=status)


def invalid(what: str, reason: str = "") -> AwsError:
    """`what` is the name of a parameter, or all there is to say."""
    text = f"Invalid parameter: {what} Reason: {reason}" if reason else f"Invalid parameter: {what}"
    return sns_error("InvalidParameterException", text)


def no_value(parameter: str) -> AwsError:
    return invalid(parameter, "no value for required parameter")


def not_found(message: str) -> AwsError:
    return sns_error("NotFoundException", message)


def bad_attribute(message: str) -> AwsError:
    """Of a message's attributes, which have a code of their own."""
    return sns_error("InvalidParameterValueException", message)


def constraint(value: str | None, place: str, rule: str) -> AwsError:
    """What the service model itself forbids."""
    shown = "null" if value is None else f"'{value}'"
    text = f"1 validation error detected: Value {shown} at '{place}' failed to satisfy constraint: Member must {rule}"
    return sns_error("ValidationError", text)


def explain(error: Exception, call: Call) -> AwsError | None:
    return to_aws_error(error) if isinstance(error, errors.PenstockError) else None


def to_aws_error(error: errors.PenstockError) -> AwsError:
    kind = next(FAULTS[ancestor] for ancestor in type(error).__mro__ if ancestor in FAULTS)
    text = TEXTS.get(type(error), error.message)
    return invalid(text) if kind == "InvalidParameterException" else sns_error(kind, text)

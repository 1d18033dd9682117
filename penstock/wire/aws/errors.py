"""Errors as AWS puts them: one value, rendered by whichever protocol the caller speaks."""

from __future__ import annotations


class AwsError(Exception):
    """An answer of AWS that is not a success.

    `kind` is the shape's name, `code` the older one that Query answers carry and JSON answers repeat in a header.
    """

    def __init__(
        self,
        kind: str,
        message: str = "",
        *,
        code: str | None = None,
        status: int = 400,
        space: str = "com.amazon.coral.service",
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.code = code or kind
        self.status = status
        self.space = space

    @property
    def fault(self) -> str:
        """Whose it is."""
        return "Sender" if self.status < 500 else "Receiver"


def malformed(message: str) -> AwsError:
    """The input does not have the shape of the action."""
    return AwsError("SerializationException", message, code="MalformedInput")


def invalid(message: str) -> AwsError:
    return AwsError("InvalidParameterValueException", message, code="InvalidParameterValue")


def invalid_value(value: object, parameter: str, reason: str) -> AwsError:
    return invalid(f"Value {value} for parameter {parameter} is invalid. Reason: {reason}")


def missing(parameter: str) -> AwsError:
    return AwsError(
        "MissingRequiredParameterException", f"The request must contain the parameter {parameter}.",
        code="MissingParameter",
    )  # fmt: skip


def unknown_operation(status: int = 404) -> AwsError:
    return AwsError("UnknownOperationException", status=status)


def invalid_action(action: str) -> AwsError:
    return AwsError("InvalidAction", f"The action {action} is not valid for this endpoint.")


def internal() -> AwsError:
    return AwsError("InternalFailure", "We encountered an internal error. Please try again.", status=500)

"""How the JSON doors put an error: one table over the whole error tree, and nothing else decides a status."""

from __future__ import annotations

import logging
import math

import msgspec

from penstock import errors
from penstock.wire.http.messages import Refusal, Response, allow_header

log = logging.getLogger("penstock.http")

CHALLENGE = (b"www-authenticate", b"Bearer")

FAULTS: dict[type[errors.PenstockError], int] = {
    errors.Invalid: 400,
    errors.InvalidName: 400,
    errors.TooLarge: 413,
    errors.InvalidReceipt: 400,
    errors.NotFound: 404,
    errors.QueueNotFound: 404,
    errors.MessageNotFound: 404,
    errors.TaskNotFound: 404,
    errors.TokenNotFound: 404,
    errors.TopicNotFound: 404,
    errors.SubscriptionNotFound: 404,
    errors.DeliveryNotFound: 404,
    errors.JobNotFound: 404,
    errors.StreamNotFound: 404,
    errors.ScheduleNotFound: 404,
    errors.Conflict: 409,
    errors.QueueExists: 409,
    errors.ReceiptStale: 409,
    errors.MoveInProgress: 409,
    errors.LeaseStale: 409,
    errors.ScheduleExists: 409,
    errors.QueueFull: 429,
    errors.RateLimited: 429,
    errors.Forbidden: 403,
    errors.Unauthorized: 401,
    errors.Unsupported: 501,
    errors.Unavailable: 503,
    errors.PenstockError: 500,
}


class Fault(msgspec.Struct, omit_defaults=True):
    """What went wrong, for people, for programs, and where."""

    error: str
    code: str
    field: str | None = None
    request_id: str | None = None


def status_of(error: errors.PenstockError) -> int:
    return next(FAULTS[kind] for kind in type(error).__mro__ if kind in FAULTS)


def json_fault(error: Exception, request_id: str) -> Response:
    """The answer to any error. What nobody foresaw is logged, and not told to the caller."""
    if isinstance(error, errors.PenstockError):
        return _answer(status_of(error), Fault(error.message, type(error).__name__, error.field), _headers(error))
    if isinstance(error, Refusal):
        allow = (allow_header(error.allow),) if error.allow else ()
        return _answer(error.status, Fault(error.message, error.code, error.field), allow)
    log.error("request failed", exc_info=error, extra={"request_id": request_id})
    return _answer(500, Fault("Internal error", "InternalError", request_id=request_id))


def _headers(error: errors.PenstockError) -> tuple[tuple[bytes, bytes], ...]:
    if isinstance(error, errors.RateLimited):
        return (retry_after(error.retry_after_s),)
    return (CHALLENGE,) if isinstance(error, errors.Unauthorized) else ()


def retry_after(seconds: float) -> tuple[bytes, bytes]:
    return b"retry-after", str(max(math.ceil(seconds), 1)).encode()


def _answer(status: int, fault: Fault, headers: tuple[tuple[bytes, bytes], ...] = ()) -> Response:
    return Response(status, msgspec.json.encode(fault), headers=headers)

"""How this protocol puts an error: `{"error": {"code": …, "message": …}}`, one table over the whole error tree."""

from __future__ import annotations

import logging

import msgspec

from penstock import errors
from penstock.wire.http.faults import retry_after
from penstock.wire.http.messages import Refusal, Response, allow_header

log = logging.getLogger("penstock.http")

FAULTS: dict[type[errors.PenstockError], tuple[int, str]] = {
    errors.Invalid: (400, "ValidationError"),
    errors.TooLarge: (413, "MessageSizeExceeded"),
    errors.NotFound: (404, "NotFound"),
    errors.Conflict: (409, "Conflict"),
    errors.QueueFull: (503, "QueueFull"),
    errors.RateLimited: (429, "RateLimited"),
    errors.Forbidden: (403, "Forbidden"),
    errors.Unauthorized: (401, "Unauthorized"),
    errors.Unsupported: (501, "Unsupported"),
    errors.Unavailable: (500, "InternalError"),
    errors.PenstockError: (500, "InternalError"),
}
INTERNAL = "an internal error occurred"
_CODES = {"BodyTooLarge": "MessageSizeExceeded"}
"""Of refusals, where the protocol has a code of its own."""


class Problem(msgspec.Struct):
    code: str
    message: str


class SimpleFault(msgspec.Struct):
    error: Problem


def duplicate_message(dedup_id: str | None) -> Refusal:
    return Refusal(409, "DuplicateMessage", f"message_deduplication_id '{dedup_id}' was used already")


def invalid_request(message: str) -> Refusal:
    return Refusal(400, "InvalidRequest", message)


def problem_of(error: Exception) -> tuple[int, Problem]:
    """Status, and what a client is told: of a failure of ours nothing but that."""
    if isinstance(error, errors.PenstockError):
        status, code = next(FAULTS[kind] for kind in type(error).__mro__ if kind in FAULTS)
        return status, Problem(code, INTERNAL if status == 500 else error.message)
    if isinstance(error, Refusal):
        return error.status, Problem(_CODES.get(error.code, error.code), error.message)
    return 500, Problem("InternalError", INTERNAL)


def simple_fault(error: Exception, request_id: str) -> Response:
    status, problem = problem_of(error)
    if status == 500:
        log.error("request failed", exc_info=error, extra={"request_id": request_id})
    headers: tuple[tuple[bytes, bytes], ...] = ()
    if isinstance(error, Refusal) and error.allow:
        headers = (allow_header(error.allow),)
    elif isinstance(error, errors.RateLimited):
        headers = (retry_after(error.retry_after_s),)
    elif status == 401:
        headers = ((b"www-authenticate", b"Bearer"),)
    return Response(status, msgspec.json.encode(SimpleFault(problem)), headers=headers)

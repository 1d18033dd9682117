"""One call, from its request to its result, without doing any input or output itself.

`exchange` is a generator: it yields what it wants done, a request to send or a pause to keep, and is sent what came
of it. So the rules of trying again are written once, and the clients that block and those that do not are thin shells
around them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import msgspec

from penstock import errors
from penstock.client.reading import decode

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Request:
    """`repeatable` says that arriving twice does no more than arriving once."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    repeatable: bool = True
    timeout_s: float = 30.0


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: bytes
    retry_after: str | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """No answer came. `sent` says that the request may have reached the server all the same."""

    reason: str
    sent: bool


@dataclass(frozen=True, slots=True)
class Pause:
    seconds: float


Exchange = Generator[Request | Pause, Answer | Failure | None, Result]


@dataclass(frozen=True, slots=True)
class Call(Generic[Result]):
    """A request, and how to read its answer."""

    request: Request
    read: Callable[[Any], Result]


@dataclass(frozen=True, slots=True)
class Retries:
    """How often a call is tried, and how long the pauses between are: doubling, capped, and shortened at random so
    that clients that failed together do not come back together."""

    attempts: int = 4
    base_s: float = 0.1
    cap_s: float = 5.0
    spread: Callable[[], float] = random.random

    def pause_s(self, attempt: int) -> float:
        longest = min(self.base_s * 2.0 ** (attempt - 1), self.cap_s)
        return longest * (1 - self.spread() / 2)


ONCE = Retries(attempts=1)


def exchange(call: Call[Result], retries: Retries) -> Exchange[Result]:
    attempt = 0
    while True:
        attempt += 1
        outcome = yield call.request
        assert outcome is not None
        if isinstance(outcome, Answer) and 200 <= outcome.status < 300:
            return call.read(decode(outcome.body) if outcome.body else None)
        error = error_of(outcome)
        if attempt >= retries.attempts or not is_transient(call.request, outcome):
            raise error
        asked = error.retry_after_s if isinstance(error, errors.RateLimited) else 0.0
        yield Pause(max(retries.pause_s(attempt), min(asked, retries.cap_s)))


def is_transient(request: Request, outcome: Answer | Failure) -> bool:
    """Whether to try again. What may have been done already is repeated only when that does no harm."""
    if isinstance(outcome, Failure):
        return request.repeatable or not outcome.sent
    if outcome.status == 429:
        return _code(outcome) != errors.QueueFull.__name__
    return request.repeatable and outcome.status in (408, 502, 503, 504)


BY_NAME = {kind.__name__: kind for kind in errors.BY_CODE.values()}

BY_STATUS: dict[int, type[errors.PenstockError]] = {
    401: errors.Forbidden,
    403: errors.Forbidden,
    404: errors.NotFound,
    408: errors.Unavailable,
    409: errors.Conflict,
    413: errors.TooLarge,
    501: errors.Unsupported,
    502: errors.Unavailable,
    503: errors.Unavailable,
    504: errors.Unavailable,
}


def error_of(outcome: Answer | Failure) -> errors.PenstockError:
    """The error of the tree that the server names, or else the one its status stands for."""
    if isinstance(outcome, Failure):
        return errors.Unavailable(outcome.reason)
    fault = _fault(outcome)
    message = str(fault.get("error") or f"the server answered {outcome.status}")
    if outcome.status == 429 and fault.get("code") != errors.QueueFull.__name__:
        return errors.RateLimited(message, retry_after_s=_seconds(outcome.retry_after))
    other = errors.Invalid if 400 <= outcome.status < 500 else errors.PenstockError
    kind = BY_NAME.get(str(fault.get("code"))) or BY_STATUS.get(outcome.status, other)
    # Built without its own constructor: some make their message from arguments that did not travel.
    error = kind.__new__(kind)
    errors.PenstockError.__init__(error, message, field=fault.get("field"))
    return error


def _code(answer: Answer) -> object:
    return _fault(answer).get("code")


def _fault(answer: Answer) -> dict[str, Any]:
    """A proxy between us and the server may answer with anything."""
    try:
        found = msgspec.json.decode(answer.body)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _seconds(text: str | None) -> float:
    try:
        return max(float(text or 1), 0.0)
    except ValueError:
        return 1.0

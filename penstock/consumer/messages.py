"""What a handler is given, what may become of it, and how fast it may be asked for."""

from __future__ import annotations

import json
from collections import deque
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from penstock.tracing import TraceContext

Delay = float | timedelta
"""Seconds, or a timedelta."""

MINUTE_S = 60.0

UNREAD = object()
"""In place of a payload that was not read yet."""


class UnreadablePayload(Exception):
    """The payload is JSON beyond the bounds of Python: nested too deeply, or with too long a number."""


class Fate(StrEnum):
    DONE = "done"
    RETRY = "retry"
    DEAD = "dead"
    UNTRIED = "untried"
    """Not handed to a handler: an earlier message of the same key failed."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is to become of a message."""

    fate: Fate
    retry_after_s: float | None = None
    """None: as the consumer says."""
    reason: str | None = None
    undo: bool = False
    """Whether what a transactional handler wrote is rolled back although the message is not tried again."""

    @property
    def rolls_back(self) -> bool:
        return self.undo or self.fate is Fate.RETRY


DONE = Verdict(Fate.DONE)
UNTRIED = Verdict(Fate.UNTRIED)


@dataclass(slots=True)
class Message:
    """One event, with the columns of `pgque.message`. `text` is the payload as it was sent."""

    queue: str
    msg_id: int
    batch_id: int
    type: str
    text: str | None
    retry_count: int
    created_at: datetime
    extra1: str | None = None
    extra2: str | None = None
    extra3: str | None = None
    extra4: str | None = None
    _payload: Any = field(init=False, default=UNREAD, repr=False, compare=False)
    verdict: Verdict = field(init=False, default=DONE, repr=False)

    @property
    def payload(self) -> Any:
        """The payload, parsed when it is JSON; `UnreadablePayload` when it is JSON that Python cannot read."""
        if self._payload is UNREAD:
            self._payload = parsed(self.text)
        return self._payload

    @payload.setter
    def payload(self, value: Any) -> None:
        self._payload = value

    @property
    def trace(self) -> TraceContext | None:
        """The trace the producer was in, when it left one."""
        return TraceContext.parse(self.extra1)

    def nack(self, retry_after: Delay | None = None, reason: str | None = None) -> None:
        """Have it delivered again, after a while; once its retries are used up it becomes a dead letter."""
        self.verdict = Verdict(Fate.RETRY, seconds(retry_after), reason)

    def dead_letter(self, reason: str) -> None:
        """Set it aside for good: trying again would not help."""
        self.verdict = Verdict(Fate.DEAD, reason=reason)


def parsed(text: str | None) -> Any:
    if text is None:
        return None
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text
    except RecursionError:
        raise UnreadablePayload("the payload cannot be read: nested too deeply") from None
    except ValueError as error:
        raise UnreadablePayload(f"the payload cannot be read: {error}") from None


def seconds(delay: Delay | None) -> float | None:
    """As a number, refused when it is below zero."""
    if delay is None:
        return None
    number = delay.total_seconds() if isinstance(delay, timedelta) else float(delay)
    if not 0 <= number < float("inf"):
        raise ValueError(f"a delay is zero or more seconds, not {number}")
    return number


class RateLimit:
    """At most so many messages in any minute, failed attempts included.

    It remembers the moments of the last calls rather than filling a bucket: a bucket would let twice the number pass
    within one minute.
    """

    def __init__(self, max_per_minute: int) -> None:
        if max_per_minute < 1:
            raise ValueError("max_per_minute must be at least 1")
        self.max_per_minute = max_per_minute
        self._calls: deque[float] = deque()

    def free(self, now: float) -> int:
        """How many messages may be handled at this moment."""
        while self._calls and self._calls[0] <= now - MINUTE_S:
            self._calls.popleft()
        return self.max_per_minute - len(self._calls)

    def wait_s(self, now: float, count: int = 1) -> float:
        """Seconds until so many may be handled; 0 when they may be now."""
        missing = min(count, self.max_per_minute) - self.free(now)
        return self._calls[missing - 1] + MINUTE_S - now if missing > 0 else 0.0

    def take(self, now: float, count: int = 1) -> None:
        self._calls.extend([now] * count)

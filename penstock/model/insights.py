"""What the pipeline insights found out: numbers of an hour or a day, and the errors behind them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class Step(StrEnum):
    HOUR = "hour"
    DAY = "day"


class InsightKind(StrEnum):
    QUEUE = "queue"
    JOB = "job"
    STREAM = "stream"
    DELIVERY = "delivery"


InsightCursor = tuple[datetime, InsightKind, str]
"""When it began, its kind and its name: by these an insight is found, and by these they are in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InsightRow:
    kind: InsightKind
    name: str
    starts_at: datetime
    sent: int
    done: int
    retried: int
    failed: int
    dead: int
    retry_rate: float | None
    dead_rate: float | None
    per_second: float
    p50_s: float | None
    p95_s: float | None
    p99_s: float | None
    max_s: float | None
    recorded_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class InsightErrorRow:
    """Errors of one shape over some time."""

    kind: InsightKind
    name: str
    shape: str
    count: int
    example: str
    first_at: datetime
    last_at: datetime
    """The first and the last hour it happened in."""


class Question(StrEnum):
    SLOWER = "slower"
    """Which queue has become slower: its 95th percentile in seconds."""
    GROWING = "growing"
    """What gets more than before: messages, jobs or events a day."""
    TENANT_GROWING = "tenant_growing"
    """Which tenant sends more than before; only for operators."""
    NEW_ERROR = "new_error"
    """Which error is new since yesterday, and how often it came."""
    FILLING = "filling"
    """Where more and more waits: how much now, and in an hour if it goes on like this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """An answer to a question: a number as it was, and as it is; of `filling` as it is, and as it will be."""

    question: Question
    kind: InsightKind | None
    """None for a tenant."""
    name: str
    before: float
    now: float
    detail: str | None
    """Example of an error."""
    points: tuple[tuple[datetime, float], ...] = ()
    """How the number got there, by hour; of `filling` by minute, with a forecast after now. Empty unless asked for."""

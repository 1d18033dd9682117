"""Samples: what the counters said at the end of a minute or of an hour. Charts are drawn from them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import IntEnum, StrEnum

from penstock.model.tenants import TenantId


class SampleKind(StrEnum):
    QUEUE = "queue"
    JOB = "job"
    """A queue of jobs."""
    CONSUMER = "consumer"
    """A consumer of a stream, named `stream/consumer`."""


class SampleStep(IntEnum):
    """In minutes."""

    MINUTE = 1
    HOUR = 60

    @property
    def length(self) -> timedelta:
        return timedelta(minutes=self.value)


KEPT = {SampleStep.MINUTE: timedelta(days=1), SampleStep.HOUR: timedelta(days=31)}
"""How long samples are kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    tenant: TenantId
    kind: SampleKind
    name: str
    """Empty: all of the tenant together."""
    arrived: int | None
    """Ever sent; None where that is not counted."""
    departed: int | None
    """Ever deleted, expired or moved away."""
    waiting: int
    oldest_s: float | None
    """Age of the oldest message, or the lag of a consumer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledPoint:
    starts_at: datetime
    arrived: int | None
    departed: int | None
    waiting: int
    oldest_s: float | None


class OutcomeKind(StrEnum):
    """What succeeds or fails, as charts count it."""

    JOB = "job"
    """Attempts that workers reported."""
    DELIVERY = "delivery"
    """Attempts of webhook deliveries."""
    SCHEDULE = "schedule"
    """Fires; one that failed or came late is missed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    tenant: TenantId
    kind: OutcomeKind
    good: int
    bad: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomePoint:
    kind: OutcomeKind
    starts_at: datetime
    good: int
    bad: int

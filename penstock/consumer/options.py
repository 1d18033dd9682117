"""The options of every kind of consumer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal, TypedDict, get_args

from penstock.consumer.handlers import Handlers
from penstock.consumer.messages import Delay, seconds
from penstock.consumer.protocol import Plan, Source

CONDITIONS_POLL_S = 1.0
"""With conditions on a batch, time alone may fulfil them, and there is no notification of that."""


Unhandled = Literal["error", "ack", "dead"]


class Options(TypedDict, total=False):
    """Each may be left out; the defaults are those of `Settled`."""

    max_messages: int
    """Messages that one fetch brings at most, and one acknowledgement covers."""
    concurrency: int
    """Handlers that run side by side."""
    retry_after: Delay
    """How long a message whose handler raised waits for its next attempt."""
    max_retries: int
    """For messages with `ordered_by`; for all others the setting of the stream counts."""
    unhandled: Unhandled
    """What happens to a message whose type has no handler: `error`, `ack` or `dead`."""
    poll_interval: Delay
    """How often to look for events without a notification."""
    check_interval: Delay
    """How soon, while waiting, to ask again for events that no tick covers yet; 0 leaves ticks to the ticker."""
    min_interval: Delay | None
    """Batches span at least so much time."""
    min_count: int | None
    """Batches hold at least so many events."""
    min_lag: Delay | None
    """Only events at least so old."""
    subconsumer: str | None
    """The name of this worker among several that share one position, a batch each."""
    dead_interval: Delay | None
    """Take over the batch of another worker that has been silent for so long."""
    heartbeat_interval: Delay | None
    """How often this worker says that it is alive; a third of `dead_interval` unless given."""
    subscribe: bool
    """Register the consumer at the start, from the newest events on, when it is not yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """Options with their defaults, checked."""

    max_messages: int = 100
    concurrency: int = 1
    retry_after: Delay = 60.0
    max_retries: int = 5
    unhandled: Unhandled = "ack"
    poll_interval: Delay = 30.0
    check_interval: Delay = 0.015
    min_interval: Delay | None = None
    min_count: int | None = None
    min_lag: Delay | None = None
    subconsumer: str | None = None
    dead_interval: Delay | None = None
    heartbeat_interval: Delay | None = None
    subscribe: bool = True

    def __post_init__(self) -> None:
        for name, least in (("max_messages", 1), ("concurrency", 1), ("max_retries", 0)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} must be at least {least}")
        if self.unhandled not in get_args(Unhandled):
            raise ValueError(f"unhandled must be 'error', 'ack' or 'dead', not {self.unhandled!r}")
        if self.dead_interval is not None and self.subconsumer is None:
            raise ValueError("dead_interval is for cooperative consumers: name the subconsumer too")
        if self.heartbeat_interval is not None and self.subconsumer is None:
            raise ValueError("heartbeat_interval is for cooperative consumers: name the subconsumer too")
        if self.heartbeat_s is not None and not 0 < self.heartbeat_s < (seconds(self.dead_interval) or math.inf):
            raise ValueError("heartbeat_interval must be longer than 0 and shorter than dead_interval")
        if self.conditional and self.subconsumer is not None:
            raise ValueError("a cooperative consumer takes batches as they come: no min_interval, min_count or min_lag")

    @property
    def heartbeat_s(self) -> float | None:
        """Seconds between heartbeats, of cooperative consumers."""
        if self.heartbeat_interval is not None:
            return seconds(self.heartbeat_interval)
        dead_s = seconds(self.dead_interval)
        return dead_s / 3 if dead_s else None

    @property
    def conditional(self) -> bool:
        return (self.min_interval, self.min_count, self.min_lag) != (None, None, None)

    def plan(self, sources: Sequence[Source], handlers: Handlers) -> Plan:
        self._check(handlers)
        poll_s = seconds(self.poll_interval) or 0.0
        return Plan(
            sources=sources,
            handlers=handlers,
            max_messages=self.max_messages,
            retry_after_s=seconds(self.retry_after) or 0.0,
            max_retries=self.max_retries,
            poll_interval_s=min(poll_s, CONDITIONS_POLL_S) if self.conditional else poll_s,
            check_interval_s=0.0 if self.conditional else seconds(self.check_interval) or 0.0,
        )

    def _check(self, handlers: Handlers) -> None:
        if self.concurrency > 1 and any(handler.transactional for handler in handlers):
            raise ValueError("transactional handlers share one connection: concurrency must be 1")
        if self.subconsumer is not None and any(handler.ordered_by for handler in handlers):
            raise ValueError("ordered_by holds within one consumer: a cooperative one has several")


def interval(delay: Delay | None) -> timedelta | None:
    """As PostgreSQL takes it."""
    number = seconds(delay)
    return None if number is None else timedelta(seconds=number)

"""What the drivers for threads and for asyncio share: options, handlers, and the verdict on a call."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

from penstock import tracing
from penstock.consumer.handlers import EVERYTHING, Function, Handlers
from penstock.consumer.heartbeat import beating
from penstock.consumer.messages import DONE, Fate, Message, RateLimit, UnreadablePayload, Verdict
from penstock.consumer.options import Options, Settled
from penstock.consumer.protocol import Plan, Source
from penstock.tracing.measuring import BATCH, LATENCY, measure

log = logging.getLogger("penstock.consumer")

REASON_LENGTH = 1_000
"""Of the text of an exception, which may be as long as a payload."""

OUTCOMES = {"error": "tried again later", "ack": "acknowledged", "dead": "dead letter"}


@dataclass(frozen=True, slots=True)
class Health:
    """`idle_s` is the time since the consumer last looked for events; a handler that hangs makes it grow."""

    running: bool
    idle_s: float | None
    unhandled: dict[str, int]
    """Events without a handler so far, by type."""


class Worker:
    def __init__(self, dsn: str, sources: Sequence[Source], options: Options) -> None:
        unknown = [name for name in options if name not in Options.__annotations__]
        if unknown:
            raise TypeError(f'unknown option "{unknown[0]}"; known: {", ".join(Options.__annotations__)}')
        self._dsn = dsn
        self._sources = sources
        self._options = Settled(**options)
        self._handlers = Handlers()
        self.unhandled: Counter[str | None] = Counter()
        """How many messages had no handler, by their type."""
        self._counting = threading.Lock()
        self._heard = False
        """Whether a notification has come since the protocol last looked at the streams."""
        self._looked_at: float | None = None

    def __repr__(self) -> str:
        positions = ", ".join(f"{source.consumer} of stream {source.queue}" for source in self._sources)
        return f"<{type(self).__name__} {positions}>"

    def on(
        self,
        type: str = EVERYTHING,
        *,
        transactional: bool = False,
        ordered_by: str | None = None,
        rate_limit: RateLimit | None = None,
    ) -> Callable[[Function], Function]:
        """Have the decorated function handle messages of this type; `"*"` handles those that no other function does.

        With `transactional` it is called with the connection too, inside the transaction that acknowledges: what it
        writes there and the acknowledgement are committed together or not at all. With `ordered_by` messages that
        agree in that column are handled one at a time and in order. `rate_limit` bounds how often it is called.
        """
        return self._handlers.on(type, transactional=transactional, ordered_by=ordered_by, rate_limit=rate_limit)

    def health(self) -> Health:
        """How the consumer is doing; may be called from any thread."""
        with self._counting:
            unhandled = {str(kind): count for kind, count in self.unhandled.items()}
        looked_at = self._looked_at
        idle_s = None if looked_at is None else time.monotonic() - looked_at
        return Health(looked_at is not None, idle_s, unhandled)

    def _plan(self) -> Plan:
        return self._options.plan(self._sources, self._handlers)

    def _beating(self) -> AbstractContextManager[None]:
        return beating(self._dsn, self._sources, self._options.subconsumer, self._options.heartbeat_s)

    @property
    def _name(self) -> str:
        return f"penstock consumer {self._sources[0].consumer}"

    def _received(self, source: Source, messages: list[Message]) -> list[Message]:
        measure(BATCH, len(messages), {"queue": source.queue, "consumer": source.consumer})
        return messages

    def _hear(self, _: object) -> None:
        self._heard = True

    def _consumer_of(self, message: Message) -> str:
        return next(source.consumer for source in self._sources if source.queue == message.queue)

    def _judge_unhandled(self, message: Message) -> Verdict:
        choice = self._options.unhandled
        with self._counting:
            self.unhandled[message.type] += 1
        consumer = self._consumer_of(message)
        log.log(
            logging.INFO if choice == "ack" else logging.ERROR,
            "no handler for type %r: stream %s, consumer %s, event %s, %s",
            *(message.type, message.queue, consumer, message.msg_id, OUTCOMES[choice]),
            extra={**_about(message), "consumer": consumer},
        )
        if choice == "ack":
            return DONE
        fate = Fate.DEAD if choice == "dead" else Fate.RETRY
        return Verdict(fate, reason=f"consumer {consumer} has no handler for type {message.type}")


@contextmanager
def traced(message: Message, consumer: str) -> Iterator[None]:
    """A handler runs in a child of the producer's trace. Its verdict counts from here on: it may be a second try."""
    message.verdict = DONE
    about = {"messaging.message.id": str(message.msg_id), "messaging.consumer.group.name": consumer}
    with tracing.processing(message.queue, message.trace, about):
        yield
    taken_s = max((datetime.now(UTC) - message.created_at).total_seconds(), 0.0)
    measure(LATENCY, taken_s, {"queue": message.queue, "consumer": consumer})


def failure(message: Message, error: Exception) -> Verdict:
    """The verdict on a message whose handler raised: the log has the traceback, the stream the first words."""
    if isinstance(error, UnreadablePayload):
        log.warning("event %s of stream %s is a dead letter: %s", message.msg_id, message.queue, error)
        return Verdict(Fate.DEAD, reason=str(error), undo=True)
    log.warning("a handler failed", exc_info=error, extra=_about(message))
    return Verdict(Fate.RETRY, None, f"{type(error).__name__}: {error}".replace("\0", "")[:REASON_LENGTH])


def _about(message: Message) -> dict[str, object]:
    # Not the payload, which is the owner's business and may be a secret.
    return {"queue": message.queue, "msg_id": message.msg_id, "msg_type": message.type}

"""The middle of every consumer: what to ask next, and what to do with the answer. No clock, no socket, no thread.

`consume` is a generator of steps. A driver performs each and sends back the answer, or throws `Lost` into it when the
connection has gone; the drivers for threads and for asyncio differ in nothing but how they perform a step. Tests play
the driver and need no database.

A batch stays open until it is settled, so a consumer that dies is given the same messages again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.consumer.handlers import Handlers
from penstock.consumer.messages import UNTRIED, Fate, Message, RateLimit, Verdict

SHORTEST_BACKOFF_S = 0.1
LONGEST_BACKOFF_S = 30.0
LONGEST_NAP_S = 1.0


class Lost(Exception):
    """The connection is gone; whatever was not committed did not happen."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where messages come from: a stream, and the name of the consumer that keeps the position."""

    queue: str
    consumer: str


@dataclass(slots=True, kw_only=True)
class Plan:
    """What the owner of a consumer decided."""

    sources: Sequence[Source]
    """The first that has messages is served, always from the front: their order is their priority."""
    handlers: Handlers
    max_messages: int = 100
    retry_after_s: float = 60.0
    max_retries: int = 5
    """For ordered messages, which are tried again in place. The stream counts the retries of all others."""
    poll_interval_s: float = 30.0
    check_interval_s: float = 0.0
    """How soon to ask again whether events wait for a tick, then rarer and rarer; 0 leaves ticks to others."""


# Steps, each with its answer


@dataclass(frozen=True, slots=True)
class Connect:
    """Connect and listen."""


@dataclass(frozen=True, slots=True)
class Look:
    """Answer: `Seen`."""


@dataclass(frozen=True, slots=True)
class Seen:
    now: float
    """Seconds on any clock that only goes forward."""
    stopping: bool = False


@dataclass(frozen=True, slots=True)
class Fetch:
    """Answer: messages of the open batch, or of the next one; none when there is no batch."""

    source: Source
    limit: int


@dataclass(frozen=True, slots=True)
class Tick:
    """Close a batch behind the events that have come, and ask senders to announce what comes next.

    Answer: whether any source has a new batch.
    """


@dataclass(frozen=True, slots=True)
class Wait:
    """Until something is heard of, or the consumer shall stop, or so long. Answer: whether it was not the time."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Pause:
    """Until the consumer shall stop, or so long; whatever is heard meanwhile. Connected or not."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Begin:
    """Open a transaction."""


@dataclass(frozen=True, slots=True)
class Run:
    """Call the handlers: sequences side by side as far as allowed, the messages of a sequence one after the other.

    A sequence ends early at a message that is to be tried again. Answer: the verdict on each message, by id.
    """

    sequences: list[list[Message]]
    in_transaction: bool


@dataclass(frozen=True, slots=True)
class Settle:
    """Write the verdicts down and acknowledge. Answer: False when the batch is no longer ours."""

    source: Source
    messages: list[Message]
    verdicts: dict[int, Verdict]


@dataclass(frozen=True, slots=True)
class Commit:
    pass


@dataclass(frozen=True, slots=True)
class Rollback:
    pass


Step = Connect | Look | Fetch | Tick | Wait | Pause | Begin | Run | Settle | Commit | Rollback
Steps = Generator[Step, Any, None]


@dataclass(slots=True)
class Backoff:
    """Twice as long each time, up to half a minute."""

    failures: int = 0

    def longer(self) -> float:
        self.failures += 1
        return min(SHORTEST_BACKOFF_S * 2.0 ** min(self.failures - 1, 20), LONGEST_BACKOFF_S)


def consume(plan: Plan) -> Steps:
    """Until the driver says in `Seen` that it is stopping; never ends a batch half way."""
    backoff = Backoff()
    attempts = Attempts()
    while True:
        try:
            yield Connect()
            return (yield from _serve(plan, backoff, attempts))
        except Lost:
            yield Pause(backoff.longer())
            seen: Seen = yield Look()
            if seen.stopping:
                return None


def _serve(plan: Plan, backoff: Backoff, attempts: Attempts) -> Steps:
    while True:
        seen: Seen = yield Look()
        if seen.stopping:
            return
        limit, wait_s = _allowance(plan, seen.now)
        if limit == 0:
            yield Pause(wait_s)
            continue
        for source in plan.sources:
            messages: list[Message] = yield Fetch(source, limit)
            backoff.failures = 0
            if messages:
                yield from _process(plan, source, messages, attempts)
                break
        else:
            yield from _idle(plan)


def _idle(plan: Plan) -> Steps:
    """Until there is, or may be, a new batch."""
    if plan.check_interval_s == 0:
        yield Wait(plan.poll_interval_s)
        return
    waited_s, nap_s = 0.0, plan.check_interval_s
    while waited_s < plan.poll_interval_s:
        yield Look()
        if (yield Tick()):
            return
        if (yield Wait(nap_s)):
            # It may have been an event, or a tick of another session: either way there is a batch after this.
            yield Tick()
            return
        # A sender that began before we asked for announcements makes none when it commits: look again, soon at first.
        waited_s += nap_s
        nap_s = min(nap_s * 2, max(LONGEST_NAP_S, plan.check_interval_s))


def _allowance(plan: Plan, now: float) -> tuple[int, float]:
    """How many messages may be asked for; when none, how long to wait.

    A fetch that brings no more than every limit allows leaves the rest where it is safest: in the queue.
    """
    limits: set[RateLimit] = plan.handlers.limits()
    free = min((limit.free(now) for limit in limits), default=plan.max_messages)
    return max(min(free, plan.max_messages), 0), max((limit.wait_s(now) for limit in limits), default=0.0)


def _process(plan: Plan, source: Source, messages: list[Message], attempts: Attempts) -> Steps:
    handlers = plan.handlers
    transactional = any((handler := handlers.find(each)) is not None and handler.transactional for each in messages)
    if transactional:
        yield from _process_in_transaction(plan, source, messages, attempts)
        return
    verdicts: dict[int, Verdict] = {}
    sequences = handlers.sequences(messages)
    while sequences:
        verdicts |= yield from _run(plan, sequences, in_transaction=False)
        sequences, pause_s = attempts.again(plan, sequences, verdicts)
        if pause_s is not None:
            yield Pause(pause_s)
            seen: Seen = yield Look()
            if seen.stopping:
                # In order or not at all: the batch stays open, and comes again at the next start.
                return
    yield Begin()
    ours = yield Settle(source, messages, verdicts)
    yield Commit() if ours else Rollback()
    attempts.forget(messages)


def _process_in_transaction(plan: Plan, source: Source, messages: list[Message], attempts: Attempts) -> Steps:
    yield Begin()
    verdicts: dict[int, Verdict] = {}
    sequences = plan.handlers.sequences(messages)
    while sequences:
        verdicts |= yield from _run(plan, sequences, in_transaction=True)
        sequences, pause_s = attempts.again(plan, sequences, verdicts)
        if pause_s is not None:
            # Later messages of a failed one's key must wait for it, but no transaction shall: all comes again.
            yield Rollback()
            yield Pause(pause_s)
            return
    ours = yield Settle(source, messages, verdicts)
    # What another process has settled meanwhile it has also done: doing it here too would be twice.
    yield Commit() if ours else Rollback()
    attempts.forget(messages)


def _run(
    plan: Plan, sequences: list[list[Message]], *, in_transaction: bool
) -> Generator[Step, Any, dict[int, Verdict]]:
    limits = Counter(limit for sequence in sequences for message in sequence if (limit := plan.handlers.limit(message)))
    seen: Seen = yield Look()
    # A fetch brought no more than the limits allow; only what is tried again may have to wait here.
    wait_s = max((limit.wait_s(seen.now, count) for limit, count in limits.items()), default=0.0)
    if wait_s > 0:
        yield Pause(wait_s)
    verdicts: dict[int, Verdict] = yield Run(sequences, in_transaction)
    seen = yield Look()
    for message in (message for sequence in sequences for message in sequence):
        tried = verdicts.setdefault(message.msg_id, UNTRIED) is not UNTRIED
        if tried and (limit := plan.handlers.limit(message)) is not None:
            limit.take(seen.now)
    return verdicts


@dataclass(slots=True)
class Attempts:
    """Ordered messages that failed and are tried again in place, and how often they were.

    Through the queue's retries they would come back behind later messages of their key.
    """

    counts: dict[int, int] = field(default_factory=dict)

    def again(
        self, plan: Plan, sequences: list[list[Message]], verdicts: dict[int, Verdict]
    ) -> tuple[list[list[Message]], float | None]:
        """What is left of the sequences, and how long to wait when something is to be tried again.

        A message tried often enough is dead, and those behind it may go on.
        """
        left: list[list[Message]] = []
        pause_s: float | None = None
        for sequence in sequences:
            place = next((n for n, each in enumerate(sequence) if verdicts[each.msg_id].fate is Fate.RETRY), None)
            if place is None or plan.handlers.key(sequence[place]) is None:
                continue
            failed = sequence[place]
            verdict = verdicts[failed.msg_id]
            self.counts[failed.msg_id] = self.counts.get(failed.msg_id, failed.retry_count) + 1
            if self.counts[failed.msg_id] > plan.max_retries:
                verdicts[failed.msg_id] = Verdict(Fate.DEAD, reason=verdict.reason or "max retries exceeded")
                rest = sequence[place + 1 :]
            else:
                rest = sequence[place:]
                delay = verdict.retry_after_s
                pause_s = max(pause_s or 0.0, plan.retry_after_s if delay is None else delay)
            if rest:
                left.append(rest)
        return left, pause_s

    def forget(self, messages: list[Message]) -> None:
        for message in messages:
            self.counts.pop(message.msg_id, None)

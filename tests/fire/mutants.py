"""Mutants: switches that break one rule each, so that the checks can be checked. For tests only.

A mutant changes an engine after it was made. `tests/fire/test_mutants.py` plays a script against each;
`make fire ARGS="--mutant NAME"` breaks the servers of a run with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

from penstock.engine import Engine
from penstock.errors import PenstockError
from penstock.model import Handle, Outcome, Receive, Received, Send, Sent
from penstock.model.jobs import Completion, Heartbeat, JobOutcome, Leased, LeaseRequest, NewJob
from penstock.model.schedules import Fired, Firing, headers_of, mark
from penstock.model.streams import EventBatch
from penstock.store import Store
from penstock.store.jobs import JobStore
from penstock.store.schedules import ScheduleStore
from penstock.store.streams import StreamStore

Verb = Callable[..., Awaitable[Any]]


@dataclass(frozen=True)
class Mutant:
    """`caught_as` are the checks of which at least one must find it."""

    name: str
    caught_as: tuple[str, ...]
    breaks: Callable[[Engine], None]
    streams: bool = False
    """It needs a store with streams."""


MUTANTS: dict[str, Mutant] = {}


def mutant(*caught_as: str, streams: bool = False) -> Callable[[Callable[[Engine], None]], Callable[[Engine], None]]:
    def add(breaks: Callable[[Engine], None]) -> Callable[[Engine], None]:
        name = breaks.__name__.replace("_", " ")
        MUTANTS[name] = Mutant(name, caught_as, breaks, streams)
        return breaks

    return add


def _swap(owner: object, verb: str, make: Callable[[Verb], Verb]) -> None:
    """Replace a method of one object. Engines that share a store share its fault."""
    plain: Verb = getattr(owner, verb)
    if not getattr(plain, "is_mutant", False):
        broken = make(plain)
        broken.is_mutant = True  # type: ignore[attr-defined]
        setattr(owner, verb, broken)
        if verb in ("send_many", "receive_many", "delete_many"):
            _part_exchange(owner)


def _part_exchange(store: Any) -> None:
    """A shared statement would go past a fault that is in one of its verbs."""

    async def exchange(sends: Any, receives: Any, deletes: Any, now: datetime) -> Any:
        sent = await store.send_many(sends, now) if sends else []
        outcomes = await store.delete_many(deletes, now) if deletes else []
        return sent, await store.receive_many(receives, now) if receives else [], outcomes

    store.exchange = exchange


def _change_sends(store: Store, change: Callable[[Send], Send]) -> None:
    def make(plain: Verb) -> Verb:
        async def send_many(entries: Sequence[Send], now: datetime) -> Any:
            return await plain([change(entry) for entry in entries], now)

        return send_many

    _swap(store, "send_many", make)


def _change_receives(store: Store, change: Callable[[Receive], Receive]) -> None:
    def make(plain: Verb) -> Verb:
        async def receive_many(requests: Sequence[Receive], now: datetime) -> Any:
            return await plain([change(request) for request in requests], now)

        return receive_many

    _swap(store, "receive_many", make)


def _change_received(store: Store, change: Callable[[str, Received], Received]) -> None:
    def make(plain: Verb) -> Verb:
        async def receive_many(requests: Sequence[Receive], now: datetime) -> Any:
            answers = await plain(requests, now)
            return [
                change(request.queue, answer) if isinstance(answer, Received) else answer
                for request, answer in zip(requests, answers, strict=True)
            ]

        return receive_many

    _swap(store, "receive_many", make)


# Queues


@mutant("lost")
def commits_after_the_answer(engine: Engine) -> None:
    """The answer does not wait for the store. A node that dies takes the message with it."""
    tasks: set[asyncio.Task[Any]] = set()

    def make(plain: Verb) -> Verb:
        async def send_many(entries: Sequence[Send], now: datetime) -> list[Sent]:
            async def later() -> None:
                await asyncio.sleep(0.3)
                with suppress(PenstockError):
                    await plain(entries, now)

            tasks.add(asyncio.create_task(later()))
            return [Sent(id=2**40) for _ in entries]

        return send_many

    _swap(engine.store, "send_many", make)


@mutant("two holders", "receive count")
def ignores_the_visibility_timeout(engine: Engine) -> None:
    _change_receives(engine.store, lambda request: replace(request, visibility_timeout_s=0))


@mutant("order")
def answers_groups_backwards(engine: Engine) -> None:
    def backwards(queue: str, received: Received) -> Received:
        return Received(received.messages[::-1] if queue.endswith(".fifo") else received.messages, received.next_due_at)

    _change_received(engine.store, backwards)


@mutant("order")
def passes_over_the_head_of_a_group(engine: Engine) -> None:
    def make(plain: Verb) -> Verb:
        async def receive_many(requests: Sequence[Receive], now: datetime) -> Any:
            wanted = [replace(each, limit=each.limit + each.queue.endswith(".fifo")) for each in requests]
            answers = await plain(wanted, now)
            for request, answer in zip(requests, answers, strict=True):
                if isinstance(answer, Received) and len(answer.messages) > request.limit:
                    del answer.messages[0]
            return answers

        return receive_many

    _swap(engine.store, "receive_many", make)


@mutant("duplicate")
def remembers_deduplication_ids_in_memory(engine: Engine) -> None:
    """Each node knows only what it was sent itself."""
    known: dict[tuple[Any, ...], Sent] = {}

    def make(plain: Verb) -> Verb:
        async def send(entry: Send) -> Any:
            if entry.dedup_id is None:
                return await plain(entry)
            key = (entry.tenant, entry.queue, entry.dedup_id)
            if key not in known:
                known[key] = await plain(replace(entry, dedup_id=uuid4().hex))
            return known[key]

        return send

    _swap(engine.messages, "send", make)

    def make_batch(plain: Verb) -> Verb:
        async def send_batch(entries: Sequence[Send]) -> Any:
            return [await engine.messages.send(entry) for entry in entries]

        return send_batch

    _swap(engine.messages, "send_batch", make_batch)


@mutant("stale receipt")
def accepts_any_receipt(engine: Engine) -> None:
    def make(plain: Verb) -> Verb:
        async def delete_many(handles: Sequence[Handle], now: datetime) -> Any:
            return await plain([replace(handle, lease=None) for handle in handles], now)

        return delete_many

    _swap(engine.store, "delete_many", make)


@mutant("deleted", "counts")
def confirms_deletes_without_deleting(engine: Engine) -> None:
    def make(plain: Verb) -> Verb:
        async def delete_many(handles: Sequence[Handle], now: datetime) -> list[Outcome]:
            return [Outcome.DONE for _ in handles]

        return delete_many

    _swap(engine.store, "delete_many", make)


def _change_limit(engine: Engine, by: int) -> None:
    def make(plain: Verb) -> Verb:
        async def receive_many(requests: Sequence[Receive], now: datetime) -> Any:
            changed = []
            for request in requests:
                settings = (await engine.store.get_queue(request.tenant, request.queue)).settings
                if settings.max_receives is not None:
                    limit, target = settings.max_receives + by, settings.dead_letter_queue
                    request = replace(request, max_receives=limit, dead_letter_queue=target)
                changed.append(request)
            return await plain(changed, now)

        return receive_many

    _swap(engine.store, "receive_many", make)


@mutant("dead letter")
def makes_dead_letters_one_receive_late(engine: Engine) -> None:
    _change_limit(engine, 1)


@mutant("dead letter")
def makes_dead_letters_one_receive_early(engine: Engine) -> None:
    _change_limit(engine, -1)


@mutant("delay")
def ignores_delays(engine: Engine) -> None:
    _change_sends(engine.store, lambda entry: replace(entry, delay_s=0))


@mutant("receive count")
def does_not_count_receives(engine: Engine) -> None:
    def first(queue: str, received: Received) -> Received:
        return Received([replace(message, receives=1) for message in received.messages], received.next_due_at)

    _change_received(engine.store, first)


@mutant("altered")
def drops_attributes(engine: Engine) -> None:
    _change_sends(engine.store, lambda entry: replace(entry, attributes=None))


@mutant("altered")
def trims_bodies(engine: Engine) -> None:
    _change_sends(engine.store, lambda entry: replace(entry, body=entry.body.strip()))


@mutant("tenant")
def mixes_tenants_up(engine: Engine) -> None:
    """Every receive is made for the tenant that sent last."""
    last: list[Any] = []

    def note(entry: Send) -> Send:
        last[:] = [entry.tenant]
        return entry

    _change_sends(engine.store, note)
    _change_receives(engine.store, lambda request: replace(request, tenant=last[0]) if last else request)


@mutant("counts", "lost")
def stores_every_message_twice(engine: Engine) -> None:
    def make(plain: Verb) -> Verb:
        async def send_many(entries: Sequence[Send], now: datetime) -> Any:
            await plain(entries, now)
            return await plain(entries, now)

        return send_many

    _swap(engine.store, "send_many", make)


@mutant("lost")
def loses_the_last_of_a_shared_statement(engine: Engine) -> None:
    """Only where several callers send at the same moment, and only one of them."""

    def make(plain: Verb) -> Verb:
        async def send_many(entries: Sequence[Send], now: datetime) -> list[Sent]:
            sent: list[Sent] = await plain(entries[: max(len(entries) - 1, 1)], now)
            return [*sent, *(Sent(id=2**40) for _ in entries[len(sent) :])]

        return send_many

    _swap(engine.store, "send_many", make)


@mutant("lost")
def deletes_what_comes_again(engine: Engine) -> None:
    """A message that was received before is delivered at most once more."""

    def make(plain: Verb) -> Verb:
        async def receive_many(requests: Sequence[Receive], now: datetime) -> Any:
            answers = await plain(requests, now)
            for request, answer in zip(requests, answers, strict=True):
                again = [message for message in answer.messages if message.receives > 1]
                gone = [Handle(tenant=request.tenant, queue=request.queue, id=each.id, lease=None) for each in again]
                if gone and not request.queue.endswith(".fifo"):
                    await engine.store.delete_many(gone, now)
            return answers

        return receive_many

    _swap(engine.store, "receive_many", make)


@mutant("receive count")
def counts_later_receives_twice(engine: Engine) -> None:
    def more(queue: str, received: Received) -> Received:
        changed = [replace(each, receives=each.receives + (each.receives > 1)) for each in received.messages]
        return Received(changed, received.next_due_at)

    _change_received(engine.store, more)


@mutant("two holders")
def answers_a_message_twice_at_once(engine: Engine) -> None:
    def twice(queue: str, received: Received) -> Received:
        more = [replace(each, receives=each.receives + 1) for each in received.messages[:1]]
        return Received([*received.messages, *more], received.next_due_at)

    _change_received(engine.store, twice)


@mutant("two holders")
def confirms_changes_of_the_timeout_without_making_them(engine: Engine) -> None:
    def make(plain: Verb) -> Verb:
        async def change_visibility_many(changes: Sequence[tuple[Handle, int]], now: datetime) -> Any:
            return [(Outcome.DONE, now + timedelta(seconds=seconds)) for _, seconds in changes]

        return change_visibility_many

    _swap(engine.store, "change_visibility_many", make)


@mutant("altered")
def mixes_groups_up(engine: Engine) -> None:
    """The second of the messages that are received together is said to be of another group."""

    def mix(queue: str, received: Received) -> Received:
        for message in received.messages[1:2]:
            message.group_id = message.group_id and "other"
        return received

    _change_received(engine.store, mix)


@mutant("duplicate")
def copies_dead_letters(engine: Engine) -> None:
    """Who receives a dead letter for the first time leaves another one behind."""
    known: set[str] = set()

    def make(plain: Verb) -> Verb:
        async def receive_many(requests: Sequence[Receive], now: datetime) -> Any:
            answers = await plain(requests, now)
            for request, answer in zip(requests, answers, strict=True):
                for message in answer.messages if request.queue == "dead" else []:
                    copied = Send(tenant=request.tenant, queue="dead", body=message.body, attributes=message.attributes)
                    if message.body not in known:
                        known.add(message.body)
                        await engine.store.send_many([copied], now)
            return answers

        return receive_many

    _swap(engine.store, "receive_many", make)


# Jobs


@mutant("two leases")
def shortens_leases_after_a_failure(engine: Engine) -> None:
    """The first attempt of each job is sound."""
    jobs: JobStore = engine.store.jobs

    def make(lease_many: Verb) -> Verb:
        async def shortened(requests: Sequence[LeaseRequest], now: datetime) -> Any:
            answers: list[Leased] = await lease_many(requests, now)
            for request, answer in zip(requests, answers, strict=True):
                again = [job for job in answer.jobs if job.retry_count]
                beats = [Heartbeat(tenant=request.tenant, id=job.id, token=job.token, lease_s=1) for job in again]
                await jobs.beat_many(beats, now - timedelta(seconds=1))
            return answers

        return shortened

    _swap(jobs, "lease_many", make)


@mutant("after")
def ignores_what_a_job_comes_after(engine: Engine) -> None:
    def make(plain: Verb) -> Verb:
        async def enqueue_many(entries: Sequence[NewJob], now: datetime) -> Any:
            return await plain([replace(entry, after=()) for entry in entries], now)

        return enqueue_many

    _swap(engine.store.jobs, "enqueue_many", make)


@mutant("stale token")
def accepts_any_token(engine: Engine) -> None:
    tokens: dict[str, str] = {}
    jobs: JobStore = engine.store.jobs

    def note(plain: Verb) -> Verb:
        async def lease_many(requests: Sequence[LeaseRequest], now: datetime) -> Any:
            answers: list[Leased] = await plain(requests, now)
            tokens.update({job.id: job.token for answer in answers for job in answer.jobs})
            return answers

        return lease_many

    def accept(plain: Verb) -> Verb:
        async def complete_many(entries: Sequence[Completion], now: datetime) -> Any:
            return await plain([replace(entry, token=tokens.get(entry.id, entry.token)) for entry in entries], now)

        return complete_many

    _swap(jobs, "lease_many", note)
    _swap(jobs, "complete_many", accept)


def _change_leases(engine: Engine, seconds: int) -> None:
    def make(plain: Verb) -> Verb:
        async def lease_many(requests: Sequence[LeaseRequest], now: datetime) -> Any:
            return await plain([replace(request, lease_s=seconds) for request in requests], now)

        return lease_many

    _swap(engine.store.jobs, "lease_many", make)


@mutant("two leases", "attempts")
def shortens_leases(engine: Engine) -> None:
    def make(plain: Verb) -> Verb:
        async def lease_many(requests: Sequence[LeaseRequest], now: datetime) -> Any:
            # A lease of a second that began a second ago has ended.
            short = [replace(request, lease_s=1) for request in requests]
            return await plain(short, now - timedelta(seconds=1))

        return lease_many

    _swap(engine.store.jobs, "lease_many", make)


@mutant("orphan", "job lost")
def keeps_jobs_of_dead_workers(engine: Engine) -> None:
    _change_leases(engine, 3600)


@mutant("concurrency")
def ignores_the_concurrency_of_a_queue(engine: Engine) -> None:
    def make(plain: Verb) -> Verb:
        async def set_limits(*arguments: Any) -> None:
            return None

        return set_limits

    _swap(engine.store.jobs, "set_limits", make)


@mutant("cancel")
def confirms_cancels_without_cancelling(engine: Engine) -> None:
    def make(plain: Verb) -> Verb:
        async def cancel(*arguments: Any) -> bool:
            return True

        return cancel

    _swap(engine.store.jobs, "cancel", make)


@mutant("job lost", "attempts")
def confirms_acks_without_completing(engine: Engine) -> None:
    def make(plain: Verb) -> Verb:
        async def complete_many(entries: Sequence[Completion], now: datetime) -> tuple[list[JobOutcome], list[Any]]:
            return [JobOutcome.DONE for _ in entries], []

        return complete_many

    _swap(engine.store.jobs, "complete_many", make)


# Schedules, webhooks, streams


@mutant("fired twice")
def fires_schedules_on_every_node(engine: Engine) -> None:
    """Whether another node has fired meanwhile is not looked at."""
    schedules: ScheduleStore = engine.store.schedules

    def make(plain: Verb) -> Verb:
        async def fire(firings: Sequence[Firing], now: datetime) -> Sequence[Fired]:
            for firing in firings:
                for moment in firing.times:
                    marked = headers_of(None, mark(firing.schedule.name, moment, out_of_band=False))
                    target = firing.schedule.settings.target
                    entry = Send(tenant=firing.schedule.tenant, queue=target, body="tick", headers=marked)
                    await engine.store.send_many([entry], now)
            fired: Sequence[Fired] = await plain(firings, now)
            return fired

        return fire

    _swap(schedules, "fire", make)


@mutant("not fired")
def leaves_out_fires(engine: Engine) -> None:
    """Of several times that are due it fires the first alone."""

    def make(plain: Verb) -> Verb:
        async def fire(firings: Sequence[Firing], now: datetime) -> Any:
            return await plain([replace(firing, times=firing.times[:1]) for firing in firings], now)

        return fire

    _swap(engine.store.schedules, "fire", make)


@mutant("not fired")
def stops_firing_after_a_restart(engine: Engine) -> None:
    """A node that was started again fires three times more."""
    left = 3

    def make(plain: Verb) -> Verb:
        async def fire(firings: Sequence[Firing], now: datetime) -> Any:
            nonlocal left
            left -= 1
            return await plain(firings, now) if left >= 0 else []

        return fire

    _swap(engine.store.schedules, "fire", make)


@mutant("webhook")
def makes_attempts_on_every_node(engine: Engine) -> None:
    """Each request goes out twice at the same moment."""

    def make(plain: Verb) -> Verb:
        async def ask(delivery: object) -> Any:
            await plain(delivery)
            return await plain(delivery)

        return ask

    _swap(engine.webhooks, "_ask", make)


@mutant("webhook")
def marks_webhooks_before_they_are_sent(engine: Engine) -> None:
    def make(plain: Verb) -> Verb:
        async def ask(delivery: object) -> tuple[int | None, str | None]:
            return 200, None

        return ask

    _swap(engine.webhooks, "_ask", make)


@mutant("event lost", "sink", streams=True)
def skips_late_commits(engine: Engine) -> None:
    """A consumer goes by the ids of events instead of their commits."""
    streams: StreamStore = engine.store.streams
    highest: dict[tuple[Any, ...], int] = {}

    def make(plain: Verb) -> Verb:
        async def receive(tenant: Any, name: str, consumer: str, limit: int) -> Any:
            batch: EventBatch | None = await plain(tenant, name, consumer, limit)
            if batch is None:
                return None
            key = (tenant, name, consumer)
            kept = [event for event in batch.events if event.id > highest.get(key, 0)]
            highest[key] = max([highest.get(key, 0), *(event.id for event in batch.events)])
            return replace(batch, events=kept)

        return receive

    _swap(streams, "receive", make)


@mutant("event twice", streams=True)
def forgets_acknowledgements_of_batches(engine: Engine) -> None:
    def make(plain: Verb) -> Verb:
        async def ack(*arguments: Any) -> bool:
            return True

        return ack

    _swap(engine.store.streams, "ack", make)


@mutant("event twice", streams=True)
def repeats_an_event_in_the_next_batch(engine: Engine) -> None:
    """The last event of a batch is the first of the next one, which is acknowledged as well."""
    streams: StreamStore = engine.store.streams
    last: dict[tuple[Any, ...], tuple[int, Any]] = {}

    def make(plain: Verb) -> Verb:
        async def receive(tenant: Any, name: str, consumer: str, limit: int) -> Any:
            batch: EventBatch | None = await plain(tenant, name, consumer, limit)
            if batch is None or not batch.events:
                return batch
            key = (tenant, name, consumer)
            before = last.get(key)
            last[key] = (batch.id, batch.events[-1])
            if before is None or before[0] == batch.id:
                return batch
            return replace(batch, events=[before[1], *batch.events])

        return receive

    _swap(streams, "receive", make)


def break_engines(name: str) -> None:
    """Break every engine that this process makes from now on."""
    plain = Engine.__init__

    def make(self: Engine, *arguments: Any, **options: Any) -> None:
        plain(self, *arguments, **options)
        MUTANTS[name].breaks(self)

    Engine.__init__ = make  # type: ignore[method-assign]

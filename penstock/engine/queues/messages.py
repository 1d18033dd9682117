"""Messages: send, receive, delete, hide, peek.

What may happen to a message is the store's to decide, inside its transaction. Here requests are checked,
joined into shared statements, and receivers put to sleep and woken.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import groupby
from time import perf_counter
from typing import Any, TypeVar

from penstock import limits
from penstock.clock import Clock
from penstock.engine.answers import Answer
from penstock.engine.batching import Batcher, Flush, KeyedBatchers, MixedBatcher
from penstock.engine.checks import check_length, check_name, check_range, check_receive, check_send, check_text
from penstock.engine.metrics import Histogram, Labels, Metrics
from penstock.engine.waiting import Expectations, Key, Look, Waiters
from penstock.errors import PenstockError, QueueNotFound
from penstock.model import Handle, Message, Outcome, Receive, Received, Send, Sent, TenantId
from penstock.model.queues import message_bytes
from penstock.store import Store

Item = TypeVar("Item")
Result = TypeVar("Result")

Change = tuple[Handle, int]
Changed = tuple[Outcome, datetime | None]

MOST_FOUND = 10_000
"""Messages that a search finds."""

SEND, RECEIVE, DELETE = range(3)
"""What shares a statement."""


class Messages:
    whole = True
    """Whether callers may `begin` what they finish themselves. Not where a span must last until the answer."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        waiters: Waiters,
        metrics: Metrics,
        *,
        batching: bool = True,
        linger_s: float = 0.0,
    ) -> None:
        self._store = store
        self._clock = clock
        self._waiters = waiters
        self._metrics = metrics
        self._expectations = Expectations(self._tell)

        def batchers(
            flush: Flush[Item, Result],
            *,
            linger_s: float = 0.0,
            observe: Callable[[int], None] | None = None,
            abandoned: Callable[[Sequence[Item], Sequence[Result]], None] | None = None,
        ) -> KeyedBatchers[Item, Result]:
            return KeyedBatchers(
                lambda: Batcher(flush, enabled=batching, linger_s=linger_s, observe=observe, abandoned=abandoned)
            )

        sizes = metrics.batch_sizes
        self._sends: KeyedBatchers[Send, Sent | PenstockError] = batchers(
            self._send, linger_s=linger_s, observe=lambda size: sizes.observe((), size)
        )
        self._receives: KeyedBatchers[Receive, Received | PenstockError] = batchers(
            self._receive, abandoned=self._give_back
        )
        self._deletes: KeyedBatchers[Handle, Outcome | PenstockError] = batchers(self._delete)
        self._changes: KeyedBatchers[Change, Changed | PenstockError] = batchers(self._change)
        # Someone who sets a linger wants sends to wait, and nothing else.
        mixed = batching and not linger_s
        self._mixed = (
            MixedBatcher(self._exchange, 3, parallel=store.parallel, abandoned=self._abandon) if mixed else None
        )

    def begin_send(self, entry: Send) -> Answer[Sequence[Sent | PenstockError]]:
        """Send one message. The answer holds one result, which may be an error."""
        check_send(entry)
        return self._submit_sends([entry], _batch_key_of_send(entry))

    def begin_receive(self, request: Receive) -> Answer[Sequence[Received | PenstockError]]:
        """Receive without waiting. The answer holds one result, which may be an error, or `crowded_out`."""
        check_receive(request)
        return self._submit_receive(request)

    def begin_delete(self, handle: Handle) -> Answer[Sequence[Outcome | PenstockError]]:
        return self._submit_deletes([handle])

    async def send(self, entry: Send) -> Sent:
        check_send(entry)
        [sent] = await self._submit_sends([entry], _batch_key_of_send(entry))
        if isinstance(sent, PenstockError):
            raise sent
        return sent

    async def send_batch(self, entries: Sequence[Send]) -> list[Sent | PenstockError]:
        """One answer per entry; a bad entry does not stop the others."""
        answers: list[Sent | PenstockError | None] = []
        good: list[Send] = []
        for entry in entries:
            try:
                check_send(entry)
            except PenstockError as error:
                answers.append(error)
            else:
                answers.append(None)
                good.append(entry)
        key = next((found for found in map(_batch_key_of_send, good) if found is not None), None)
        results = iter(await self._submit_sends(good, key)) if good else iter(())
        return [next(results) if answer is None else answer for answer in answers]

    async def receive(self, request: Receive, wait_s: float = 0.0) -> list[Message]:
        """Messages at once, or the first that come within `wait_s`; an empty list when none do.

        When the caller is cancelled while a claim is in flight, what it claimed is released.
        """
        check_receive(request)
        check_range("wait", wait_s, limits.RECEIVE_WAIT_S)
        if wait_s <= 0:
            return (await self._claim(request)).messages
        key = (request.tenant, request.queue)
        return await self._waiters.poll(key, wait_s, lambda: self._look(request), self._expectations.expect)

    async def delete(self, handle: Handle) -> Outcome:
        [outcome] = await self._submit_deletes([handle])
        if isinstance(outcome, PenstockError):
            raise outcome
        return outcome

    async def delete_batch(self, handles: Sequence[Handle]) -> list[Outcome | PenstockError]:
        return list(await self._submit_deletes(handles))

    async def archive_batch(self, handles: Sequence[Handle]) -> list[Outcome | PenstockError]:
        outcomes = await self._store.archive_many(handles, self._clock.now())
        self._after_delete(handles, outcomes)
        return outcomes

    async def change_visibility(self, handle: Handle, seconds: int) -> Changed:
        [changed] = await self.change_visibility_batch([(handle, seconds)])
        if isinstance(changed, PenstockError):
            raise changed
        return changed

    async def change_visibility_batch(self, changes: Sequence[Change]) -> list[Changed | PenstockError]:
        lowest, highest = limits.VISIBILITY_TIMEOUT_S
        for _, seconds in changes:
            check_range("vt", seconds, (lowest - highest, highest))
        first = changes[0][0]
        return list(await self._changes.submit(changes, _batch_key_of_queue(first.queue, first.tenant)))

    async def peek(self, tenant: TenantId, queue: str, limit: int = 1, *, shuffle: bool = False) -> list[Message]:
        check_name(queue)
        check_range("max", limit, limits.RECEIVE_LIMIT)
        return await self._store.peek(tenant, queue, limit, self._clock.now(), shuffle=shuffle)

    async def find(
        self,
        tenant: TenantId,
        queue: str,
        *,
        text: str | None = None,
        source: str | None = None,
        limit: int = MOST_FOUND,
    ) -> list[int]:
        """Ids of visible messages with a text in body or headers, and of one source of dead letters; in their order."""
        check_name(queue)
        check_range("limit", limit, (1, MOST_FOUND))
        check_length("text", text, (1, limits.MESSAGE_BYTES[1]))
        check_text("source", source)
        return await self._store.find_messages(tenant, queue, text, source, limit, self._clock.now())

    def arrived(self, tenant: TenantId, queue: str) -> None:
        """Someone else sent to this queue: another node, or a SQL user."""
        self._waiters.wake((tenant, queue), count=limits.RECEIVE_LIMIT[1])

    async def drain(self) -> None:
        """Let waiting receivers go, for good, and answer everything that is under way."""
        self._waiters.stop()
        for batchers in (self._sends, self._receives, self._deletes, self._changes):
            await batchers.drain()
        if self._mixed is not None:
            await self._mixed.drain()
            await self._changes.drain()  # what receivers that left meanwhile have given back

    # Who shares a statement with whom

    def _submit_sends(self, entries: Sequence[Send], key: Key | None) -> Answer[Sequence[Sent | PenstockError]]:
        if key is None and self._mixed is not None:
            return self._mixed.submit(SEND, entries)
        return self._sends.submit(entries, key)

    def _submit_receive(self, request: Receive) -> Answer[Sequence[Received | PenstockError]]:
        # A FIFO claim locks groups, and one that names its own dead letters can lock another queue.
        if self._mixed is not None and request.dead_letter_queue is None and not request.queue.endswith(".fifo"):
            return self._mixed.submit(RECEIVE, [request])
        # FIFO claims take no locks that others wait for, so they share the key of all receives.
        return self._receives.submit([request])

    def _submit_deletes(self, handles: Sequence[Handle]) -> Answer[Sequence[Outcome | PenstockError]]:
        key = _batch_key_of_queue(handles[0].queue, handles[0].tenant)
        if key is None and self._mixed is not None:
            return self._mixed.submit(DELETE, handles)
        return self._deletes.submit(handles, key)

    # Waiting

    async def _claim(self, request: Receive) -> Received:
        while True:
            [received] = await self._submit_receive(request)
            if isinstance(received, PenstockError):
                raise received
            if not received.crowded_out:
                return received

    async def _look(self, request: Receive) -> Look[list[Message]]:
        received = await self._claim(request)
        return Look(received.messages, not received.messages, received.next_due_at)

    async def _tell(self, key: Key) -> None:
        await self._store.expect(*key, self._clock.now())

    def _give_back(self, requests: Sequence[Receive], results: Sequence[Received | PenstockError]) -> None:
        """The receiver left before its claim was answered: release what it claimed."""
        for request, received in zip(requests, results, strict=True):
            if isinstance(received, Received) and received.messages:
                handles = [
                    Handle(tenant=request.tenant, queue=request.queue, id=message.id, lease=message.lease)
                    for message in received.messages
                ]
                self._changes.submit(
                    [(handle, 0) for handle in handles], _batch_key_of_queue(request.queue, request.tenant)
                )

    def _abandon(self, kind: int, items: Sequence[Any], results: Sequence[Any]) -> None:
        if kind == RECEIVE:
            self._give_back(items, results)

    # Shared statements

    async def _exchange(self, parts: list[list[Any]]) -> Sequence[Sequence[Any]]:
        sends, receives, deletes = parts
        if sends:
            self._metrics.batch_sizes.observe((), len(sends))
        if not deletes and not receives:
            return await self._send(sends), (), ()
        if not sends and not deletes:
            return (), await self._receive(receives), ()
        if not sends and not receives:
            return (), (), await self._delete(deletes)
        now, start = self._clock.now(), perf_counter()
        shares = _merge(receives)
        wanted = [request for request, _ in shares]
        sent, received, outcomes = await self._store.exchange(sends, wanted, deletes, now)
        elapsed = perf_counter() - start
        self._after_send(sends, sent, elapsed)
        self._after_receive(wanted, received, now, elapsed)
        self._after_delete(deletes, outcomes, self._metrics.delete_seconds, elapsed)
        return sent, _share_out(len(receives), receives, shares, received), outcomes

    async def _send(self, entries: Sequence[Send]) -> Sequence[Sent | PenstockError]:
        start = perf_counter()
        results = await self._store.send_many(entries, self._clock.now())
        self._after_send(entries, results, perf_counter() - start)
        return results

    def _after_send(self, entries: Sequence[Send], results: Sequence[Sent | PenstockError], elapsed: float) -> None:
        for (tenant, queue), group in groupby(zip(entries, results, strict=True), _queue_of_entry):
            stored = [entry for entry, sent in group if isinstance(sent, Sent) and not sent.duplicate]
            if stored:
                self._count_sent((str(tenant), queue), len(stored), elapsed)
                self._waiters.wake((tenant, queue), len(stored))

    def _count_sent(self, labels: Labels, count: int, elapsed: float) -> None:
        self._metrics.sent.add(labels, count)
        self._metrics.send_seconds.observe(labels, elapsed)

    async def _receive(self, requests: Sequence[Receive]) -> Sequence[Received | PenstockError]:
        if len(requests) == 1:
            results = await self._receive_merged(requests)
        else:
            shares = _merge(requests)
            merged = await self._receive_merged([request for request, _ in shares])
            results = _share_out(len(requests), requests, shares, merged)
        return results

    async def _receive_merged(self, requests: Sequence[Receive]) -> list[Received | PenstockError]:
        now = self._clock.now()
        start = perf_counter()
        results = await self._store.receive_many(requests, now)
        self._after_receive(requests, results, now, perf_counter() - start)
        return results

    def _after_receive(
        self, requests: Sequence[Receive], results: Sequence[Received | PenstockError], now: datetime, elapsed: float
    ) -> None:
        for request, received in zip(requests, results, strict=True):
            if isinstance(received, Received) and received.messages:
                self._count_received((str(request.tenant), request.queue), received.messages, now, elapsed)
                key = (request.tenant, request.queue)
                if self._waiters.waiting(key):
                    self._waiters.wake_at(key, min(message.visible_at for message in received.messages))

    def _count_received(self, labels: Labels, messages: list[Message], now: datetime, elapsed: float) -> None:
        metrics = self._metrics
        metrics.received.add(labels, len(messages))
        metrics.receive_seconds.observe(labels, elapsed)
        for message in messages:
            if message.receives > 1:
                metrics.redelivered.add(labels)
            else:
                metrics.age_seconds.observe(labels, (now - message.sent_at).total_seconds())

    async def _delete(self, handles: Sequence[Handle]) -> Sequence[Outcome | PenstockError]:
        start = perf_counter()
        outcomes = await self._store.delete_many(handles, self._clock.now())
        self._after_delete(handles, outcomes, self._metrics.delete_seconds, perf_counter() - start)
        return outcomes

    def _after_delete(
        self,
        handles: Sequence[Handle],
        outcomes: Sequence[Outcome | PenstockError],
        histogram: Histogram | None = None,
        elapsed: float = 0.0,
    ) -> None:
        done: dict[Key, int] = {}
        for handle, outcome in zip(handles, outcomes, strict=True):
            if outcome is Outcome.DONE:
                key = (handle.tenant, handle.queue)
                done[key] = done.get(key, 0) + 1
        for (tenant, queue), count in done.items():
            labels = (str(tenant), queue)
            self._metrics.deleted.add(labels, count)
            if histogram is not None:
                histogram.observe(labels, elapsed)
            if queue.endswith(".fifo"):
                # A finished message may have been what its group was waiting for.
                self._waiters.wake((tenant, queue), count)

    async def _change(self, changes: Sequence[Change]) -> Sequence[Changed | PenstockError]:
        now = self._clock.now()
        results = await self._store.change_visibility_many(changes, now)
        for (handle, _), changed in zip(changes, results, strict=True):
            if not isinstance(changed, PenstockError) and changed[1] is not None:
                key = (handle.tenant, handle.queue)
                if changed[1] <= now:
                    self._waiters.wake(key)
                else:
                    self._waiters.wake_at(key, changed[1])
        return results


def _queue_of_entry(pair: tuple[Send, Sent | PenstockError]) -> Key:
    return pair[0].tenant, pair[0].queue


def _batch_key_of_send(entry: Send) -> Key | None:
    """Sends that may wait for another transaction, by group order or by an equal deduplication id."""
    if entry.dedup_id is not None or entry.queue.endswith(".fifo"):
        return entry.tenant, entry.queue
    return None


def _batch_key_of_queue(queue: str, tenant: TenantId) -> Key | None:
    return (tenant, queue) if queue.endswith(".fifo") else None


def _merge(requests: Sequence[Receive]) -> list[tuple[Receive, list[int]]]:
    """Equal requests as one larger claim, with the positions that share it.

    FIFO claims stay apart: two receivers must not share one group.
    """
    shares: dict[object, tuple[Receive, list[int]]] = {}
    for position, request in enumerate(requests):
        key: object = (
            position
            if request.queue.endswith(".fifo")
            else (
                request.tenant,
                request.queue,
                request.visibility_timeout_s,
                request.max_receives,
                request.dead_letter_queue,
                request.shuffle,
            )
        )
        known = shares.get(key)
        if known is None:
            shares[key] = (replace(request), [position])
        else:
            known[0].limit += request.limit
            known[1].append(position)
    return list(shares.values())


def _share_out(
    count: int,
    requests: Sequence[Receive],
    shares: list[tuple[Receive, list[int]]],
    merged: list[Received | PenstockError],
) -> list[Received | PenstockError]:
    """Hand the messages of each claim to its requests, first come first served."""
    results: list[Received | PenstockError] = [QueueNotFound()] * count
    for (_, positions), received in zip(shares, merged, strict=True):
        if isinstance(received, PenstockError):
            for position in positions:
                results[position] = received
            continue
        messages, start = received.messages, 0
        for position in positions:
            crowded_out = 0 < len(messages) <= start and _size_of(messages) >= limits.ANSWER_BYTES
            end = start + requests[position].limit
            results[position] = Received(messages[start:end], received.next_due_at, crowded_out)
            start = end
    return results


def _size_of(messages: Sequence[Message]) -> int:
    return sum(message_bytes(message.body, message.attributes, message.headers) for message in messages)

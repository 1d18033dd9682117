"""Messages: send, receive, delete, hide, peek.

What may happen to a message is the store's to decide, inside its transaction. Here requests are checked,
joined into shared statements, and receivers put to sleep and woken.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import groupby
from time import perf_counter
from typing import TypeVar

from penstock import limits
from penstock.clock import Clock
from penstock.engine.batching import Batcher, Flush, Lanes
from penstock.engine.checks import check_name, check_range, check_receive, check_send
from penstock.engine.insights import Histogram, Insights
from penstock.engine.waiting import Key, Waiters
from penstock.errors import PenstockError, QueueNotFound
from penstock.model import Handle, Message, Outcome, Receive, Received, Send, Sent, TenantId
from penstock.store import Store

Item = TypeVar("Item")
Result = TypeVar("Result")

Change = tuple[Handle, int]
Changed = tuple[Outcome, datetime | None]

RECHECK_S = 2.0
"""A waiting receiver looks again this often, should a notification get lost."""
EXPECT_S = 10.0
"""How often the store is told that someone here still waits on a queue."""


class Messages:
    def __init__(
        self,
        store: Store,
        clock: Clock,
        waiters: Waiters,
        insights: Insights,
        *,
        batching: bool = True,
        linger_s: float = 0.0,
    ) -> None:
        self._store = store
        self._clock = clock
        self._waiters = waiters
        self._insights = insights
        self._expected: dict[Key, float] = {}
        self._stopping = False

        def lanes(
            flush: Flush[Item, Result],
            *,
            linger_s: float = 0.0,
            observe: Callable[[int], None] | None = None,
            abandoned: Callable[[Sequence[Item], Sequence[Result]], None] | None = None,
        ) -> Lanes[Item, Result]:
            return Lanes(
                lambda: Batcher(flush, enabled=batching, linger_s=linger_s, observe=observe, abandoned=abandoned)
            )

        sizes = insights.batch_sizes
        self._sends: Lanes[Send, Sent | PenstockError] = lanes(
            self._send, linger_s=linger_s, observe=lambda size: sizes.observe((), size)
        )
        self._receives: Lanes[Receive, Received | PenstockError] = lanes(self._receive, abandoned=self._give_back)
        self._deletes: Lanes[Handle, Outcome | PenstockError] = lanes(self._delete)
        self._changes: Lanes[Change, Changed | PenstockError] = lanes(self._change)

    async def send(self, entry: Send) -> Sent:
        check_send(entry)
        [sent] = await self._sends.submit([entry], _lane_of_send(entry))
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
        lane = next((found for found in map(_lane_of_send, good) if found is not None), None)
        results = iter(await self._sends.submit(good, lane)) if good else iter(())
        return [next(results) if answer is None else answer for answer in answers]

    async def receive(self, request: Receive, wait_s: float = 0.0) -> list[Message]:
        """Messages at once, or the first that come within `wait_s`; an empty list when none do.

        When the caller is cancelled while a claim is in flight, what it claimed is released.
        """
        check_receive(request)
        check_range("wait", wait_s, limits.RECEIVE_WAIT_S)
        if wait_s <= 0:
            return (await self._claim(request)).messages
        return await self._receive_waiting(request, wait_s)

    async def delete(self, handle: Handle) -> Outcome:
        [outcome] = await self._deletes.submit([handle], _lane_of_queue(handle.queue, handle.tenant))
        if isinstance(outcome, PenstockError):
            raise outcome
        return outcome

    async def delete_batch(self, handles: Sequence[Handle]) -> list[Outcome | PenstockError]:
        lane = _lane_of_queue(handles[0].queue, handles[0].tenant)
        return list(await self._deletes.submit(handles, lane))

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
        return list(await self._changes.submit(changes, _lane_of_queue(first.queue, first.tenant)))

    async def peek(self, tenant: TenantId, queue: str, limit: int = 1, *, shuffle: bool = False) -> list[Message]:
        check_name(queue)
        check_range("max", limit, limits.RECEIVE_LIMIT)
        return await self._store.peek(tenant, queue, limit, self._clock.now(), shuffle=shuffle)

    def arrived(self, tenant: TenantId, queue: str) -> None:
        """Someone else sent to this queue: another node, or a SQL user."""
        self._waiters.wake((tenant, queue), count=limits.RECEIVE_LIMIT[1])

    async def drain(self) -> None:
        """Let waiting receivers go, for good, and answer everything that is under way."""
        self._stopping = True
        self._waiters.wake_everyone()
        for lanes in (self._sends, self._receives, self._deletes, self._changes):
            await lanes.drain()

    # Waiting

    async def _claim(self, request: Receive) -> Received:
        # FIFO claims take no locks that others wait for, so they share the lane of all receives.
        [received] = await self._receives.submit([request])
        if isinstance(received, PenstockError):
            raise received
        return received

    async def _receive_waiting(self, request: Receive, wait_s: float) -> list[Message]:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wait_s
        key = (request.tenant, request.queue)
        while True:
            # Joined before looking, so that a send between the look and the sleep is not missed.
            woken = self._waiters.join(key)
            try:
                received = await self._claim(request)
                left = deadline - loop.time()
                if received.messages or left <= 0 or self._stopping:
                    if received.messages and woken.done():
                        self._waiters.wake(key)
                    return received.messages
                if await self._expect(key):
                    continue
                if received.next_due_at is not None:
                    self._waiters.wake_at(key, received.next_due_at)
                await asyncio.wait([woken], timeout=min(left, RECHECK_S))
            finally:
                self._waiters.leave(key, woken)
                woken.cancel()

    async def _expect(self, key: Key) -> bool:
        """Tell the store that someone waits here; True when it was news, and worth another look."""
        now = asyncio.get_running_loop().time()
        if self._expected.get(key, 0.0) > now:
            return False
        if len(self._expected) > 10_000:
            self._expected = {k: until for k, until in self._expected.items() if until > now}
        self._expected[key] = now + EXPECT_S
        await self._store.expect(*key, self._clock.now())
        return True

    def _give_back(self, requests: Sequence[Receive], results: Sequence[Received | PenstockError]) -> None:
        """The receiver left before its claim was answered: release what it claimed."""
        for request, received in zip(requests, results, strict=True):
            if isinstance(received, Received) and received.messages:
                handles = [
                    Handle(tenant=request.tenant, queue=request.queue, id=message.id, lease=message.lease)
                    for message in received.messages
                ]
                self._changes.submit([(handle, 0) for handle in handles], _lane_of_queue(request.queue, request.tenant))

    # Shared statements

    async def _send(self, entries: Sequence[Send]) -> Sequence[Sent | PenstockError]:
        start = perf_counter()
        results = await self._store.send_many(entries, self._clock.now())
        elapsed = perf_counter() - start
        for (tenant, queue), group in groupby(zip(entries, results, strict=True), _queue_of_entry):
            stored = [entry for entry, sent in group if isinstance(sent, Sent) and not sent.duplicate]
            if stored:
                self._count_sent(queue, len(stored), elapsed)
                self._waiters.wake((tenant, queue), len(stored))
        return results

    def _count_sent(self, queue: str, count: int, elapsed: float) -> None:
        self._insights.sent.add((queue,), count)
        self._insights.send_seconds.observe((queue,), elapsed)

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
        elapsed = perf_counter() - start
        for request, received in zip(requests, results, strict=True):
            if isinstance(received, Received) and received.messages:
                self._count_received(request.queue, received.messages, now, elapsed)
                key = (request.tenant, request.queue)
                if self._waiters.waiting(key):
                    self._waiters.wake_at(key, min(message.visible_at for message in received.messages))
        return results

    def _count_received(self, queue: str, messages: list[Message], now: datetime, elapsed: float) -> None:
        insights, labels = self._insights, (queue,)
        insights.received.add(labels, len(messages))
        insights.receive_seconds.observe(labels, elapsed)
        for message in messages:
            if message.receives > 1:
                insights.redelivered.add(labels)
            else:
                insights.age_seconds.observe(labels, (now - message.sent_at).total_seconds())

    async def _delete(self, handles: Sequence[Handle]) -> Sequence[Outcome | PenstockError]:
        start = perf_counter()
        outcomes = await self._store.delete_many(handles, self._clock.now())
        self._after_delete(handles, outcomes, self._insights.delete_seconds, perf_counter() - start)
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
            self._insights.deleted.add((queue,), count)
            if histogram is not None:
                histogram.observe((queue,), elapsed)
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


def _lane_of_send(entry: Send) -> Key | None:
    """Sends that may wait for another transaction, by group order or by an equal deduplication id."""
    if entry.dedup_id is not None or entry.queue.endswith(".fifo"):
        return entry.tenant, entry.queue
    return None


def _lane_of_queue(queue: str, tenant: TenantId) -> Key | None:
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
            end = start + requests[position].limit
            results[position] = Received(messages[start:end], received.next_due_at)
            start = end
    return results

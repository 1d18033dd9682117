"""Queues: create, look up, change, count, purge, drop; and the way back from a dead-letter queue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from penstock import limits
from penstock.clock import Clock
from penstock.engine.checks import (
    check_dead_letters,
    check_name,
    check_number,
    check_range,
    check_settings,
    check_text,
)
from penstock.engine.waiting import Waiters
from penstock.errors import Invalid, QueueExists, QueueNotFound
from penstock.model import MoveTask, Queue, QueueCounts, QueueSettings, TenantId
from penstock.store import Store


class Queues:
    def __init__(self, store: Store, clock: Clock, waiters: Waiters) -> None:
        self._store = store
        self._clock = clock
        self._waiters = waiters

    async def create(
        self, tenant: TenantId, name: str, given: Mapping[str, Any], *, defaults: Mapping[str, Any] | None = None
    ) -> tuple[Queue, bool]:
        """The queue, and whether it is new. Creating it again is fine when every setting given agrees.

        `defaults` are for a new queue only.
        """
        settings = self._new_settings(name, {**(defaults or {}), **given})
        queue, created = await self._store.create_queue(tenant, name, settings, self._clock.now())
        if not created:
            have = asdict(queue.settings)
            for field, value in given.items():
                if have[field] != value:
                    raise QueueExists(f"Queue '{name}' already exists with a different value for {field}", field=field)
        return queue, created

    async def create_implicit(self, tenant: TenantId, name: str, given: Mapping[str, Any]) -> Queue:
        """The queue of that name, whatever its settings; a new one has those given, and numbers its messages."""
        settings = self._new_settings(name, given)
        queue, _ = await self._store.create_queue(tenant, name, settings, self._clock.now(), implicit=True)
        return queue

    def _new_settings(self, name: str, given: Mapping[str, Any]) -> QueueSettings:
        check_name(name)
        check_settings(given)
        _check_fit(name, given)
        _check_redrive(given, name)
        return QueueSettings(**given)

    async def get(self, tenant: TenantId, name: str) -> Queue:
        check_name(name)
        return await self._store.get_queue(tenant, name)

    async def list(self, tenant: TenantId, *, prefix: str = "", after: str = "", limit: int = 1000) -> Sequence[Queue]:
        check_text("prefix", prefix)
        check_text("after", after)
        return await self._store.list_queues(tenant, prefix=prefix, after=after, limit=limit)

    async def update(self, tenant: TenantId, name: str, changes: Mapping[str, Any]) -> Queue:
        check_name(name)
        check_settings(changes)
        _check_fit(name, changes)
        current = asdict((await self._store.get_queue(tenant, name)).settings)
        _check_redrive(current | dict(changes), name)
        return await self._store.update_queue(tenant, name, changes, self._clock.now())

    async def drop(self, tenant: TenantId, name: str) -> bool:
        check_name(name)
        return await self._store.drop_queue(tenant, name)

    async def purge(self, tenant: TenantId, name: str) -> int:
        check_name(name)
        return await self._store.purge_queue(tenant, name)

    async def counts(self, tenant: TenantId, name: str) -> QueueCounts:
        check_name(name)
        found = await self._store.queue_counts(tenant, [name], self._clock.now())
        if not found:
            raise QueueNotFound(name)
        return found[0][1]

    async def all_counts(self, tenant: TenantId | None) -> Sequence[tuple[TenantId, QueueCounts]]:
        return await self._store.queue_counts(tenant, None, self._clock.now())

    async def dead_letter_sources(self, tenant: TenantId, name: str) -> Sequence[str]:
        check_name(name)
        return await self._store.dead_letter_sources(tenant, name)

    async def start_move(
        self, tenant: TenantId, source: str, destination: str | None = None, rate: int | None = None
    ) -> MoveTask:
        """Send the messages of a dead-letter queue back, or on to `destination`."""
        check_name(source)
        if destination is not None:
            check_name(destination, "destination")
            if destination == source:
                raise Invalid("destination must differ from the source", field="destination")
        check_range("rate", rate, limits.MOVE_RATE)
        return await self._store.start_move(tenant, source, destination, rate, self._clock.now())

    async def cancel_move(self, tenant: TenantId, task_id: int) -> MoveTask:
        check_number("task_id", task_id)
        return await self._store.cancel_move(tenant, task_id, self._clock.now())

    async def list_moves(self, tenant: TenantId, source: str, limit: int = 10) -> Sequence[MoveTask]:
        check_name(source)
        await self._store.get_queue(tenant, source)
        return await self._store.list_moves(tenant, source, limit)

    async def move(self, tenant: TenantId, source: str, ids: Sequence[int], destination: str | None = None) -> int:
        """Send these messages of a dead-letter queue back, or on to `destination`, at once; how many there were."""
        check_name(source)
        if destination is not None:
            check_name(destination, "destination")
            if destination == source:
                raise Invalid("destination must differ from the source", field="destination")
        check_range("ids", len(ids), limits.BATCH_ENTRIES)
        moved, receivers = await self._store.move_by_ids(tenant, source, ids, destination, self._clock.now())
        for key in receivers:
            self._waiters.wake(key, limits.RECEIVE_LIMIT[1])
        return moved

    async def run_moves(self) -> int:
        moved, receivers = await self._store.run_moves(self._clock.now())
        for key in receivers:
            self._waiters.wake(key, limits.RECEIVE_LIMIT[1])
        return moved

    async def sweep(self, limit: int = 5000) -> int:
        return await self._store.sweep(self._clock.now(), limit)

    async def sweep_poison(self, max_receives: int, limit: int = 5000) -> int:
        return await self._store.sweep_poison(max_receives, self._clock.now(), limit)


def _check_fit(name: str, given: Mapping[str, Any]) -> None:
    """Settings that make sense on one kind of queue only."""
    fifo = name.endswith(".fifo")
    if fifo and given.get("lifo"):
        raise Invalid("a .fifo queue cannot be lifo", field="lifo")
    if not fifo and given.get("content_dedup"):
        raise Invalid("content_dedup needs a .fifo queue", field="content_dedup")


def _check_redrive(given: Mapping[str, Any], name: str) -> None:
    """A dead-letter queue and a number of receives go together, on queues of one kind."""
    target = given.get("dead_letter_queue")
    if target is None:
        return
    if given.get("max_receives") is None:
        raise Invalid("dead_letter_queue needs max_receives", field="max_receives")
    if target != name:
        # A queue that names itself, as SQS allows, keeps its messages: see the stores.
        check_dead_letters(name, target)

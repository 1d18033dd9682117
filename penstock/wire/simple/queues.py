"""Queues that their first use creates, and what the door remembers of them."""

from __future__ import annotations

from time import monotonic

from penstock.auth import Principal
from penstock.engine.queues.queues import Queues
from penstock.errors import Forbidden, QueueNotFound
from penstock.model import Queue, Scope, TenantId
from penstock.wire.simple.settings import SimpleSettings

KEEP_S = 2.0
"""How long another process's change of a queue may go unnoticed here."""
MOST = 10_000


class ImplicitQueues:
    def __init__(self, queues: Queues, settings: SimpleSettings) -> None:
        self._queues = queues
        self._settings = settings
        self._known: dict[tuple[TenantId, str], tuple[float, Queue]] = {}

    def recent(self, tenant: TenantId, name: str) -> Queue | None:
        """The queue when that needs no look-up.

        When what is known of it gets old, one caller is sent to look it up, and the others go on with what is known.
        """
        known = self._known.get((tenant, name))
        if known is None:
            return None
        now = monotonic()
        if known[0] > now:
            return known[1]
        self._known[tenant, name] = (now + KEEP_S, known[1])
        return None

    def forget(self, tenant: TenantId, name: str) -> None:
        self._known.pop((tenant, name), None)

    async def find(self, tenant: TenantId, name: str) -> Queue:
        return self._remember(await self._queues.get(tenant, name))

    async def find_or_create(self, principal: Principal, name: str) -> Queue:
        """The queue, created when there is none and the caller may create queues."""
        try:
            queue = await self._queues.get(principal.tenant, name)
        except QueueNotFound as error:
            queue = await self._create(principal, name, error)
        if queue.implicit and self._settings.outdated(queue.settings):
            queue = await self._queues.update(principal.tenant, name, self._settings.new_queue(name))
        return self._remember(queue)

    def _remember(self, queue: Queue) -> Queue:
        if len(self._known) >= MOST:
            self._known.clear()
        self._known[queue.tenant, queue.name] = (monotonic() + KEEP_S, queue)
        return queue

    async def _create(self, principal: Principal, name: str, missing: QueueNotFound) -> Queue:
        try:
            principal.require(Scope.MANAGE, name)
        except Forbidden:
            missing.message += ", and this token may not create it"
            raise missing from None
        return await self._queues.create_implicit(principal.tenant, name, self._settings.new_queue(name))

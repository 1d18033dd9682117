"""What Penstock does: the rules of the domain, free of wire formats and of SQL."""

from __future__ import annotations

from penstock.clock import Clock, SystemClock
from penstock.engine.insights import Insights
from penstock.engine.messages import Messages
from penstock.engine.queues import Queues
from penstock.engine.tenants import Tenants
from penstock.engine.waiting import Waiters
from penstock.store import Store


class Engine:
    """Wires the nouns to one store."""

    def __init__(
        self,
        store: Store,
        clock: Clock | None = None,
        *,
        batching: bool = True,
        linger_s: float = 0.0,
        visibility_timeout_s: int = 30,
    ) -> None:
        clock = clock or SystemClock()
        waiters = Waiters(clock)
        self.clock = clock
        self.store = store
        self.insights = Insights()
        self.queues = Queues(store, clock, waiters, visibility_timeout_s=visibility_timeout_s)
        self.messages = Messages(store, clock, waiters, self.insights, batching=batching, linger_s=linger_s)
        self.tenants = Tenants(store, clock)

    async def open(self) -> None:
        await self.store.open()
        await self.store.watch(self.messages.arrived)

    async def close(self) -> None:
        await self.messages.drain()
        await self.store.close()

    async def ping(self) -> None:
        await self.store.ping()

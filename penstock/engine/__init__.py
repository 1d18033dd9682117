"""What Penstock does: the rules of the domain, free of wire formats and of SQL."""

from __future__ import annotations

from datetime import timedelta

from penstock.clock import Clock, SystemClock
from penstock.engine.audit import Audit
from penstock.engine.figures import Figures
from penstock.engine.insights import Insights
from penstock.engine.jobs import RETENTION, Jobs
from penstock.engine.messages import Messages
from penstock.engine.notices import Signer
from penstock.engine.outbox import Outbox, Records
from penstock.engine.pipelines import Pipelines
from penstock.engine.queues import Queues
from penstock.engine.rates import Rates
from penstock.engine.rollups import Rollups
from penstock.engine.schedules import Schedules
from penstock.engine.streams import Streams
from penstock.engine.targets import Targets
from penstock.engine.tenants import Tenants
from penstock.engine.topics import Topics
from penstock.engine.waiting import Waiters
from penstock.engine.webhooks import Webhooks, WebhookSettings
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
        job_retention: timedelta = RETENTION,
        rate_per_token: int = 0,
        rate_per_tenant: int = 0,
        schedule_preview_count: int = 5,
        schedule_list_max: int = 1000,
        schedule_batch_size: int = 32,
        base_url: str = "http://127.0.0.1:9324",
        webhooks: WebhookSettings | None = None,
    ) -> None:
        clock = clock or SystemClock()
        waiters = Waiters(clock)
        self.clock = clock
        self.store = store
        self.insights = Insights()
        self.queues = Queues(store, clock, waiters, visibility_timeout_s=visibility_timeout_s)
        self.messages = Messages(store, clock, waiters, self.insights, batching=batching, linger_s=linger_s)
        self.jobs = Jobs(store, clock, waiters, batching=batching, retention=job_retention)
        self.rates = Rates(store, clock, per_token=rate_per_token, per_tenant=rate_per_tenant)
        self.audit = Audit(store, clock)
        self.tenants = Tenants(store, clock, self.audit)
        self.streams = Streams(store, Waiters(clock))
        self.signer = Signer(store, clock)
        self.topics = Topics(store, clock, waiters, self.insights, self.signer, base_url=base_url, batching=batching)
        self.schedules = Schedules(
            store, clock, waiters, self.insights, Targets(store, self.topics, waiters),
            preview_count=schedule_preview_count, list_max=schedule_list_max, batch_size=schedule_batch_size,
        )  # fmt: skip
        self.webhooks = Webhooks(store, clock, self.insights, webhooks or WebhookSettings())
        self.outbox = Outbox(store, clock)
        self.records = Records(store, clock)
        self.pipelines = Pipelines(store, clock)
        self.rollups = Rollups(store, clock)
        self.figures = Figures(store, clock)

    async def open(self) -> None:
        await self.store.open()
        await self.store.watch(self.messages.arrived)

    async def close(self) -> None:
        self.streams.drain()
        await self.messages.drain()
        await self.jobs.drain()
        await self.topics.drain()
        await self.store.close()

    async def ping(self) -> None:
        await self.store.ping()

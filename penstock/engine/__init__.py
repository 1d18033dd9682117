"""What Penstock does: the rules of the domain, free of wire formats and of SQL."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

from penstock.clock import Clock, SystemClock
from penstock.engine.audit import Audit
from penstock.engine.insights.follow import Follow
from penstock.engine.insights.gauges import Gauges
from penstock.engine.insights.history import History
from penstock.engine.insights.insights import Insights
from penstock.engine.insights.outcomes import Outcomes
from penstock.engine.insights.pipelines import Pipelines
from penstock.engine.insights.status import Overview
from penstock.engine.jobs.jobs import RETENTION, Jobs
from penstock.engine.metrics import Metrics
from penstock.engine.nodes import Nodes
from penstock.engine.private.cache import MOST_RECORDS
from penstock.engine.private.messages import PrivateMessages
from penstock.engine.private.queues import PrivateQueues
from penstock.engine.queues.messages import Messages
from penstock.engine.queues.queues import Queues
from penstock.engine.rate_limits import Rates
from penstock.engine.schedules.schedules import Schedules
from penstock.engine.schedules.targets import Targets
from penstock.engine.streams.streams import Streams
from penstock.engine.tenants import Tenants
from penstock.engine.topics.notices import Signer
from penstock.engine.topics.outbox import Outbox, Records
from penstock.engine.topics.topics import Topics
from penstock.engine.topics.webhooks import Webhooks, WebhookSettings
from penstock.engine.waiting import Waiters
from penstock.store import Store

if TYPE_CHECKING:
    from penstock.tracing.spans import Tracer

Noun = TypeVar("Noun")


def _traced(tracer: Tracer | None) -> Callable[[type[Noun]], Callable[..., Noun]]:
    """The class itself, or the one that makes spans."""
    if tracer is None:
        return lambda noun: noun
    from penstock.engine.traced import with_tracer

    return with_tracer(tracer)


class Engine:
    """Wires the nouns to one store."""

    def __init__(
        self,
        store: Store,
        clock: Clock | None = None,
        *,
        batching: bool = True,
        linger_s: float = 0.0,
        job_retention: timedelta = RETENTION,
        rate_per_token: int = 0,
        rate_per_tenant: int = 0,
        schedule_preview_count: int = 5,
        schedule_list_max: int = 1000,
        schedule_batch_size: int = 32,
        base_url: str = "http://127.0.0.1:9324",
        webhooks: WebhookSettings | None = None,
        private_cache: int = MOST_RECORDS,
        tracer: Tracer | None = None,
    ) -> None:
        clock = clock or SystemClock()
        waiters = Waiters(clock)
        self.clock = clock
        self.store = store
        self.metrics = Metrics()
        self.queues = Queues(store, clock, waiters)
        traced = _traced(tracer)
        self.messages = traced(Messages)(store, clock, waiters, self.metrics, batching=batching, linger_s=linger_s)
        self.outcomes = Outcomes(store, clock)
        self.jobs = traced(Jobs)(store, clock, waiters, self.outcomes, batching=batching, retention=job_retention)
        self.rates = Rates(store, clock, per_token=rate_per_token, per_tenant=rate_per_tenant)
        self.audit = Audit(store, clock)
        self.tenants = Tenants(store, clock, self.audit)
        self.streams = traced(Streams)(store, Waiters(clock), self.metrics)
        self.signer = Signer(store, clock)
        self.topics = traced(Topics)(
            store, clock, waiters, self.metrics, self.signer, base_url=base_url, batching=batching
        )
        self.schedules = traced(Schedules)(
            store, clock, waiters, self.metrics, self.outcomes, Targets(store, self.topics, waiters),
            preview_count=schedule_preview_count, list_max=schedule_list_max, batch_size=schedule_batch_size,
        )  # fmt: skip
        self.webhooks = traced(Webhooks)(store, clock, self.metrics, self.outcomes, webhooks or WebhookSettings())
        self.private = PrivateQueues(store, clock, cached=private_cache)
        self.private_messages = PrivateMessages(
            self.private, store, clock, waiters, self.messages, self.queues, self.topics
        )
        self.topics.warning_about = self.webhooks.warning_about
        self.outbox = Outbox(store, clock)
        self.records = Records(store, clock)
        self.pipelines = Pipelines(store, clock)
        self.insights = Insights(store, clock)
        self.follow = Follow(store, clock, self.jobs)
        self.gauges = Gauges(store, clock)
        self.overview = Overview(store, clock)
        self.history = History(store, clock)
        self.nodes = Nodes(store, clock, base_url)

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

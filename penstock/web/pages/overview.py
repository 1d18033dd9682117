"""The overview: what needs attention, how much there is, and the fullest queues."""

from __future__ import annotations

from starlette.routing import Route

from penstock.model.jobs import JobCounts
from penstock.model.samples import SampleKind
from penstock.model.schedules import Schedule
from penstock.model.topics import Delivery, DeliveryState
from penstock.web.charts import OLDEST, OPEN_JOBS, RATES, STREAM_LAG, WAITING, Charts, Drawing, span_of
from penstock.web.pages.attention import (
    Problem,
    consumer_problems,
    dead_event_problems,
    delivery_problems,
    endpoint_problems,
    growth_problems,
    job_problems,
    ordered,
    pipeline_problems,
    queue_problems,
    schedule_problems,
    stream_problems,
)
from penstock.web.pages.deliveries import source_of
from penstock.web.pages.queue_rows import QueueRows
from penstock.web.site import Call, Page, Site

FULLEST = 8
MOST_PROBLEMS = 20
EXHAUSTED = 20
STREAMS = 1000
KEEP_COUNTS_S = 0.4
KEEP_WAITED_S = 15.0


class Overview:
    def __init__(self, site: Site) -> None:
        self._site = site
        self._rows = QueueRows(site.engine, site.shared)
        self._charts = Charts(site)

    def routes(self) -> list[Route]:
        page = self._site.page(self.show)
        return [Route("/", page), Route("/dashboard", page)]

    async def show(self, call: Call) -> Page:
        rows = await self._rows.rows(call.principal)
        waited = await self._site.shared.get(
            ("waited", call.principal.tenant),
            KEEP_WAITED_S,
            lambda: self._site.engine.history.waited(call.principal.tenant, SampleKind.QUEUE),
        )
        jobs, schedules, now = await self._jobs(call), await self._schedules(call), self._site.engine.clock.now()
        problems = ordered(
            [
                *queue_problems(rows),
                *growth_problems(rows, waited),
                *job_problems(jobs, now),
                *schedule_problems(schedules, now),
                *delivery_problems(await self._exhausted(call), EXHAUSTED),
                *await self._stream_problems(call),
                *await self._endpoint_problems(call),
                *await self._pipeline_problems(call),
            ]
        )
        fullest = sorted(rows, key=lambda row: (-row.total, row.name))[:FULLEST]
        values = {
            "drawings": await self._drawings(call),
            "span": span_of(call.query.get("span", "")).value,
            "problems": problems[:MOST_PROBLEMS],
            "more_problems": max(len(problems) - MOST_PROBLEMS, 0),
            "queues": len(rows),
            "visible": sum(row.visible for row in rows),
            "in_flight": sum(row.in_flight for row in rows),
            "delayed": sum(row.delayed for row in rows),
            "fullest": fullest,
            "pending_jobs": sum(one.pending for one in jobs),
            "processing_jobs": sum(one.processing for one in jobs),
            "schedules": len(schedules),
            "dead_letters": sum(row.total for row in rows if row.sources),
            "dead_jobs": sum(one.dead for one in jobs),
        }
        return Page("overview.html", "Overview", values)

    async def _drawings(self, call: Call) -> list[Drawing]:
        drawn = await self._charts.draw(call, SampleKind.QUEUE, "", (RATES, WAITING, OLDEST))
        drawn += await self._charts.draw(call, SampleKind.JOB, "", (OPEN_JOBS,))
        if self._site.engine.store.has_streams:
            drawn += await self._charts.draw(call, SampleKind.CONSUMER, "", (STREAM_LAG,))
        return drawn + await self._charts.draw_outcomes(call)

    async def _jobs(self, call: Call) -> list[JobCounts]:
        tenant = call.principal.tenant
        found = await self._site.shared.get(
            ("jobs", tenant), KEEP_COUNTS_S, lambda: self._site.engine.jobs.counts(tenant)
        )
        return [one for _, one in found if call.principal.reaches(one.queue)]

    async def _schedules(self, call: Call) -> list[Schedule]:
        tenant = call.principal.tenant
        found = await self._site.shared.get(
            ("all schedules", tenant), KEEP_WAITED_S, lambda: self._site.engine.schedules.list(tenant)
        )
        return [one for one in found if call.principal.reaches(one.settings.target)]

    async def _stream_problems(self, call: Call) -> list[Problem]:
        engine, tenant = self._site.engine, call.principal.tenant
        if not engine.store.has_streams:
            return []
        streams = await self._site.shared.get(
            ("streams", tenant), KEEP_WAITED_S, lambda: engine.streams.list(tenant, limit=STREAMS)
        )
        consumers = await self._site.shared.get("consumers", KEEP_WAITED_S, engine.gauges.consumers)
        gauges = await self._site.shared.get("stream gauges", KEEP_WAITED_S, engine.gauges.streams)
        reaches = call.principal.reaches
        return [
            *stream_problems(one for one in streams if reaches(one.name)),
            *consumer_problems(one for one in consumers if one.tenant == tenant and reaches(one.stream)),
            *dead_event_problems(one for one in gauges if one.tenant == tenant and reaches(one.stream)),
        ]

    async def _pipeline_problems(self, call: Call) -> list[Problem]:
        """Runs name queues and streams of all sorts, so only tokens that reach all of the tenant see them."""
        engine, tenant = self._site.engine, call.principal.tenant
        if call.principal.queues != "*" or not engine.store.has_streams:
            return []
        found = await self._site.shared.get("pipelines", KEEP_WAITED_S, engine.gauges.pipelines)
        return list(pipeline_problems((one for one in found if one.tenant == tenant), engine.clock.now()))

    async def _endpoint_problems(self, call: Call) -> list[Problem]:
        """Endpoints belong to no queue, so only tokens that reach all of the tenant see them."""
        if call.principal.queues != "*":
            return []
        found = await self._site.shared.get("endpoints", KEEP_WAITED_S, self._site.engine.gauges.endpoints)
        return list(endpoint_problems(one for one in found if one.tenant == call.principal.tenant))

    async def _exhausted(self, call: Call) -> list[Delivery]:
        tenant, webhooks = call.principal.tenant, self._site.engine.webhooks
        found = await self._site.shared.get(
            ("exhausted", tenant),
            KEEP_WAITED_S,
            lambda: webhooks.list(tenant, state=DeliveryState.EXHAUSTED, limit=EXHAUSTED),
        )
        return [one for one in found if call.principal.reaches(source_of(one))]

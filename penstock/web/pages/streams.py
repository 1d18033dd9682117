"""Streams: ticks, consumers with their lag, health and dead letters."""

from __future__ import annotations

from starlette.routing import Route

from penstock.errors import NotFound
from penstock.model import Scope
from penstock.model.samples import SampleKind
from penstock.model.streams import ConsumerStats, Stream, StreamStats, StreamStorage
from penstock.web.charts import LAG, PENDING, Charts, span_of
from penstock.web.forms import audited, whole_number
from penstock.web.site import Call, Page, Site, path_of

STREAMS = 100
DEAD = 50
DONE = {"replayed": "{count:dead letter was|dead letters were} sent again."}


class StreamPages:
    def __init__(self, site: Site) -> None:
        self._site = site
        self._streams = site.engine.streams
        self._charts = Charts(site)

    def routes(self) -> list[Route]:
        site, base = self._site, "/ui/streams/{name}"
        return [
            Route("/ui/streams", site.page(self.show_list)),
            Route(base, site.page(self.show)),
            Route(f"{base}/dead/replay", site.action(self.replay, self.show), methods=["POST"]),
        ]

    async def show_list(self, call: Call) -> Page:
        supported = self._site.engine.store.has_streams
        tenant, after = call.principal.tenant, call.query.get("after", "")
        found = await self._streams.list(tenant, after=after, limit=STREAMS) if supported else []
        reached = [stream for stream in found if call.principal.reaches(stream.name)]
        values = {
            "supported": supported,
            "streams": [(stream, await self._stats(call, stream.name)) for stream in reached],
            "next": found[-1].name if len(found) == STREAMS else None,
        }
        return Page("streams.html", "Streams", values)

    async def show(self, call: Call) -> Page:
        name, tenant = call.path["name"], call.principal.tenant
        call.principal.require(Scope.READ, name)
        stream: Stream = await self._streams.get(tenant, name)
        consumers = await self._streams.consumers(tenant, name)
        slowest = max(consumers, key=_lag, default=None)
        drawn = []
        if slowest is not None:
            drawn = await self._charts.draw(call, SampleKind.CONSUMER, f"{name}/{slowest.name}", (LAG, PENDING))
        values = {
            "stream": stream,
            "stats": await self._stats(call, name),
            "consumers": consumers,
            "slowest": slowest,
            "drawings": drawn,
            "span": span_of(call.query.get("span", "")).value,
            "storage": await self._storage(call, name),
            "health": await self._streams.health(tenant, name),
            "dead": await self._streams.dead_letters(tenant, name, DEAD) if self._site.settings.payloads else [],
            "may_manage": call.may(Scope.MANAGE, name),
            "notice": call.notice(DONE),
        }
        return Page("stream.html", name, values)

    async def _stats(self, call: Call, name: str) -> StreamStats:
        tenant = call.principal.tenant
        return await self._site.shared.get(("stream", tenant, name), 0.4, lambda: self._streams.stats(tenant, name))

    async def _storage(self, call: Call, name: str) -> StreamStorage:
        tenant = call.principal.tenant
        return await self._site.shared.get(("storage", tenant, name), 2.0, lambda: self._streams.storage(tenant, name))

    async def replay(self, call: Call) -> str:
        """One dead letter, or all when the form names none."""
        name = call.path["name"]
        call.principal.require(Scope.MANAGE, name)
        number = whole_number(call.form, "id")
        count = await self._streams.replay(call.principal.tenant, name, number)
        if number is not None and not count:
            raise NotFound("there is no such dead letter")
        await audited(self._site.engine, call, "dead letters replayed", name, events=count)
        return f"{path_of('streams', name)}?done=replayed&count={count}"


def _lag(consumer: ConsumerStats) -> float:
    return consumer.lag_s or 0.0

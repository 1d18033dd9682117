"""Pipelines: runs of Spark with their progress, what they wrote to the lake, and insights as charts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from penstock.auth import Principal
from penstock.errors import PenstockError, Unsupported
from penstock.model import DEFAULT_TENANT, Scope
from penstock.model.insights import Finding, InsightKind, InsightRow, Question, Step
from penstock.model.pipelines import PIPELINES, PipelineRun
from penstock.web import security
from penstock.web.charts import Chart, Drawing, Line, drawing_of
from penstock.web.site import Call, Page, Site, status_of

RUNS = 20
ERRORS = 10
KEEP_S = 5.0
THROUGHPUT = Chart(
    title="Throughput",
    unit="per second",
    lines=(Line("sent", "sent", "visible"), Line("done", "done", "flight"), Line("failed", "failed", "critical")),
)
LATENCY = Chart(
    title="From sent to done", unit="seconds", lines=(Line("p50", "p50_s", "visible"), Line("p99", "p99_s", "delayed"))
)
QUESTIONS = {
    Question.SLOWER: "slower, seconds to the end (p95)",
    Question.GROWING: "growing, sent per day",
    Question.TENANT_GROWING: "tenant growing, sent per day",
    Question.NEW_ERROR: "new error, count",
    Question.FILLING: "filling up, waiting now and in an hour",
}
STEPS = {step.value: step for step in Step}
KINDS = {kind.value: kind for kind in InsightKind}
STEP_S = {Step.HOUR: 3600, Step.DAY: 86_400}


@dataclass(frozen=True, slots=True, kw_only=True)
class InsightSeries:
    """One value per hour or day. Latencies of several names are the worst of them."""

    starts_at: Sequence[int]
    sent: Sequence[float]
    done: Sequence[float]
    failed: Sequence[float]
    p50_s: Sequence[float | None]
    p99_s: Sequence[float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeTable:
    """What the latest run of a query reported."""

    pipeline: str
    name: str
    rows: int
    rate: float | None
    position: str
    at: str


class PipelinePages:
    def __init__(self, site: Site) -> None:
        self._site = site
        self._engine = site.engine

    def routes(self) -> list[Route]:
        return [Route("/ui/pipelines", self._site.page(self.show)), Route("/ui/pipelines/insights", self.data)]

    async def show(self, call: Call) -> Page:
        principal = call.principal
        principal.require(Scope.READ)
        step, kind, name = _chosen(call.query)
        whole = principal.queues == "*"
        values: dict[str, Any] = {"supported": True, "whole": whole, "pipelines": [], "runs": [], "tables": []}
        try:
            rows = await self._rows(principal, step, kind, name)
            errors = await self._engine.insights.errors(
                principal.tenant, kind=kind, name=name or None, limit=ERRORS, reaches=_reach(principal)
            )
            findings = await self._findings(principal)
            if whole:
                # A run names queues and streams of all sorts.
                runs = await self._engine.pipelines.runs(principal.tenant, None, RUNS)
                values |= {"runs": runs, "tables": lake_tables(runs)}
        except Unsupported:
            values["supported"] = False
            rows, errors, findings = [], [], []
        values |= {
            "drawings": _draw(rows, step, kind, name),
            "errors": errors,
            "findings": findings,
            "questions": QUESTIONS,
            "most_errors": max((one.count for one in errors), default=1),
            "step": step.value,
            "kind": kind.value if kind is not None else "",
            "kinds": list(KINDS),
            "name": name,
            "summaries": PIPELINES,
        }
        return Page("pipelines.html", "Pipelines", values)

    async def data(self, request: Request) -> Response:
        """The series of the charts, as JSON."""
        try:
            principal = await self._site.principal(request)
            step, kind, name = _chosen(request.query_params)
            rows = await self._rows(principal, step, kind, name)
        except PenstockError as error:
            return Response(status_code=status_of(error), headers=security.HEADERS)
        body = msgspec.json.encode(series_of(rows, step))
        return Response(body, media_type="application/json", headers=security.HEADERS)

    async def _findings(self, principal: Principal) -> Sequence[Finding]:
        all_tenants = principal.tenant == DEFAULT_TENANT and Scope.ADMIN in principal.scopes
        return await self._site.shared.get(
            ("findings", principal.tenant, principal.queues, all_tenants),
            KEEP_S,
            lambda: self._engine.insights.findings(
                principal.tenant, all_tenants=all_tenants, reaches=_reach(principal)
            ),
        )

    async def _rows(
        self, principal: Principal, step: Step, kind: InsightKind | None, name: str
    ) -> Sequence[InsightRow]:
        key = ("insights", principal.tenant, principal.queues, step, kind, name)
        return await self._site.shared.get(
            key,
            KEEP_S,
            lambda: self._engine.insights.list(
                principal.tenant, step, kind=kind, name=name or None, reaches=_reach(principal)
            ),
        )


def _chosen(query: Mapping[str, str]) -> tuple[Step, InsightKind | None, str]:
    return (
        STEPS.get(query.get("step", ""), Step.HOUR),
        KINDS.get(query.get("kind", "")),
        query.get("name", "").strip()[:300],
    )


def _reach(principal: Principal) -> Any:
    return None if principal.queues == "*" else principal.reaches


def series_of(rows: Iterable[InsightRow], step: Step) -> InsightSeries:
    by_start: dict[datetime, list[InsightRow]] = defaultdict(list)
    for row in rows:
        by_start[row.starts_at].append(row)
    starts = sorted(by_start)

    def total(field: str) -> list[float]:
        return [sum(getattr(row, field) for row in by_start[start]) / STEP_S[step] for start in starts]

    def worst(field: str) -> list[float | None]:
        found = ([getattr(row, field) for row in by_start[start]] for start in starts)
        return [max((value for value in values if value is not None), default=None) for values in found]

    return InsightSeries(
        starts_at=[int(start.timestamp()) for start in starts],
        sent=total("sent"),
        done=total("done"),
        failed=total("failed"),
        p50_s=worst("p50_s"),
        p99_s=worst("p99_s"),
    )


def _draw(rows: Sequence[InsightRow], step: Step, kind: InsightKind | None, name: str) -> list[Drawing]:
    if not rows:
        return []
    query = urlencode({"step": step.value, "kind": kind.value if kind is not None else "", "name": name})
    series = series_of(rows, step)
    return [drawing_of(chart, series, f"/ui/pipelines/insights?{query}") for chart in (THROUGHPUT, LATENCY)]


def lake_tables(runs: Iterable[PipelineRun]) -> list[LakeTable]:
    """From the newest run of each query. The server does not read the lake itself."""
    found: dict[tuple[str, str], LakeTable] = {}
    for run in runs:
        queries = (run.progress or {}).get("queries")
        for query in queries if isinstance(queries, list) else []:
            name = str(query.get("name") or "")
            if not name or (run.pipeline, name) in found:
                continue
            ticks = query.get("ticks")
            position = ", ".join(f"{stream} at tick {tick}" for stream, tick in (ticks or {}).items())
            found[run.pipeline, name] = LakeTable(
                pipeline=run.pipeline,
                name=name,
                rows=int(query.get("rows") or 0),
                rate=query.get("rows_per_s"),
                position=position,
                at=str(query.get("at") or "")[:19].replace("T", " "),
            )
    return sorted(found.values(), key=lambda table: (table.pipeline, table.name))

"""Charts: drawn on the server as SVG, and by uPlot in browsers that run scripts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from urllib.parse import urlencode

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from penstock.auth import Principal
from penstock.engine.insights.history import DAY_STEP, Series, Span
from penstock.engine.insights.outcomes import OutcomeSeries
from penstock.errors import Forbidden, Invalid, PenstockError
from penstock.model import Scope
from penstock.model.samples import SampleKind
from penstock.web import security
from penstock.web.site import Call, Site, status_of

KEEP_S = 5.0
WIDTH, HEIGHT = 600, 120
SPANS_BY_NAME = frozenset(span.value for span in Span)
KINDS_BY_NAME = frozenset(kind.value for kind in SampleKind)


@dataclass(frozen=True, slots=True)
class Line:
    label: str
    field: str
    """Of the series, such as `Series`."""
    colour: str
    """Class of the line, and name of the colour in the style sheet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    title: str
    unit: str
    lines: tuple[Line, ...]


RATES = Chart(
    title="In and out",
    unit="messages per second",
    lines=(Line("in", "arrived", "visible"), Line("out", "departed", "flight")),
)
WAITING = Chart(title="In the queue", unit="messages", lines=(Line("messages", "waiting", "visible"),))
OLDEST = Chart(title="Age of the oldest message", unit="seconds", lines=(Line("seconds", "oldest_s", "delayed"),))
LAG = Chart(title="Lag", unit="seconds", lines=(Line("seconds", "oldest_s", "delayed"),))
STREAM_LAG = Chart(title="Slowest stream consumer", unit="seconds behind", lines=LAG.lines)
PENDING = Chart(title="Pending", unit="events", lines=(Line("events", "waiting", "visible"),))
OPEN_JOBS = Chart(title="Open jobs", unit="pending and processing", lines=(Line("jobs", "waiting", "visible"),))


OUTCOMES = (
    Chart(
        title="Failures",
        unit="per {step}",
        lines=(
            Line("jobs", "jobs_failed", "critical"),
            Line("webhooks", "webhooks_failed", "flight"),
            Line("schedules", "missed", "delayed"),
        ),
    ),
    Chart(title="Webhook success", unit="per cent", lines=(Line("delivered", "webhook_success", "visible"),)),
    Chart(
        title="Schedule fires",
        unit="per {step}",
        lines=(Line("on-time", "fired", "visible"), Line("missed", "missed", "critical")),
    ),
)
RUNS = Chart(
    title="Pipeline runs",
    unit="ended per {step}",
    lines=(Line("done", "runs_done", "visible"), Line("failed", "runs_failed", "critical")),
)
OUTCOME_SOURCE = "outcomes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """A chart with its data, as a template shows it."""

    chart: Chart
    source: str
    """Where a script finds the data."""
    paths: tuple[tuple[str, str], ...]
    """Class and path of each line."""
    most: float
    known: bool


class Charts:
    def __init__(self, site: Site) -> None:
        self._site = site

    def routes(self) -> list[Route]:
        return [Route("/ui/charts/{kind}", self.data)]

    async def data(self, request: Request) -> Response:
        """The series of a chart, as JSON."""
        try:
            principal = await self._site.principal(request)
            span = span_of(request.query_params.get("span", ""))
            series: Series | OutcomeSeries
            if request.path_params["kind"] == OUTCOME_SOURCE:
                series = await self._outcomes(principal, span)
            else:
                kind = _kind(request.path_params["kind"])
                series = await self._series(principal, kind, request.query_params.get("name", ""), span)
        except PenstockError as error:
            return Response(status_code=status_of(error), headers=security.HEADERS)
        return Response(msgspec.json.encode(series), media_type="application/json", headers=security.HEADERS)

    async def draw(self, call: Call, kind: SampleKind, name: str, charts: Sequence[Chart]) -> list[Drawing]:
        """Nothing when the caller may not see it."""
        span = span_of(call.query.get("span", ""))
        try:
            series = await self._series(call.principal, kind, name, span)
        except Forbidden:
            return []
        source = f"/ui/charts/{kind}?{urlencode({'name': name, 'span': span.value})}"
        return [drawing_of(chart, series, source) for chart in charts]

    async def draw_outcomes(self, call: Call) -> list[Drawing]:
        """What failed and what succeeded, of the whole tenant; nothing when the caller may not see all of it."""
        span = span_of(call.query.get("span", ""))
        try:
            series = await self._outcomes(call.principal, span)
        except Forbidden:
            return []
        step = {Span.HOUR: "minute", Span.DAY: f"{DAY_STEP} minutes"}.get(span, "hour")
        charts = (*OUTCOMES, RUNS) if self._site.engine.store.has_streams else OUTCOMES
        source = f"/ui/charts/{OUTCOME_SOURCE}?{urlencode({'span': span.value})}"
        named = [replace(chart, unit=chart.unit.format(step=step)) for chart in charts]
        return [drawing_of(chart, series, source) for chart in named]

    async def _outcomes(self, principal: Principal, span: Span) -> OutcomeSeries:
        principal.require(Scope.READ, "*")
        outcomes, tenant = self._site.engine.outcomes, principal.tenant
        return await self._site.shared.get(("outcomes", tenant, span), KEEP_S, lambda: outcomes.series(tenant, span))

    async def _series(self, principal: Principal, kind: SampleKind, name: str, span: Span) -> Series:
        reached = name.partition("/")[0] if kind is SampleKind.CONSUMER else name
        # The sum of all includes queues that a limited token does not reach.
        principal.require(Scope.READ, reached or "*")
        key = ("series", principal.tenant, kind, name, span)
        history = self._site.engine.history
        return await self._site.shared.get(key, KEEP_S, lambda: history.series(principal.tenant, kind, name, span))


def span_of(text: str) -> Span:
    """The span that an address names; an hour unless it names one."""
    return Span(text) if text in SPANS_BY_NAME else Span.HOUR


def _kind(text: str) -> SampleKind:
    if text not in KINDS_BY_NAME:
        raise Invalid(f"there are charts of {', '.join(SampleKind)}", field="kind")
    return SampleKind(text)


def drawing_of(chart: Chart, series: object, source: str) -> Drawing:
    values: list[Sequence[float | None]] = [getattr(series, line.field) for line in chart.lines]
    most = max((value for line in values for value in line if value is not None), default=0.0)
    paths = tuple((line.colour, path_of_line(numbers, most)) for line, numbers in zip(chart.lines, values, strict=True))
    known = any(value is not None for line in values for value in line)
    return Drawing(chart=chart, source=source, paths=paths, most=most, known=known)


def path_of_line(values: Sequence[float | None], most: float) -> str:
    """A path of SVG. Where nothing is known the line is interrupted."""
    steps = max(len(values) - 1, 1)
    parts: list[str] = []
    pen_down = False
    for place, value in enumerate(values):
        if value is None:
            pen_down = False
            continue
        x = WIDTH * place / steps
        y = HEIGHT - (HEIGHT - 4) * (value / most if most else 0) - 2
        parts.append(f"{'L' if pen_down else 'M'}{x:.1f} {y:.1f}")
        if not pen_down:
            parts.append(f"L{x:.1f} {y:.1f}")  # a single point shows as a dot
        pen_down = True
    return "".join(parts)

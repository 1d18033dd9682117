"""Native REST: insights, which are numbers of hours and days, and the errors behind them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from penstock import limits
from penstock.auth import Principal
from penstock.engine import Engine
from penstock.engine.checks import check_moment, check_text
from penstock.errors import Invalid
from penstock.model import DEFAULT_TENANT, Scope
from penstock.model import insights as nouns
from penstock.wire.http.bodies import read_query
from penstock.wire.http.messages import Request, Response
from penstock.wire.openapi import Operation
from penstock.wire.rest.types import Moment, Strict

_encode = msgspec.json.Encoder().encode
_INSIGHTS = "/v1/insights"

_Name = Annotated[str, Meta(min_length=1, max_length=300)]
_Rate = Annotated[float, Meta(description="A share of 1; null where there is nothing to divide by.")]
_Seconds = Annotated[float, Meta(description="Seconds from the sending to the end.")]


class InsightsQuery(Strict, kw_only=True, rename={"since": "from", "until": "to"}):
    kind: nouns.InsightKind | None = None
    name: _Name | None = None
    step: nouns.Step = nouns.Step.HOUR
    since: Annotated[Moment, Meta(description="A day before, or 30 days with step=day.")] | None = None
    until: Annotated[Moment, Meta(description="Now, unless said.")] | None = None
    after: Annotated[
        str,
        Meta(
            description="Rows after this one: `starts_at`, `kind` and `name` of the last row of the page before, with"
            " commas between."
        ),
    ] = ""
    limit: Annotated[int, Meta(ge=limits.INSIGHT_ROWS[0], le=limits.INSIGHT_ROWS[1])] = limits.INSIGHT_ROWS[1]


class ErrorsQuery(Strict, kw_only=True, rename={"since": "from", "until": "to"}):
    kind: nouns.InsightKind | None = None
    name: _Name | None = None
    since: Annotated[Moment, Meta(description="A day before, unless said.")] | None = None
    until: Annotated[Moment, Meta(description="Now, unless said.")] | None = None
    limit: Annotated[int, Meta(ge=limits.INSIGHT_ERRORS[0], le=limits.INSIGHT_ERRORS[1])] = 20


class FindingsQuery(Strict, kw_only=True):
    points: Annotated[bool, Meta(description="Whether to include `points`, the data of a chart.")] = False


class Latency(Struct, kw_only=True):
    p50: _Seconds
    p95: _Seconds
    p99: _Seconds
    max: _Seconds


class Insight(Struct, kw_only=True):
    """One queue, queue of jobs, stream or topic in one hour or day."""

    kind: nouns.InsightKind
    name: str
    starts_at: Moment
    sent: int
    done: Annotated[int, Meta(description="Ended well. Always 0 for streams, where nobody says so.")]
    retried: Annotated[int, Meta(description="Attempts after the first.")]
    failed: Annotated[int, Meta(description="Attempts that did not end well.")]
    dead: Annotated[int, Meta(description="Given up.")]
    retry_rate: _Rate | None
    dead_rate: _Rate | None
    per_second: Annotated[float, Meta(description="Done, or sent to a stream, per second.")]
    latency: Annotated[Latency | None, Meta(description="Null where nothing ended.")]
    recorded_at: Moment


class FailureReason(Struct, kw_only=True):
    """Errors that differ only in numbers, names and the like."""

    kind: nouns.InsightKind
    name: str
    shape: str
    count: int
    example: Annotated[str, Meta(description="One of them, without what it quotes.")]
    first_at: Annotated[Moment, Meta(description="The first hour it happened in.")]
    last_at: Moment


class Point(Struct, kw_only=True):
    at: Moment
    value: float


class Finding(Struct, kw_only=True):
    """An answer to a question, by comparing the last day with the seven days before."""

    question: nouns.Question
    kind: Annotated[nouns.InsightKind | None, Meta(description="Null for a tenant.")]
    name: str
    before: Annotated[float, Meta(description="Seconds, or a count a day; of `filling` what waits now.")]
    now: Annotated[float, Meta(description="The same in the last day; of `filling` in an hour.")]
    detail: Annotated[str | None, Meta(description="Of `new_error` an example.")]
    points: Annotated[
        list[Point] | None,
        Meta(description="The last eight days by hour; of `filling` three hours by minute, and a forecast of one."),
    ]


class InsightRoutes:
    def __init__(self, engine: Engine) -> None:
        self._insights = engine.insights

    def operations(self) -> list[Operation]:
        tag, read = "insights", Scope.READ
        return [
            Operation(
                method="GET", path=_INSIGHTS, handler=self.list, tag=tag, scope=read,
                summary="Throughput, latencies and rates per hour or day", query=InsightsQuery,
                answers={200: list[Insight]},
            ),
            Operation(
                method="GET", path=f"{_INSIGHTS}/errors", handler=self.errors, tag=tag, scope=read,
                summary="The most frequent errors", query=ErrorsQuery, answers={200: list[FailureReason]},
            ),
            Operation(
                method="GET", path=f"{_INSIGHTS}/findings", handler=self.findings, tag=tag, scope=read,
                summary="What slows down, grows, fills up, or fails in a new way", query=FindingsQuery,
                answers={200: list[Finding]},
            ),
        ]  # fmt: skip

    async def list(self, request: Request) -> Response:
        principal = request.principal
        principal.require(Scope.READ)
        query = read_query(InsightsQuery, request.query)
        found = await self._insights.list(
            principal.tenant, query.step, kind=query.kind, name=query.name, since=query.since, until=query.until,
            after=_place(query.after), limit=query.limit, reaches=_reaches(principal),
        )  # fmt: skip
        return Response(200, _encode([_insight(insight) for insight in found]))

    async def errors(self, request: Request) -> Response:
        principal = request.principal
        principal.require(Scope.READ)
        query = read_query(ErrorsQuery, request.query)
        found = await self._insights.errors(
            principal.tenant, kind=query.kind, name=query.name, since=query.since, until=query.until,
            limit=query.limit, reaches=_reaches(principal),
        )  # fmt: skip
        return Response(200, _encode([_reason(error) for error in found]))

    async def findings(self, request: Request) -> Response:
        principal = request.principal
        principal.require(Scope.READ)
        query = read_query(FindingsQuery, request.query)
        found = await self._insights.findings(
            principal.tenant, all_tenants=_sees_all(principal), points=query.points, reaches=_reaches(principal)
        )
        return Response(200, _encode([_finding(each, query.points) for each in found]))


def _sees_all(principal: Principal) -> bool:
    """Whether the caller may know the names of other tenants: administrators of the default tenant."""
    return principal.tenant == DEFAULT_TENANT and Scope.ADMIN in principal.scopes


def _finding(found: nouns.Finding, with_points: bool) -> Finding:
    return Finding(
        question=found.question, kind=found.kind, name=found.name, before=found.before, now=found.now,
        detail=found.detail, points=[Point(at=at, value=value) for at, value in found.points] if with_points else None,
    )  # fmt: skip


def _reaches(principal: Principal) -> Callable[[str], bool] | None:
    return None if principal.queues == "*" else principal.reaches


def _place(text: str) -> nouns.InsightCursor | None:
    if not text:
        return None
    check_text("after", text)
    moment, _, rest = text.partition(",")
    kind, _, name = rest.partition(",")
    try:
        found = datetime.fromisoformat(moment)
        starts_at = found if found.tzinfo else found.replace(tzinfo=UTC)
        cursor = starts_at, nouns.InsightKind(kind), name
    except ValueError:
        raise Invalid("after is a row like 2026-11-16T08:00:00Z,job,mail", field="after") from None
    check_moment("after", starts_at)
    return cursor


def _insight(insight: nouns.InsightRow) -> Insight:
    return Insight(
        kind=insight.kind,
        name=insight.name,
        starts_at=insight.starts_at,
        sent=insight.sent,
        done=insight.done,
        retried=insight.retried,
        failed=insight.failed,
        dead=insight.dead,
        retry_rate=insight.retry_rate,
        dead_rate=insight.dead_rate,
        per_second=insight.per_second,
        latency=_latency(insight),
        recorded_at=insight.recorded_at,
    )


def _latency(insight: nouns.InsightRow) -> Latency | None:
    if insight.p50_s is None or insight.p95_s is None or insight.p99_s is None or insight.max_s is None:
        return None
    return Latency(p50=insight.p50_s, p95=insight.p95_s, p99=insight.p99_s, max=insight.max_s)


def _reason(error: nouns.InsightErrorRow) -> FailureReason:
    return FailureReason(
        kind=error.kind,
        name=error.name,
        shape=error.shape,
        count=error.count,
        example=error.example,
        first_at=error.first_at,
        last_at=error.last_at,
    )

"""Native REST: pipelines and their runs."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from penstock.engine import Engine
from penstock.model import Scope
from penstock.model import pipelines as nouns
from penstock.wire.http.bodies import read_query
from penstock.wire.http.messages import Request, Response
from penstock.wire.openapi import Operation
from penstock.wire.rest.types import Moment, NoQuery, Strict

_encode = msgspec.json.Encoder().encode


class RunQuery(Strict, kw_only=True):
    pipeline: Annotated[str, Meta(min_length=1, max_length=80)] | None = None
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100


class PipelineRun(Struct, kw_only=True):
    """A run of a pipeline, as it last reported itself."""

    id: int
    pipeline: str
    settings: dict[str, Any]
    state: nouns.RunState
    started_at: Moment
    seen_at: Annotated[Moment, Meta(description="Its last sign of life.")]
    finished_at: Moment | None
    rows: Annotated[int, Meta(description="Rows read so far.")]
    batches: int
    lag_events: Annotated[int, Meta(description="Events it has yet to read.")] | None
    lag: Annotated[float, Meta(description="Seconds for which the oldest of them waits.")] | None
    note: str | None
    error: str | None
    progress: Annotated[dict[str, Any], Meta(description="Its streaming queries, as Spark reported them.")] | None


class Pipeline(Struct, kw_only=True):
    name: str
    summary: str
    last_run: PipelineRun | None


class PipelineRoutes:
    def __init__(self, engine: Engine) -> None:
        self._pipelines = engine.pipelines

    def operations(self) -> list[Operation]:
        tag, read = "pipelines", Scope.READ
        return [
            Operation(
                method="GET", path="/v1/pipelines", handler=self.list, tag=tag, scope=read,
                summary="Pipelines, with the last run of each and its lag", answers={200: list[Pipeline]},
            ),
            Operation(
                method="GET", path="/v1/pipelines/runs", handler=self.runs, tag=tag, scope=read,
                summary="Runs of pipelines, newest first", query=RunQuery, answers={200: list[PipelineRun]},
            ),
        ]  # fmt: skip

    async def list(self, request: Request) -> Response:
        _may_see(request)
        read_query(NoQuery, request.query)
        found = await self._pipelines.list(request.principal.tenant)
        return Response(200, _encode([_pipeline(each) for each in found]))

    async def runs(self, request: Request) -> Response:
        _may_see(request)
        query = read_query(RunQuery, request.query)
        found = await self._pipelines.runs(request.principal.tenant, query.pipeline, query.limit)
        return Response(200, _encode([_run(run) for run in found]))


def _may_see(request: Request) -> None:
    """A run names queues and streams of all sorts, so a token that reaches only some of them does not see it."""
    request.principal.require(Scope.READ, "*")


def _pipeline(found: nouns.PipelineStatus) -> Pipeline:
    last = None if found.last_run is None else _run(found.last_run)
    return Pipeline(name=found.name, summary=found.summary, last_run=last)


def _run(run: nouns.PipelineRun) -> PipelineRun:
    return PipelineRun(
        id=run.id,
        pipeline=run.pipeline,
        settings=dict(run.settings),
        state=run.state,
        started_at=run.started_at,
        seen_at=run.seen_at,
        finished_at=run.finished_at,
        rows=run.rows,
        batches=run.batches,
        lag_events=run.lag_events,
        lag=run.lag_s,
        note=run.note,
        error=run.error,
        progress=dict(run.progress) if run.progress is not None else None,
    )

"""`penstock pipeline`: look at pipelines and their runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli import run_pipelines
from penstock.cli.options import Json, find_tenant, on_store, with_engine
from penstock.cli.output import moment, print_rows
from penstock.config import Settings
from penstock.model.pipelines import PipelineRun, PipelineStatus

if TYPE_CHECKING:
    from penstock.server import Engine

app = typer.Typer(help="Run Spark's pipelines, and look at their runs.", no_args_is_help=True)
app.add_typer(run_pipelines.app, name="run")

Tenant = Annotated[str, typer.Option(help="Whose runs.")]


@app.command("list")
@on_store
def list_pipelines(settings: Settings, tenant: Tenant = "default", as_json: Json = False) -> None:
    """List the pipelines, with the last run of each."""

    async def work(engine: Engine) -> Sequence[PipelineStatus]:
        return await engine.pipelines.list((await find_tenant(engine, tenant)).id)

    found = with_engine(work, settings)
    print_rows([_pipeline_row(one) for one in found], as_json, "There are no pipelines.")


@app.command("runs")
@on_store
def list_runs(
    settings: Settings,
    name: Annotated[str | None, typer.Argument(help="Of this pipeline only.")] = None,
    tenant: Tenant = "default",
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many, the newest first.")] = 20,
    as_json: Json = False,
) -> None:
    """List runs of pipelines, the newest first."""

    async def work(engine: Engine) -> Sequence[PipelineRun]:
        return await engine.pipelines.runs((await find_tenant(engine, tenant)).id, name, limit)

    found = with_engine(work, settings)
    print_rows([_run_row(one) for one in found], as_json, "No pipeline was run yet.")


def _pipeline_row(found: PipelineStatus) -> dict[str, Any]:
    last = found.last_run
    return {
        "pipeline": found.name,
        "last run": last and moment(last.started_at),
        "state": last and last.state.value,
        "rows": last and last.rows,
        "lag": last and last.lag_events,
        "what it does": found.summary,
    }


def _run_row(found: PipelineRun) -> dict[str, Any]:
    until = found.finished_at or found.seen_at
    return {
        "run": found.id,
        "pipeline": found.pipeline,
        "state": found.state.value,
        "started": moment(found.started_at),
        "seconds": round((until - found.started_at).total_seconds(), 1),
        "rows": found.rows,
        "batches": found.batches,
        "lag": found.lag_events,
        "lag_s": found.lag_s and round(found.lag_s, 1),
        "note": found.error or found.note,
    }

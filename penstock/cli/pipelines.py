"""`penstock pipeline`: list pipelines and their runs."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from penstock.cli import pipeline_worker, run_pipelines
from penstock.cli.lazy import Group
from penstock.cli.options import on_server
from penstock.cli.output import Output
from penstock.cli.remote import Server

app = typer.Typer(help="Run pipelines on Spark, and list their runs.", no_args_is_help=True)
app.add_typer(run_pipelines.app, name="run", cls=Group)
app.command("worker")(pipeline_worker.run_worker)

COLUMNS = ("name", "last_run", "state", "rows", "lag_events", "summary")
RUN_COLUMNS = ("id", "pipeline", "state", "started_at", "rows", "batches", "lag_events", "lag", "note")


@app.command("list")
@on_server()
def list_pipelines(server: Server, out: Output) -> None:
    """List the pipelines with the last run of each."""
    found = server.get("/v1/pipelines")
    out.rows(found if out.as_json else [_row(one) for one in found], COLUMNS, "There are no pipelines.")


@app.command("runs")
@on_server()
def list_runs(
    server: Server,
    out: Output,
    name: Annotated[str | None, typer.Argument(help="Show runs of this pipeline only.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Maximum number of runs.")] = 20,
) -> None:
    """List runs of pipelines, newest first."""
    found = server.get("/v1/pipelines/runs", pipeline=name, limit=limit)
    rows = found if out.as_json else [{**one, "note": one["error"] or one["note"]} for one in found]
    out.rows(rows, RUN_COLUMNS, "No pipeline has run yet.")


def _row(found: dict[str, Any]) -> dict[str, Any]:
    last = found["last_run"] or dict.fromkeys(("started_at", "state", "rows", "lag_events"))
    return {**found, "last_run": last["started_at"], **{name: last[name] for name in ("state", "rows", "lag_events")}}

"""`penstock queue`: look at queues."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.options import Json, find_tenant, on_store, with_engine
from penstock.cli.output import moment, print_rows
from penstock.config import Settings

if TYPE_CHECKING:
    from penstock.server import Engine

app = typer.Typer(help="Look at queues.", no_args_is_help=True)


@app.callback()
def queue() -> None:
    """Look at queues."""


@app.command("list")
@on_store
def list_queues(
    settings: Settings,
    tenant: Annotated[str, typer.Option(help="Whose queues.")] = "default",
    as_json: Json = False,
) -> None:
    """List queues and how full they are."""

    async def work(engine: Engine) -> list[dict[str, Any]]:
        owner = await find_tenant(engine, tenant)
        counts = [found for _, found in await engine.queues.all_counts(owner.id)]
        return [
            {
                "queue": found.queue,
                "visible": found.visible,
                "in_flight": found.in_flight,
                "delayed": found.delayed,
                "sent": found.sent,
                "oldest": moment(found.oldest_sent_at),
            }
            for found in sorted(counts, key=lambda found: found.queue)
        ]

    rows = with_engine(work, settings)
    print_rows(rows, as_json, "There are no queues.")

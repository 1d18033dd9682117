"""`penstock audit`: the audit log of administrative actions."""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.cli.options import on_server
from penstock.cli.output import Output
from penstock.cli.remote import Server

COLUMNS = ("id", "at", "tenant", "actor", "act", "subject", "detail")


@on_server()
def list_acts(
    server: Server,
    out: Output,
    tenant: Annotated[str | None, typer.Option(metavar="NAME", help="List only actions on this tenant.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Maximum number, newest first.")] = 100,
) -> None:
    """List administrative actions.

    The audit log records changes of tokens, tenants and limits, and retries and purges of dead jobs.
    """
    out.rows(server.get("/v1/audit", tenant=tenant, limit=limit), COLUMNS, "There are no actions.")

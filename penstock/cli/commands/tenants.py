"""`penstock tenant`: create and list tenants."""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.cli.options import on_server
from penstock.cli.output import Output
from penstock.cli.remote import Server

app = typer.Typer(help="Create and list tenants.", no_args_is_help=True)


@app.command("create")
@on_server(creates=True)
def create_tenant(
    server: Server, out: Output, name: Annotated[str, typer.Argument(help="Name of the tenant.")]
) -> None:
    """Create a tenant. Does nothing if it exists."""
    out.record(server.post("/v1/tenants", {"name": name}, repeatable=True))


@app.command("list")
@on_server()
def list_tenants(server: Server, out: Output) -> None:
    """List tenants."""
    out.rows(server.get("/v1/tenants"), ("id", "name", "created_at"), "There are no tenants.")

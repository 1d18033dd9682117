"""`penstock tenant`: create and list tenants."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import typer

from penstock.cli.options import Json, on_store, with_engine
from penstock.cli.output import moment, print_rows
from penstock.config import Settings
from penstock.model import Tenant

if TYPE_CHECKING:
    from penstock.server import Engine

app = typer.Typer(help="Create and list tenants.", no_args_is_help=True)


@app.command("create")
@on_store
def create_tenant(
    settings: Settings,
    name: str,
    as_json: Json = False,
) -> None:
    """Create a tenant; one of that name already is fine."""

    async def work(engine: Engine) -> Tenant:
        return await engine.tenants.create(name)

    made = with_engine(work, settings)
    if as_json:
        print(json.dumps(_tenant_row(made)))
    else:
        print(f"tenant {made.name} has the id {made.id}")


@app.command("list")
@on_store
def list_tenants(
    settings: Settings,
    as_json: Json = False,
) -> None:
    """List the tenants."""

    async def work(engine: Engine) -> Sequence[Tenant]:
        return await engine.tenants.list()

    found = with_engine(work, settings)
    print_rows([_tenant_row(one) for one in found], as_json, "There are no tenants.")


def _tenant_row(found: Tenant) -> dict[str, Any]:
    return {"id": found.id, "name": found.name, "created": moment(found.created_at)}

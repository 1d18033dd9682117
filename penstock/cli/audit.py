"""`penstock audit`: what administrators did."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.options import Json, find_tenant, on_store, with_engine
from penstock.cli.output import moment, print_rows
from penstock.config import Settings
from penstock.model.audit import Act

if TYPE_CHECKING:
    from penstock.server import Engine


@on_store
def list_acts(
    settings: Settings,
    tenant: Annotated[str | None, typer.Option(help="About this tenant only.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many, the newest first.")] = 100,
    as_json: Json = False,
) -> None:
    """List what administrators did to tokens, tenants, limits and dead jobs."""

    async def work(engine: Engine) -> Sequence[Act]:
        owner = await find_tenant(engine, tenant) if tenant is not None else None
        return await engine.audit.list(owner.id if owner else None, limit=limit)

    found = with_engine(work, settings)
    print_rows([_act_row(one) for one in found], as_json, "Nothing was done yet.")


def _act_row(found: Act) -> dict[str, Any]:
    return {
        "id": found.id,
        "at": moment(found.at),
        "tenant": found.tenant,
        "actor": found.actor,
        "act": found.act,
        "subject": found.subject,
        "detail": found.detail,
    }

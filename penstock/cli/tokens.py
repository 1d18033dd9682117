"""`penstock token`: create, list, rotate and revoke API tokens and AWS access keys."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.options import Json, find_tenant, on_store, with_engine
from penstock.cli.output import moment, print_rows
from penstock.config import Settings
from penstock.errors import Invalid
from penstock.model import Scope, Token

if TYPE_CHECKING:
    from penstock.server import Engine

app = typer.Typer(help="Create, list, rotate and revoke API tokens and AWS access keys.", no_args_is_help=True)


@app.command("create")
@on_store
def create_token(
    settings: Settings,
    name: Annotated[str, typer.Option(help="What it is for.")] = "",
    tenant: Annotated[str, typer.Option(help="Whose queues it opens.")] = "default",
    scope: Annotated[list[Scope] | None, typer.Option(help="What it may do; repeat for more; default: admin.")] = None,
    queues: Annotated[str, typer.Option(metavar="GLOB", help="The queues it reaches.")] = "*",
    expires: Annotated[str | None, typer.Option(metavar="30d", help="How long it lasts; default: for ever.")] = None,
    aws: Annotated[bool, typer.Option("--aws", help="An access key for AWS SDKs; they need --auth sigv4.")] = False,
    as_json: Json = False,
) -> None:
    """Create an API token. Its text is printed this once."""
    lasts = parse_duration(expires) if expires is not None else None
    scopes = frozenset(scope or [Scope.ADMIN])

    async def work(engine: Engine) -> tuple[Token, str]:
        owner = await find_tenant(engine, tenant)
        return await engine.tenants.create_token(owner.id, name, scopes, queues=queues, lasts=lasts, aws=aws)

    made, text = with_engine(work, settings)
    _print_secret(made, text, as_json)


@app.command("list")
@on_store
def list_tokens(
    settings: Settings,
    tenant: Annotated[str | None, typer.Option(help="Of this tenant only.")] = None,
    as_json: Json = False,
) -> None:
    """List API tokens, without their texts."""

    async def work(engine: Engine) -> Sequence[Token]:
        owner = await find_tenant(engine, tenant) if tenant is not None else None
        return await engine.tenants.list_tokens(owner.id if owner else None)

    found = with_engine(work, settings)
    print_rows([_token_row(one) for one in found], as_json, "There are no tokens.")


@app.command("rotate")
@on_store
def rotate_token(
    settings: Settings,
    token_id: Annotated[int, typer.Argument(metavar="ID")],
    overlap: Annotated[str, typer.Option(metavar="1h", help="How long the old one still works.")] = "0s",
    as_json: Json = False,
) -> None:
    """Replace a token by a new one with the same powers."""
    lasts = parse_duration(overlap)

    async def work(engine: Engine) -> tuple[Token, str]:
        return await engine.tenants.rotate_token(token_id, lasts)

    made, text = with_engine(work, settings)
    _print_secret(made, text, as_json)


@app.command("revoke")
@on_store
def revoke_token(
    settings: Settings,
    token_id: Annotated[int, typer.Argument(metavar="ID")],
    as_json: Json = False,
) -> None:
    """End a token. Servers forget it within seconds."""

    async def work(engine: Engine) -> Token:
        return await engine.tenants.revoke_token(token_id)

    ended = with_engine(work, settings)
    if as_json:
        print(json.dumps(_token_row(ended)))
    else:
        print(f"token {ended.id} is revoked")


def parse_duration(text: str) -> timedelta:
    """`90s`, `15m`, `12h`, `30d`, `1h30m`."""
    parts = re.fullmatch(r"(?:(\d{1,6})d)?(?:(\d{1,6})h)?(?:(\d{1,6})m)?(?:(\d{1,9})s)?", text.strip())
    if not text.strip() or parts is None:
        raise Invalid(f"'{text}' is not a duration: write it like 30d, 12h or 1h30m")
    days, hours, minutes, seconds = (int(part or 0) for part in parts.groups())
    return timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)


def _token_row(found: Token) -> dict[str, Any]:
    aws = found.aws_secret is not None
    return {
        "id": found.id,
        "tenant": found.tenant_name,
        "name": found.name,
        "kind": "aws" if aws else "token",
        "prefix": found.prefix if aws else f"pst_{found.prefix}",
        "scopes": ",".join(sorted(found.scopes)),
        "queues": found.queues,
        "created": moment(found.created_at),
        "expires": moment(found.expires_at),
        "revoked": moment(found.revoked_at),
        "last_seen": moment(found.last_seen_at),
    }


def _print_secret(made: Token, text: str, as_json: bool) -> None:
    aws = made.aws_secret is not None
    if as_json:
        shown = {"access_key_id": made.prefix, "secret_access_key": text} if aws else {"token": text}
        print(json.dumps({**_token_row(made), **shown}))
        return
    # As variables, which is how SDKs take them: one line each, fit for a file of variables or for `export`.
    print(f"AWS_ACCESS_KEY_ID={made.prefix}\nAWS_SECRET_ACCESS_KEY={text}" if aws else text)
    what, shown_once = ("access key", "Its secret") if aws else ("token", "It")
    print(f"This is {what} {made.id} of tenant {made.tenant_name}. {shown_once} is shown only now.", file=sys.stderr)

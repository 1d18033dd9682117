"""`penstock token`: create, list, rotate and revoke API tokens and AWS access keys."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from penstock.cli.options import on_server, seconds
from penstock.cli.output import Output, say
from penstock.cli.remote import Server
from penstock.model import Scope

app = typer.Typer(help="Create, list, rotate and revoke API tokens and AWS access keys.", no_args_is_help=True)

TokenId = Annotated[int, typer.Argument(metavar="ID", help="Id of the token, as shown by list.")]
COLUMNS = (
    *("id", "tenant", "name", "kind", "prefix", "scopes", "queues"),
    *("created_at", "expires_at", "revoked_at", "last_seen_at"),
)


@app.command("create")
@on_server(creates=True)
def create_token(
    server: Server,
    out: Output,
    name: Annotated[str, typer.Option(metavar="TEXT", help="Description of the token.")] = "",
    tenant: Annotated[
        str | None, typer.Option(metavar="NAME", help="Tenant that the token belongs to. Default: the caller's.")
    ] = None,
    scope: Annotated[
        list[Scope] | None,
        typer.Option(
            metavar="SCOPE",
            help="Permission: read, send, receive, manage, admin or operator; repeat for several. Default: admin.",
        ),
    ] = None,
    queues: Annotated[str, typer.Option(metavar="GLOB", help="Queues that the token can access.")] = "*",
    expires: Annotated[str | None, typer.Option(metavar="DURATION", help="Lifetime. Default: unlimited.")] = None,
    aws: Annotated[bool, typer.Option("--aws", help="Create an AWS access key, for --auth sigv4.")] = False,
) -> None:
    """Create an API token and print it. It cannot be printed again."""
    body: dict[str, Any] = {
        "name": name,
        "scopes": sorted(scope or [Scope.ADMIN]),
        "queues": queues,
        "aws": aws,
        "tenant": tenant,
        "lifetime": None if expires is None else seconds(expires),
    }
    _print_secret(out, server.post("/v1/tokens", body))


@app.command("list")
@on_server()
def list_tokens(
    server: Server,
    out: Output,
    tenant: Annotated[str | None, typer.Option(metavar="NAME", help="List only the tokens of this tenant.")] = None,
) -> None:
    """List API tokens, without their secrets."""
    out.rows(server.get("/v1/tokens", tenant=tenant), COLUMNS, "There are no tokens.")


@app.command("rotate")
@on_server()
def rotate_token(
    server: Server,
    out: Output,
    token_id: TokenId,
    overlap: Annotated[str, typer.Option(metavar="DURATION", help="Time the old token remains valid.")] = "0s",
) -> None:
    """Replace a token with a new one that has the same permissions."""
    _print_secret(out, server.post(f"/v1/tokens/{token_id}/rotate", {"overlap": seconds(overlap)}))


@app.command("revoke")
@on_server()
def revoke_token(server: Server, out: Output, token_id: TokenId) -> None:
    """Revoke a token. Running servers reject it within seconds."""
    server.delete(f"/v1/tokens/{token_id}")
    out.done(f"token {token_id} is revoked", revoked=token_id)


def _print_secret(out: Output, made: dict[str, Any]) -> None:
    aws = made["kind"] == "aws"
    if out.as_json:
        out.record(made)
        return
    # AWS SDKs read these environment variables.
    key = f"AWS_ACCESS_KEY_ID={made['prefix']}\nAWS_SECRET_ACCESS_KEY={made['secret_access_key']}" if aws else ""
    print(key or made["token"])
    what, shown_once = ("access key", "Its secret") if aws else ("token", "It")
    say(f"Created {what} {made['id']} of tenant {made['tenant']}. {shown_once} is not shown again.")

"""`penstock mcp`: tools for agents."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from penstock.cli.options import Context, Token, Url
from penstock.cli.remote import Chosen, http_address
from penstock.config import Settings, split_address
from penstock.errors import Invalid, Unsupported

DEFAULT_URL = "http://127.0.0.1:9324"


def mcp(
    url: Url = None,
    token: Token = None,
    context: Context = None,
    allow_writes: Annotated[
        bool, typer.Option("--allow-writes", help="Offer tools that change something. Default: only tools that read.")
    ] = False,
    http: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Serve HTTP on this loopback address instead of standard input."),
    ] = None,
) -> None:
    """Serve tools for agents over the Model Context Protocol: look at queues and jobs, and repair them.

    Uses standard input and output, or HTTP at the path /mcp. An agent can do what the token can do.
    """
    try:
        from penstock.mcp_server import serving
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("penstock"):
            raise
        raise Unsupported("penstock mcp needs further packages: pip install 'penstock[mcp]'") from error
    import penstock

    server, secret = http_address(Chosen(url, token, context, None, False, _no_settings), DEFAULT_URL)
    version = penstock.__version__
    if http is None:
        serving.serve_stdio(server, secret, version, allow_writes=allow_writes)
        return
    try:
        host, port = split_address(http)
    except ValueError as error:
        raise Invalid(f"--http {error}", field="http") from None
    serving.check_loopback(host)
    print(f"MCP at http://{http}{serving.PATH} for {server}", file=sys.stderr)
    serving.serve_http(server, secret, version, host, port, allow_writes=allow_writes)


def _no_settings() -> Settings:
    raise Invalid("penstock mcp needs the URL of a server")

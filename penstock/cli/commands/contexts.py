"""`penstock context`: named servers."""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.cli import context_file
from penstock.cli.options import Columns, Json, read_text
from penstock.cli.output import Output
from penstock.errors import Invalid, NotFound

app = typer.Typer(help="Named servers for --context.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the context.")]


@app.command("add")
def add(
    name: Name,
    url: Annotated[str, typer.Argument(metavar="URL", help="URL of the server.")],
    token: Annotated[
        str | None, typer.Option(metavar="TEXT", help="API token. - reads it from standard input.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Add or replace a context. The first one becomes the current one."""
    if not url.startswith(("http://", "https://")):
        raise Invalid(f"'{url}' is not the URL of a server: it must begin with http:// or https://")
    found = context_file.read()
    found["contexts"][name] = {"url": url, "token": None if token is None else read_text(token).strip()}
    found["current"] = found.get("current") or name
    context_file.write(found)
    Output(as_json).done(f"context {name} is stored in {context_file.path()}", name=name, url=url)


@app.command("list")
def list_contexts(columns: Columns = None, as_json: Json = False) -> None:
    """List contexts, without their tokens."""
    found = context_file.read()
    rows = [
        {"name": name, "url": one["url"], "current": name == found.get("current"), "has_token": bool(one.get("token"))}
        for name, one in sorted(found["contexts"].items())
    ]
    Output(as_json, columns).rows(rows, ("name", "url", "current", "has_token"), "There are no contexts.")


@app.command("use")
def use(name: Name, as_json: Json = False) -> None:
    """Make a context the current one: commands use it unless an option or PENSTOCK_URL names another server."""
    context_file.get(name)
    context_file.write({**context_file.read(), "current": name})
    Output(as_json).done(f"the current context is {name}", current=name)


@app.command("drop")
def drop(name: Name, as_json: Json = False) -> None:
    """Delete a context."""
    found = context_file.read()
    if name not in found["contexts"]:
        raise NotFound(f"context '{name}' does not exist")
    del found["contexts"][name]
    if found.get("current") == name:
        found["current"] = None
    context_file.write(found)
    Output(as_json).done(f"context {name} is deleted", deleted=name)

"""The server that a command works on: one over HTTP, or the same API in this process on a database.

Every command imports this module, so it imports the client and the server only when they are needed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from penstock.cli import context_file
from penstock.config import Settings
from penstock.errors import Invalid

if TYPE_CHECKING:
    from penstock.client.transport import Transport

ANYONE = "anyone"
"""The token when none is given: a server with open authentication accepts any."""
PATIENCE_S = 30.0


@dataclass(frozen=True)
class Chosen:
    """What the options of a command select."""

    url: str | None
    token: str | None
    context: str | None
    tenant: str | None
    names_database: bool
    settings: Callable[[], Settings]


class Server:
    """Asks the REST and jobs API. Errors are those of `penstock.errors`."""

    def __init__(self, transport: Transport, where: str, work: Callable[[], None] = lambda: None) -> None:
        self._transport = transport
        self.where = where
        self.work = work
        """Does once what a running server does by itself; nothing when there is one."""

    def get(self, path: str, **query: Any) -> Any:
        return self.ask("GET", path, query)

    def post(self, path: str, body: Any = None, *, repeatable: bool = False) -> Any:
        return self.ask("POST", path, body=body, repeatable=repeatable)

    def patch(self, path: str, body: Any) -> Any:
        return self.ask("PATCH", path, body=body)

    def delete(self, path: str, **query: Any) -> Any:
        return self.ask("DELETE", path, query)

    def ask(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any] | None = None,
        *,
        body: Any = None,
        repeatable: bool = True,
        timeout_s: float = PATIENCE_S,
    ) -> Any:
        from penstock.client.exchange import Call, Request, Retries, exchange
        from penstock.client.transport import drive

        parameters = {name: _parameter(value) for name, value in (query or {}).items() if value is not None}
        content = None if body is None else json.dumps(body).encode()
        request = Request(method, path, parameters, content, repeatable, timeout_s)
        return drive(exchange(Call(request, _itself), Retries(attempts=3)), self._transport)


def _itself(found: Any) -> Any:
    return found


def _parameter(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def segment(name: str) -> str:
    """A name as a part of a path."""
    if not name:
        raise Invalid("a name must not be empty")
    return quote(name, safe="")


@contextmanager
def connect(chosen: Chosen, *, creates: bool) -> Iterator[Server]:
    """The server of the options, else of the variables, else of the current context, else the store of the settings."""
    url, token = _address(chosen)
    if url is not None:
        if chosen.tenant is not None:
            raise Invalid("--tenant is for databases; over HTTP the token selects the tenant")
        if not url.startswith(("http://", "https://")):
            raise Invalid(f"'{url}' is not the URL of a server: it must begin with http:// or https://")
        from penstock.client.transport import HttpTransport

        transport = HttpTransport(url.rstrip("/"), _sendable(token))
        try:
            yield Server(transport, url)
        finally:
            transport.close()
        return
    from penstock.cli.database import Database

    opened = Database(chosen.settings(), chosen.tenant or "default", creates=creates)
    try:
        yield Server(opened, opened.where, opened.work)
    finally:
        opened.close()


def http_address(chosen: Chosen, otherwise: str) -> tuple[str, str]:
    """URL and token, for commands that need a server over HTTP."""
    url, token = _address(chosen)
    found = url or otherwise
    if not found.startswith(("http://", "https://")):
        raise Invalid(f"'{found}' is not the URL of a server: it must begin with http:// or https://")
    return found.rstrip("/"), _sendable(token)


def _sendable(token: str | None) -> str:
    """The token as a header takes it."""
    if token and not (token.isascii() and token.isprintable()):
        raise Invalid("the token has characters that no token has")
    return token or ANYONE


def _address(chosen: Chosen) -> tuple[str | None, str | None]:
    """URL and token; no URL means a database."""
    token = chosen.token or os.environ.get("PENSTOCK_TOKEN")
    if chosen.url is not None:
        if chosen.names_database or chosen.context is not None:
            raise Invalid("--url, --context and the options of a database exclude each other")
        return chosen.url, token
    if chosen.context is not None:
        if chosen.names_database:
            raise Invalid("--url, --context and the options of a database exclude each other")
        url, own = context_file.get(chosen.context)
        return url, chosen.token or own
    if chosen.names_database:
        return None, None
    if named := os.environ.get("PENSTOCK_URL"):
        return named, token
    current = context_file.read().get("current")
    if current is not None:
        url, own = context_file.get(current)
        return url, token or own
    return None, None

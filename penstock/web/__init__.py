"""The pages for people: the dashboard at `/` and the API reference at `/docs`.

Jinja2 and Starlette take longer to import than the server takes to start. They are imported with the first request
for a page.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

from penstock.auth import Authenticator
from penstock.engine import Engine
from penstock.web.settings import WebSettings as WebSettings

Event = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Event]]
Send = Callable[[Event], Awaitable[None]]
App = Callable[[Event, Receive, Send], Awaitable[None]]


def app(
    engine: Engine,
    authenticator: Authenticator,
    document: Callable[[], Mapping[str, Any]],
    settings: WebSettings | None = None,
) -> App:
    """The ASGI app. `document` returns the OpenAPI document that `/docs` shows."""
    built: App | None = None

    async def lazily(scope: Event, receive: Receive, send: Send) -> None:
        nonlocal built
        if built is None:
            from penstock.web.application import build

            built = build(engine, authenticator, document, settings or WebSettings())
        await built(scope, receive, send)

    return lazily

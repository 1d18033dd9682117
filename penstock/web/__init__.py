"""The pages for people: a dashboard at `/` and the API in words at `/docs`.

Templates and a web framework take longer to import than the server takes to start, so they are imported when
someone first looks at a page.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

from penstock.auth import Authenticator
from penstock.engine import Engine

Event = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Event]]
Send = Callable[[Event], Awaitable[None]]
App = Callable[[Event, Receive, Send], Awaitable[None]]


def app(engine: Engine, authenticator: Authenticator, document: Callable[[], Mapping[str, Any]]) -> App:
    """The ASGI app. `document` gives the OpenAPI document that `/docs` shows."""
    built: App | None = None

    async def lazily(scope: Event, receive: Receive, send: Send) -> None:
        nonlocal built
        if built is None:
            from penstock.web.pages import build

            built = build(engine, authenticator, document)
        await built(scope, receive, send)

    return lazily

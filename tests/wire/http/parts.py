"""Requests, limits and routes that the tests of the HTTP layer share."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from penstock.wire.http.faults import json_fault
from penstock.wire.http.limits import HttpLimits
from penstock.wire.http.messages import Request, Response
from penstock.wire.http.protocol import PenstockProtocol
from penstock.wire.http.router import Route
from penstock.wire.http.traffic import Traffic
from tests.wire.conftest import Live
from tests.wire.raw import request

LIVEZ = request("GET", "/livez")
SEND = "/v1/queues/q/messages"
TIGHT = HttpLimits(sweep_s=0.05)


def traffic(live: Live) -> Traffic:
    protocol = live.uvicorn.config.http_protocol_class
    assert issubclass(protocol, PenstockProtocol)
    return protocol.shared


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


def route(path: str, handler: Callable[[Request], Response | Awaitable[Response]], *, body_bytes: int = 100) -> Route:
    return Route("POST", path, handler, fault=json_fault, body_bytes=body_bytes, open=True)

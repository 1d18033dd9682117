"""The two ways to reach the MCP server: standard input and output of a process, or HTTP on a loopback address."""

from __future__ import annotations

import ipaddress

import anyio
import uvicorn
from mcp.server.mcpserver import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette

from penstock.client import AsyncClient
from penstock.errors import Invalid
from penstock.mcp_server import create

PATH = "/mcp"
LARGEST_REQUEST = 1_048_576


def serve_stdio(url: str, token: str, version: str, *, allow_writes: bool) -> None:
    async def run() -> None:
        async with AsyncClient(url, token) as client:
            await create(client, version, allow_writes=allow_writes).run_stdio_async()

    anyio.run(run)


def serve_http(url: str, token: str, version: str, host: str, port: int, *, allow_writes: bool) -> None:
    check_loopback(host)

    async def run() -> None:
        async with AsyncClient(url, token) as client:
            app = http_app(create(client, version, allow_writes=allow_writes), port)
            await uvicorn.Server(uvicorn.Config(app, host=host, port=port, log_level="warning")).serve()

    anyio.run(run)


def http_app(server: MCPServer[object], port: int) -> Starlette:
    """Answers only requests that name a loopback address as their host and, if a page makes them, as their origin."""
    hosts = [f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]")]
    security = TransportSecuritySettings(
        enable_dns_rebinding_protection=True,
        allowed_hosts=hosts,
        allowed_origins=[f"http://{host}" for host in hosts],
    )
    return server.streamable_http_app(
        streamable_http_path=PATH, transport_security=security, max_request_body_size=LARGEST_REQUEST
    )


def check_loopback(host: str) -> None:
    """The endpoint acts with the token of the user and has no login: it must not be reachable from other machines."""
    try:
        local = ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        local = host == "localhost"
    if not local:
        raise Invalid(f"the MCP server listens on loopback addresses only, not on '{host}'", field="address")

"""The server processes of a PostgreSQL database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple
from datetime import datetime

from penstock.model.nodes import Node
from penstock.store.postgres.connections import Connections


class PostgresNodes:
    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    async def seen(self, node: Node, forget_before: datetime) -> None:
        await self._connections.value("node_seen", *astuple(node), forget_before, durable=False)

    async def list(self) -> Sequence[Node]:
        return [Node(**row) for row in await self._connections.rows("list_nodes")]

    async def stopped(self, name: str) -> None:
        await self._connections.value("node_stopped", name, durable=False)

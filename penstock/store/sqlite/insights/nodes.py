"""The server process of a SQLite database: there is one."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from penstock.model.nodes import Node


class SqliteNodes:
    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}

    async def seen(self, node: Node, forget_before: datetime) -> None:
        self._nodes = {name: one for name, one in self._nodes.items() if one.seen_at >= forget_before}
        self._nodes[node.name] = node

    async def list(self) -> Sequence[Node]:
        return [self._nodes[name] for name in sorted(self._nodes)]

    async def stopped(self, name: str) -> None:
        self._nodes.pop(name, None)

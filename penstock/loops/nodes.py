"""Say that this node runs."""

from __future__ import annotations

from penstock.engine import Engine

EVERY_S = 15.0


class NodeKeeper:
    def __init__(self, engine: Engine, version: str) -> None:
        self._engine = engine
        self._version = version

    async def once(self) -> int:
        await self._engine.nodes.seen(self._version)
        return 1

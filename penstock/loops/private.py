"""Remove private queues that were deleted long ago."""

from __future__ import annotations

from penstock.engine import Engine

COMPACT_S = 300.0


class PrivateKeeper:
    def __init__(self, engine: Engine) -> None:
        self._messages = engine.private_messages

    async def once(self) -> int:
        return await self._messages.compact()

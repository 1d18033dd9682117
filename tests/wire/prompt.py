"""A uvicorn that stops at once when nothing is under way: two thousand tests stop one each."""

from __future__ import annotations

import asyncio
import socket

import uvicorn


class PromptServer(uvicorn.Server):
    """uvicorn asks ten times a second whether to stop, and then waits another tenth of a second before it looks."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        self.should_exit = True
        self._stopping.set()

    async def main_loop(self) -> None:
        # Every tenth tick writes the date that answers carry: one a second.
        for counter in range(0, 864_000, 10):
            if await self.on_tick(counter):
                return
            try:
                await asyncio.wait_for(self._stopping.wait(), timeout=1)
            except TimeoutError:
                continue

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close connections that rest; leave those with a request under way to uvicorn."""
        for server in self.servers:
            server.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        # A transport that was closed leaves the list in one of the next rounds of the loop.
        for _ in range(3):
            await asyncio.sleep(0)
        if self.server_state.connections or self.server_state.tasks:
            await super().shutdown(sockets)
            return
        for server in self.servers:
            await server.wait_closed()

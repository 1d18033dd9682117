"""A TCP proxy in front of a node that cuts connections: before a request, after it, or in the middle of an answer."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from contextlib import suppress
from random import Random
from typing import Literal, get_args

Cut = Literal["before the request", "after the request", "during the answer"]
CUTS: tuple[Cut, ...] = get_args(Cut)
PIECE = 65_536
CHANCE = 0.3
"""Of a request to be cut while the proxy cuts."""


class Proxy:
    """Passes bytes on. While `cut` is set, some requests lose their connection, as `cut` says.

    It takes what a client sends at once for a request: clients of a run wait for each answer.
    """

    def __init__(self, port: int, seed: int) -> None:
        self.cut: Cut | None = None
        self.cuts = 0
        self._target = port
        self._random = Random(f"proxy {seed} {port}")
        self._loop = asyncio.new_event_loop()
        self._server: asyncio.Server | None = None
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._server = self._loop.run_until_complete(asyncio.start_server(self._serve, sock=self._listener))
        self._loop.run_forever()
        self._server.close()
        left = asyncio.all_tasks(self._loop)
        for task in left:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        self._loop.close()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        self._listener.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            to_node = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            _abort(writer)
            return
        connection = _Connection(self, (reader, writer), to_node)
        with suppress(OSError):
            await connection.run()

    def draw(self) -> Cut | None:
        """How the next request is cut, if it is."""
        if self.cut is None or self._random.random() > CHANCE:
            return None
        self.cuts += 1
        return self.cut

    def part(self, size: int) -> int:
        return self._random.randrange(size)


Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class _Connection:
    def __init__(self, proxy: Proxy, client: Streams, node: Streams) -> None:
        self._proxy = proxy
        self._client = client
        self._node = node
        self._fate: Cut | None = None

    async def run(self) -> None:
        ways = [asyncio.ensure_future(self._requests()), asyncio.ensure_future(self._answers())]
        try:
            # When one side closes, the connection is over.
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            for _, writer in (self._client, self._node):
                if self._fate is None:
                    writer.close()
                else:
                    _abort(writer)

    async def _requests(self) -> None:
        with suppress(OSError):
            while data := await self._client[0].read(PIECE):
                self._fate = self._proxy.draw()
                if self._fate == "before the request":
                    return
                self._node[1].write(data)
                await self._node[1].drain()

    async def _answers(self) -> None:
        with suppress(OSError):
            while data := await self._node[0].read(PIECE):
                if self._fate == "after the request":
                    return
                if self._fate == "during the answer":
                    self._client[1].write(data[: self._proxy.part(len(data))])
                    await self._client[1].drain()
                    return
                self._client[1].write(data)
                await self._client[1].drain()


def _abort(writer: asyncio.StreamWriter) -> None:
    """Reset the connection, as a network that fails does."""
    found: socket.socket | None = writer.get_extra_info("socket")
    if found is not None:
        with suppress(OSError):
            found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.close()

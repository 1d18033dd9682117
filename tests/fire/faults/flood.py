"""A flood: far more requests at one node than it can answer, over many connections, without waiting for answers."""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter

QUEUE = "flooded"
CONNECTIONS = 100
AT_ONCE = 20
"""Requests of one connection that wait for their answers."""
_LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)


def run(port: int, token: str, seconds: float) -> dict[str, int]:
    """How often each status was answered. A connection that the server closed counts as `closed`."""
    return asyncio.run(_flood(port, token, seconds))


async def _flood(port: int, token: str, seconds: float) -> dict[str, int]:
    statuses: Counter[str] = Counter()
    until = time.monotonic() + seconds
    body = b'{"message":"flood"}'
    request = (
        f"POST /v1/queues/{QUEUE}/messages HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    ).encode() + body

    async def attack() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            while time.monotonic() < until:
                writer.write(request * AT_ONCE)
                for _ in range(AT_ONCE):
                    head = await reader.readuntil(b"\r\n\r\n")
                    length = _LENGTH.search(head)
                    await reader.readexactly(int(length[1]) if length else 0)
                    statuses[head[9:12].decode()] += 1
        except (OSError, asyncio.IncompleteReadError):
            statuses["closed"] += 1
        finally:
            writer.close()

    await asyncio.gather(*(attack() for _ in range(CONNECTIONS)))
    return dict(statuses)

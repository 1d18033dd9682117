"""A client that sends exactly the bytes it is told to."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

PATIENCE_S = 5.0


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Raw:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        await asyncio.wait_for(self._writer.drain(), PATIENCE_S)

    async def answer(self, *, body: bool = True) -> Answer:
        head = await asyncio.wait_for(self._reader.readuntil(b"\r\n\r\n"), PATIENCE_S)
        first, *lines = head.decode("latin-1").split("\r\n")[:-2]
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        length = int(headers.get("content-length", 0)) if body else 0
        content = await asyncio.wait_for(self._reader.readexactly(length), PATIENCE_S)
        return Answer(int(first.split(" ")[1]), headers, content)

    async def ask(self, data: bytes) -> Answer:
        await self.send(data)
        return await self.answer()

    async def rest(self) -> bytes:
        """All that comes until the server closes."""
        return await asyncio.wait_for(self._reader.read(), PATIENCE_S)

    async def closed(self) -> bool:
        """True once the server has closed, having sent nothing more."""
        try:
            return await asyncio.wait_for(self._reader.read(1), PATIENCE_S) == b""
        except ConnectionError:
            return True

    def close_writing(self) -> None:
        """Tell the server that no more requests come."""
        self._writer.write_eof()

    def hang_up(self) -> None:
        self._writer.close()


@asynccontextmanager
async def connected(port: int) -> AsyncIterator[Raw]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield Raw(reader, writer)
    finally:
        writer.close()


def request(
    method: str, path: str, body: bytes = b"", *headers: str, host: str | None = "here", auth: str | None = "Bearer x"
) -> bytes:
    lines = [f"{method} {path} HTTP/1.1"]
    if host is not None:
        lines.append(f"Host: {host}")
    if auth is not None:
        lines.append(f"Authorization: {auth}")
    if body:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, *headers, "", ""]).encode("latin-1") + body

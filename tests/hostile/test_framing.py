"""Where a request ends must not be open to two readings: what is ambiguous is refused, and hides nothing."""

from __future__ import annotations

import asyncio
import secrets
from contextlib import suppress

import pytest

from tests.hostile.doors import DOORS, Door
from tests.wire.conftest import Live
from tests.wire.raw import connected, request

CHUNKED = b"Transfer-Encoding: chunked"
AMBIGUOUS: dict[str, bytes] = {
    "length and chunks": b"Content-Length: 5\r\n" + CHUNKED,
    "chunks and length": CHUNKED + b"\r\nContent-Length: 5",
    "two lengths": b"Content-Length: 5\r\nContent-Length: 6",
    "the same length twice": b"Content-Length: 5\r\nContent-Length: 5",
    "a list of lengths": b"Content-Length: 5, 5",
    "a signed length": b"Content-Length: +5",
    "a negative length": b"Content-Length: -5",
    "a length in hexadecimal": b"Content-Length: 0x5",
    "a length with an underscore": b"Content-Length: 1_0",
    "an empty length": b"Content-Length: ",
    "a length beyond 64 bits": b"Content-Length: 18446744073709551621",
    "a length of other digits": b"Content-Length: \xd9\xa5",
    "an unknown coding": b"Transfer-Encoding: xchunked",
    "chunks that are not last": b"Transfer-Encoding: chunked, gzip",
    "chunks twice": b"Transfer-Encoding: chunked, chunked",
    "two codings": CHUNKED + b"\r\nTransfer-Encoding: identity",
    "a quoted coding": b'Transfer-Encoding: "chunked"',
    "a coding after a control character": b"Transfer-Encoding: \x0bchunked",
    "a coding on a folded line": b"Transfer-Encoding:\r\n chunked",
    "a folded length": b"Content-Length: 1\r\n 5",
    "a space before the colon": b"Content-Length : 5",
    "a tab before the colon": b"Transfer-Encoding\t: chunked",
    "a name with a control character": b"Content\x00-Length: 5",
    "a value with a zero": b"X: a\x00b\r\nContent-Length: 5",
    "a lone carriage return": b"X: a\rContent-Length: 5",
    "lines that end in a line feed": b"X: a\nContent-Length: 5",
    "two hosts": b"Host: other\r\nContent-Length: 5",
    "no colon": b"Content-Length 5",
}
CHUNKS: dict[str, bytes] = {
    "a size with a prefix": b"0x5\r\nhello\r\n0\r\n\r\n",
    "a negative size": b"-1\r\nhello\r\n0\r\n\r\n",
    "a size with a sign": b"+5\r\nhello\r\n0\r\n\r\n",
    "a size beyond 64 bits": b"10000000000000005\r\nhello\r\n0\r\n\r\n",
    "a size with a space": b"5 5\r\nhello\r\n0\r\n\r\n",
    "no size": b"\r\nhello\r\n0\r\n\r\n",
    "more than the size": b"5\r\nhello, world\r\n0\r\n\r\n",
    "a size that ends in a line feed": b"5\nhello\r\n0\r\n\r\n",
    "data that ends in a line feed": b"5\r\nhello\n0\r\n\r\n",
    "a trailer that is no header": b"5\r\nhello\r\n0\r\nno colon\r\n\r\n",
    "a folded trailer": b"5\r\nhello\r\n0\r\nA: b\r\n c\r\n\r\n",
}


async def hides_nothing(live: Live, sent: bytes, name: str) -> int:
    """The status of the first answer. What comes after it must not be the answer to a hidden request."""
    async with connected(live.port) as raw:
        await raw.send(sent)
        first = await raw.answer()
        raw.close_writing()
        rest = await raw.rest()
    assert b"201 Created" not in rest
    async with live.client() as client:
        assert (await client.get(f"/v1/queues/{name}")).status_code == 404
    return first.status


def hidden() -> tuple[str, bytes]:
    name = f"hidden-{secrets.token_hex(4)}"
    return name, request("POST", "/v1/queues", b'{"name":"%b"}' % name.encode())


@pytest.mark.parametrize("header", AMBIGUOUS.values(), ids=AMBIGUOUS)
async def test_an_ambiguous_head_is_refused_and_nothing_after_it_is_read(server: Live, header: bytes) -> None:
    for door in DOORS:
        name, inner = hidden()
        head = request("POST", door.path, b"", *door.headers)[:-2]
        status = await hides_nothing(server, head + header + b"\r\n\r\n0\r\n\r\n" + inner, name)
        assert 400 <= status < 500 or status == 501, door


@pytest.mark.parametrize("chunks", CHUNKS.values(), ids=CHUNKS)
async def test_broken_chunks_are_refused_and_nothing_after_them_is_read(server: Live, chunks: bytes) -> None:
    for door in DOORS:
        name, inner = hidden()
        head = request("POST", door.path, b"", *door.headers, "Transfer-Encoding: chunked")
        assert 400 <= await hides_nothing(server, head + chunks + inner, name) < 500, door


@pytest.mark.parametrize("door", DOORS, ids=str)
async def test_trailers_have_no_say(server: Live, door: Door) -> None:
    trailers = b"Host: evil\r\nAuthorization: x\r\nX-Amz-Target: AmazonSQS.PurgeQueue\r\nOrigin: http://evil\r\n\r\n"
    head = request("POST", door.path, b"", *door.headers, "Transfer-Encoding: chunked")
    async with connected(server.port) as raw:
        first = await raw.ask(head + b"2;a=b\r\n{}\r\n0\r\n" + trailers)
        assert first.status < 500
        assert (await raw.ask(request("GET", "/livez"))).status == 200


@pytest.mark.parametrize("trailer", [b"Content-Length: 99", b"Transfer-Encoding: chunked"])
async def test_trailers_that_frame_are_refused(server: Live, trailer: bytes) -> None:
    name, inner = hidden()
    head = request("POST", "/v1/queues", b"", "Transfer-Encoding: chunked")
    assert await hides_nothing(server, head + b"2\r\n{}\r\n0\r\n" + trailer + b"\r\n\r\n" + inner, name) == 400


@pytest.mark.parametrize("piece", [b"A: b\r\n" * 1000, b"A" * 10_000], ids=["many", "long"])
async def test_endless_trailers_are_cut_off(server: Live, piece: bytes) -> None:
    head = request("POST", "/v1/queues", b"", "Transfer-Encoding: chunked")
    async with connected(server.port) as raw:
        await raw.send(head + b"2\r\n{}\r\n0\r\n")
        # Either the refusal is read, or the connection is gone before it could be.
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            for _ in range(100):
                await raw.send(piece)
            assert (await raw.answer()).status in (400, 431)
    async with connected(server.port) as raw:
        assert (await raw.ask(request("GET", "/livez"))).status == 200


@pytest.mark.parametrize(
    "line",
    [
        b"GET /livez", b"GET  /livez HTTP/1.1", b"GET /livez HTTP/1.1 ", b"GET /livez HTTP/9.9", b"GET /livez HTTP/1.2",
        b"GET\t/livez HTTP/1.1", b"get /livez HTTP/1.1", b"GET livez HTTP/1.1", b"GET /li\x00vez HTTP/1.1",
        b"GET /livez#a HTTP/1.1", b"PRI * HTTP/2.0", b"GET http://[::1 HTTP/1.1", b"GET /\xff HTTP/1.1",
        b"\x16\x03\x01",
    ],
)  # fmt: skip
async def test_a_request_line_that_is_none(server: Live, line: bytes) -> None:
    async with connected(server.port) as raw:
        await raw.send(line + b"\r\nHost: here\r\n\r\n")
        answer = await raw.answer()
        assert answer.status < 500 or answer.status == 505

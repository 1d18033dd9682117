"""An offer to change the protocol must not change where a request ends."""

from __future__ import annotations

import secrets

import pytest

from tests.hostile.doors import DOORS, Door
from tests.wire.conftest import Live
from tests.wire.raw import connected, request

OFFERS = ["h2c", "websocket", "TLS/1.0", "anything"]
LIVEZ = request("GET", "/livez")


@pytest.mark.parametrize("offer", OFFERS)
@pytest.mark.parametrize("door", DOORS, ids=str)
async def test_an_upgrade_does_not_hide_a_body(open_server: Live, door: Door, offer: str) -> None:
    name = f"smuggled-{secrets.token_hex(4)}"
    hidden = request("POST", "/v1/queues", b'{"name":"%b"}' % name.encode())
    upgrade = ("Connection: Upgrade, HTTP2-Settings", f"Upgrade: {offer}", "HTTP2-Settings: AAMA")
    async with connected(open_server.port) as raw:
        await raw.send(LIVEZ + door.request(hidden, *upgrade) + LIVEZ)
        first, second, third = [await raw.answer() for _ in range(3)]
        assert (first.status, third.status) == (200, 200)
        assert second.status == door.plain_status
        assert b'"version"' in third.body
        raw.close_writing()
        assert await raw.rest() == b""
    async with open_server.client() as client:
        assert (await client.get(f"/v1/queues/{name}")).status_code == 404


@pytest.mark.parametrize("offer", OFFERS)
async def test_a_body_arrives_whole_beside_an_offer_to_upgrade(open_server: Live, offer: str) -> None:
    name = f"upgrade-{secrets.token_hex(4)}"
    body = b'{"name":"%b"}' % name.encode()
    upgrade = ("Connection: upgrade", f"Upgrade: {offer}")
    whole = request("POST", "/v1/queues", body, *upgrade)
    async with connected(open_server.port) as raw:
        for piece in (whole[:40], whole[40:-5], whole[-5:]):
            await raw.send(piece)
        assert (await raw.answer()).status == 201
        chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n"
        head = request("POST", "/v1/queues", b"", "Transfer-Encoding: chunked", *upgrade)
        again = await raw.ask(head + chunks)
        assert again.status in (200, 409), again.body
        assert (await raw.ask(LIVEZ)).status == 200


async def test_thousands_of_offers_in_one_packet_are_answered_one_by_one(open_server: Live) -> None:
    offer = request("GET", "/livez", b"", "Connection: upgrade", "Upgrade: h2c")
    async with connected(open_server.port) as raw:
        await raw.send(offer * 2000)
        assert {(await raw.answer()).status for _ in range(2000)} == {200}


async def test_a_tunnel_is_refused(open_server: Live) -> None:
    async with connected(open_server.port) as raw:
        await raw.send(b"CONNECT here:443 HTTP/1.1\r\nHost: here:443\r\n\r\n" + LIVEZ)
        assert (await raw.answer()).status in (400, 405)
        assert await raw.closed()


async def test_a_body_beside_an_upgrade_keeps_its_limit(open_server: Live) -> None:
    head = b"POST /v1/queues HTTP/1.1\r\nHost: here\r\nAuthorization: x\r\nConnection: upgrade\r\nUpgrade: h2c\r\n"
    async with connected(open_server.port) as raw:
        await raw.send(head + b"Content-Length: 999999999\r\n\r\n")
        assert (await raw.answer()).status == 413
    async with connected(open_server.port) as raw:
        await raw.send(head + b"Transfer-Encoding: chunked\r\n\r\n" + b"40000\r\n" + b"x" * 0x40000 + b"\r\n" * 1)
        await raw.send(b"ffff\r\n" + b"x" * 0xFFFF)
        assert (await raw.answer()).status == 413

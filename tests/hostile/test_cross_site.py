"""Without authentication, a browser must not be a way in: pages of other sites can make it send requests."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from urllib.parse import urlencode

import pytest

from penstock.model import DEFAULT_TENANT
from tests.hostile.doors import DOORS, Door
from tests.wire.conftest import Live
from tests.wire.raw import Raw, connected, request

CREDENTIAL = "X-Amz-Credential=a%2F20260101%2Fus-east-1%2Fsqs%2Faws4_request&X-Amz-Signature=0"
FOREIGN = [
    ("Origin: http://evil.example",),
    ("Origin: null",),
    ("Origin: http://127.0.0.1:1",),
    ("Origin: file://",),
    ("Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors", "Sec-Fetch-Dest: image"),
    ("Sec-Fetch-Site: same-site", "Sec-Fetch-Mode: cors", "Sec-Fetch-Dest: empty"),
    ("Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: iframe"),
    ("Sec-Fetch-Site: whatever",),
]
LINK = ("Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document")

Ask = Callable[..., Awaitable[int]]


@pytest.fixture
async def queue(open_server: Live) -> str:
    name = f"target-{secrets.token_hex(4)}"
    async with open_server.client() as client:
        await client.post("/v1/queues", json={"name": name})
        await client.post(f"/v1/queues/{name}/messages", json={"message": "kept"})
    return name


async def length(live: Live, queue: str) -> int:
    return (await live.engine.queues.counts(DEFAULT_TENANT, queue)).total


async def status(raw: Raw, sent: bytes) -> int:
    return (await raw.ask(sent)).status


@pytest.mark.parametrize("headers", FOREIGN, ids=" ".join)
@pytest.mark.parametrize("door", DOORS, ids=str)
async def test_no_door_takes_a_post_for_another_site(open_server: Live, door: Door, headers: tuple[str, ...]) -> None:
    async with connected(open_server.port) as raw:
        assert await status(raw, door.request(b"{}", *headers)) == 403


@pytest.mark.parametrize("headers", FOREIGN, ids=" ".join)
@pytest.mark.parametrize("credential", ["", f"&{CREDENTIAL}"], ids=["unsigned", "presigned"])
async def test_an_image_cannot_empty_a_queue(
    open_server: Live, queue: str, headers: tuple[str, ...], credential: str
) -> None:
    for path in (f"/000000000000/{queue}", "/"):
        query = urlencode({"Action": "PurgeQueue", "QueueUrl": f"http://here/0/{queue}"}) + credential
        for method in ("GET", "HEAD"):
            async with connected(open_server.port) as raw:
                await raw.send(request(method, f"{path}?{query}", b"", *headers, auth=None))
                assert (await raw.answer(body=False)).status == 403
    assert await length(open_server, queue) == 1


@pytest.mark.parametrize("credential", ["", f"&{CREDENTIAL}"], ids=["unsigned", "presigned"])
async def test_a_link_cannot_empty_a_queue(open_server: Live, queue: str, credential: str) -> None:
    for action in ("PurgeQueue", "DeleteQueue", "SendMessage", "ReceiveMessage"):
        async with connected(open_server.port) as raw:
            path = f"/000000000000/{queue}?Action={action}&MessageBody=x{credential}"
            assert await status(raw, request("GET", path, b"", *LINK, auth=None)) == 403
    assert await length(open_server, queue) == 1


async def test_an_unsigned_get_changes_nothing_even_without_the_headers_of_a_browser(
    open_server: Live, queue: str
) -> None:
    async with connected(open_server.port) as raw:
        assert await status(raw, request("GET", f"/000000000000/{queue}?Action=PurgeQueue", auth=None)) == 403
        assert await status(raw, request("GET", "/?Action=ListQueues", auth=None)) == 200
        assert await length(open_server, queue) == 1
        assert (
            await status(raw, request("GET", f"/000000000000/{queue}?Action=PurgeQueue&{CREDENTIAL}", auth=None)) == 200
        )
    assert await length(open_server, queue) == 0


@pytest.mark.parametrize(
    "path", ["/", "/docs", "/livez", "/?Action=ListQueues", "/?Action=ConfirmSubscription&Token=x"]
)
async def test_a_link_to_a_page_or_a_confirmation_can_be_followed(open_server: Live, path: str) -> None:
    async with connected(open_server.port) as raw:
        assert (await raw.ask(request("GET", path, b"", *LINK, auth=None))).status != 403


@pytest.mark.parametrize(
    "headers",
    [
        (),
        ("Sec-Fetch-Site: none", "Sec-Fetch-Mode: navigate"),
        ("Sec-Fetch-Site: same-origin", "Origin: http://here"),
        ("Origin: http://HERE:80",),
        ("Origin: https://here",),
    ],
    ids=" ".join,
)
async def test_programs_and_our_own_pages_keep_working(open_server: Live, headers: tuple[str, ...]) -> None:
    async with connected(open_server.port) as raw:
        body = b'{"name":"own-%b"}' % secrets.token_hex(4).encode()
        assert await status(raw, request("POST", "/v1/queues", body, *headers)) == 201


@pytest.mark.parametrize("version", ["1.1", "1.0"])
async def test_a_name_that_resolves_to_this_machine_is_not_a_way_in(open_server: Live, version: str) -> None:
    """A page can have its own name resolve to the loopback: then its origin and the Host header agree."""
    sent = request("POST", "/v1/queues", b'{"name":"rebound"}', "Origin: http://evil.example", host="evil.example")
    async with connected(open_server.port) as raw:
        assert await status(raw, sent.replace(b"HTTP/1.1", f"HTTP/{version}".encode())) == 403


async def test_what_decides_about_the_site_is_said_once(open_server: Live) -> None:
    twice = request("GET", "/livez", b"", "Origin: http://here", "Origin: http://evil.example")
    async with connected(open_server.port) as raw:
        assert await status(raw, twice) == 400


async def test_with_tokens_an_origin_means_nothing(token_server: Live) -> None:
    async with connected(token_server.port) as raw:
        assert await status(raw, request("GET", "/livez", b"", "Origin: http://evil.example")) == 200

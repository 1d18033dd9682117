"""What the head of a request may be, and whose names a server answers to."""

from __future__ import annotations

import pytest

from penstock.wire.http.limits import HttpLimits
from penstock.wire.http.messages import Response
from tests.wire.conftest import Live, running
from tests.wire.http.parts import SEND, route
from tests.wire.raw import Raw, connected, request


async def test_length_and_transfer_encoding_together_are_refused(raw: Raw) -> None:
    answer = await raw.ask(request("POST", SEND, b"{}", "Transfer-Encoding: chunked"))

    assert answer.status == 400
    assert answer.headers["connection"] == "close"
    assert await raw.closed()


@pytest.mark.parametrize("path", ["/livez", "/docs"])
async def test_a_request_without_host_is_refused_whoever_serves_the_path(raw: Raw, path: str) -> None:
    answer = await raw.ask(request("GET", path, host=None))

    assert (answer.status, answer.json["code"], answer.json["field"]) == (400, "HostRequired", "host")


HOME = HttpLimits(home_only=True, hosts=frozenset({"queues.example.org"}))


@pytest.mark.parametrize("path", ["/livez", "/docs", "/v1/queues"])
@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:9324", "127.0.0.1.evil.example", "localhost.evil.example"]
)
async def test_a_server_at_home_does_not_answer_to_a_strangers_name(host: str, path: str) -> None:
    async with running(limits=HOME) as live, connected(live.port) as raw:
        answer = await raw.ask(request("GET", path, host=host))

        assert (answer.status, answer.json["code"], answer.json["field"]) == (403, "HostNotAllowed", "host")


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LOCALHOST:9324",
        "127.0.0.1:9324",
        "[::1]:9324",
        "penstock:9324",
        "sqs.localhost",
        "queues.example.org",
    ],
)
async def test_a_server_at_home_answers_to_names_of_its_machine(host: str) -> None:
    async with running(limits=HOME) as live, connected(live.port) as raw:
        assert (await raw.ask(request("GET", "/livez", host=host))).status == 200


async def test_http_1_0_needs_no_host_and_closes(raw: Raw) -> None:
    answer = await raw.ask(b"GET /livez HTTP/1.0\r\n\r\n")

    assert answer.status == 200
    assert await raw.closed()


async def test_another_version_is_refused(raw: Raw) -> None:
    assert (await raw.ask(b"GET /livez HTTP/2.0\r\nHost: here\r\n\r\n")).status in (400, 505)


@pytest.mark.parametrize("path", ["/livez", "/docs"])
async def test_a_header_of_a_megabyte_is_refused(raw: Raw, path: str) -> None:
    await raw.send(request("GET", path, b"", "X-Long: " + "a" * 1_000_000))
    answer = await raw.answer()

    assert answer.status == 431
    assert await raw.closed()


async def test_an_unfinished_header_is_refused_as_soon_as_it_is_too_long(raw: Raw) -> None:
    await raw.send(b"GET /livez HTTP/1.1\r\nHost: here\r\nX-Long: ")
    for _ in range(60):
        await raw.send(b"a" * 1000)

    assert (await raw.answer()).status == 431


async def test_an_endless_trailer_is_refused() -> None:
    async with running(extra=[route("/slow", lambda _: Response())]) as live, connected(live.port) as raw:
        await raw.send(request("POST", "/slow", b"", "Transfer-Encoding: chunked") + b"1\r\nx\r\n0\r\nX-Long: ")
        for _ in range(60):
            await raw.send(b"a" * 1000)

        assert (await raw.answer()).status == 431


async def test_twenty_thousand_headers_are_refused(raw: Raw) -> None:
    await raw.send(request("GET", "/livez", b"", *(f"X-{number}: 1" for number in range(20_000))))

    assert (await raw.answer()).status == 431


async def test_a_hundred_headers_pass_and_one_more_does_not(server: Live) -> None:
    for count, status in ((98, 200), (99, 431)):
        async with connected(server.port) as raw:
            assert (await raw.ask(request("GET", "/livez", b"", *(f"X-{n}: 1" for n in range(count))))).status == status


async def test_header_bytes_are_counted_when_they_come_in_one_packet(raw: Raw) -> None:
    answer = await raw.ask(request("GET", "/livez", b"", *(f"X-{number}: {'a' * 1000}" for number in range(40))))

    assert answer.status == 431


@pytest.mark.parametrize("path", ["/livez", "/docs"])
async def test_a_long_url_is_refused(raw: Raw, path: str) -> None:
    assert (await raw.ask(request("GET", f"{path}?{'a' * 9000}"))).status == 414


@pytest.mark.parametrize("name", ["Host: there", "Authorization: Bearer y"])
async def test_what_decides_about_a_request_is_said_once(raw: Raw, name: str) -> None:
    answer = await raw.ask(request("GET", "/v1/queues", b"", name))

    assert (answer.status, answer.json["code"]) == (400, "RepeatedHeader")


async def test_only_chunked_is_understood(raw: Raw) -> None:
    assert (await raw.ask(request("POST", SEND, b"", "Transfer-Encoding: gzip, chunked"))).status == 501


@pytest.mark.parametrize("garbage", [b"\x16\x03\x01\x02\x00\x01\x00", b"GET\r\n\r\n", b"get / HTTP/1.1\r\n\r\n"])
async def test_garbage_is_answered_with_400(raw: Raw, garbage: bytes) -> None:
    answer = await raw.ask(garbage)

    assert (answer.status, answer.json["code"]) == (400, "InvalidRequest")
    assert await raw.closed()

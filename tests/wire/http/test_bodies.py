"""Bodies: counted, put together, asked for, refused."""

from __future__ import annotations

from penstock.wire.http.limits import HttpLimits
from penstock.wire.http.messages import Request, Response
from tests.wire.conftest import running
from tests.wire.http.parts import LIVEZ, route, traffic, until
from tests.wire.raw import Raw, connected, request


async def test_a_body_is_refused_by_its_length_before_it_is_sent(raw: Raw) -> None:
    answer = await raw.ask(request("POST", "/v1/queues", b"", "Content-Length: 300000", "Expect: 100-continue"))

    assert (answer.status, answer.json["field"]) == (413, "body")
    assert answer.headers["connection"] == "close"


async def test_the_refusal_of_a_large_body_reaches_a_client_that_goes_on_sending(raw: Raw) -> None:
    await raw.send(request("POST", "/v1/queues", b"x" * 3_000_000))

    assert (await raw.answer()).status == 413


async def test_a_chunked_body_is_counted_as_it_comes(raw: Raw) -> None:
    await raw.send(request("POST", "/v1/queues", b"", "Transfer-Encoding: chunked"))
    for _ in range(30):
        await raw.send(b"2710\r\n" + b"x" * 10_000 + b"\r\n")

    assert (await raw.answer()).status == 413


async def test_a_body_for_the_web_pages_is_capped_too(raw: Raw) -> None:
    assert (await raw.ask(request("POST", "/docs", b"", "Content-Length: 100000"))).status == 413


async def test_chunks_are_put_together() -> None:
    seen: list[bytes] = []

    def handler(request: Request) -> Response:
        seen.append(bytes(request.body))
        return Response()

    async with running(extra=[route("/echo", handler)]) as live, connected(live.port) as raw:
        head = request("POST", "/echo", b"", "Transfer-Encoding: chunked")
        answer = await raw.ask(head + b"3\r\nabc\r\n2;note=1\r\nde\r\n1\r\nf\r\n0\r\nX-Trailer: 1\r\n\r\n")

        assert (answer.status, seen) == (200, [b"abcdef"])
        assert (await raw.ask(LIVEZ)).status == 200
        assert traffic(live).buffered == 0


async def test_a_client_that_expects_to_be_asked_for_the_body_is_asked() -> None:
    echo = route("/echo", lambda request: Response(200, bytes(request.body)))
    async with running(extra=[echo]) as live, connected(live.port) as raw:
        await raw.send(request("POST", "/echo", b"", "Content-Length: 2", "Expect: 100-continue"))

        assert (await raw.answer()).status == 100
        assert (await raw.ask(b"ok")).body == b"ok"


async def test_large_bodies_share_one_budget() -> None:
    limits = HttpLimits(buffered_bytes=1_000_000)
    big = route("/big", lambda _: Response(), body_bytes=10_000_000)
    async with running(limits=limits, extra=[big]) as live, connected(live.port) as raw:
        await raw.send(request("POST", "/big", b"x" * 3_000_000))

        assert (await raw.answer()).status == 503
        raw.hang_up()
        await until(lambda: traffic(live).buffered == 0)

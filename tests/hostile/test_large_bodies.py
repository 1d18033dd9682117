"""A large body costs memory and time: who sends it is asked first, and what it may hold is bounded."""

from __future__ import annotations

import asyncio
import json
import secrets
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import thread_time

import pytest

from penstock.auth import Mode
from penstock.model import DEFAULT_TENANT, Scope
from penstock.wire.http.limits import HttpLimits
from tests.hostile.doors import DOORS, Door
from tests.wire.conftest import Live, running
from tests.wire.http.parts import traffic, until
from tests.wire.raw import connected, request

SIZE = 16_500_000
PROMPT_S = 0.25
"""Of processor time, which other tests on the machine do not lengthen."""
FORM = "Content-Type: application/x-www-form-urlencoded"
SIGNED = "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20260101/us-east-1/sqs/aws4_request, SignedHeaders=host, Signature=0"
LARGE = [door for door in DOORS if door.name in ("jobs", "sqs-json", "sns-json", "query", "queue-url")]
LARGE.append(Door("rest", "/v1/queues/q/messages"))


@asynccontextmanager
async def loop_delays() -> AsyncIterator[list[float]]:
    """How much processor time the event loop spent before it came back to a caller that asks for its next turn."""
    delays: list[float] = []

    async def measure() -> None:
        while True:
            before = thread_time()
            await asyncio.sleep(0.001)
            delays.append(thread_time() - before)

    task = asyncio.create_task(measure())
    try:
        yield delays
    finally:
        task.cancel()


def head(door: Door, size: int, authorization: str | None = None, *headers: str) -> bytes:
    length = f"Content-Length: {size}"
    return request("POST", door.path, b"", length, *door.headers, *headers, auth=authorization)


@pytest.mark.parametrize("mode", [Mode.OPEN, Mode.TOKEN, Mode.SIGV4])
@pytest.mark.parametrize("door", LARGE, ids=str)
async def test_a_large_body_of_nobody_is_refused_by_its_head(door: Door, mode: Mode) -> None:
    async with running(mode) as live, connected(live.port) as raw:
        answer = await raw.ask(head(door, 1_000_000, None, "Expect: 100-continue"))

        assert answer.status in (401, 403)
        assert traffic(live).buffered == 0


@pytest.mark.parametrize("mode", [Mode.TOKEN, Mode.SIGV4])
@pytest.mark.parametrize("door", LARGE, ids=str)
@pytest.mark.parametrize("authorization", ["Bearer pst_00000000_x", SIGNED], ids=["token", "signature"])
async def test_a_large_body_of_an_unknown_caller_is_refused_by_its_head(
    door: Door, mode: Mode, authorization: str
) -> None:
    async with running(mode) as live, connected(live.port) as raw:
        answer = await raw.ask(head(door, 1_000_000, authorization))

        assert answer.status in (400, 401, 403), answer.body
        assert traffic(live).buffered == 0


@pytest.mark.parametrize("door", LARGE, ids=str)
async def test_chunks_of_nobody_are_refused_by_their_head(door: Door) -> None:
    async with running(Mode.TOKEN) as live, connected(live.port) as raw:
        sent = request("POST", door.path, b"", "Transfer-Encoding: chunked", *door.headers, auth=None)

        assert (await raw.ask(sent)).status in (401, 403)


async def test_a_small_body_of_nobody_leaves_the_connection_open() -> None:
    async with running(Mode.TOKEN) as live, connected(live.port) as raw:
        for _ in range(2):
            assert (await raw.ask(request("POST", "/v1/queues", b'{"name":"q"}', auth=None))).status == 401


async def test_a_large_body_of_a_known_caller_is_taken() -> None:
    async with running(Mode.TOKEN) as live:
        _, token = await live.engine.tenants.create_token(DEFAULT_TENANT, "sender", frozenset(Scope))
        await live.engine.queues.create(DEFAULT_TENANT, "q", {})
        body = b'{"message":"%b"}' % (b"x" * 900_000)
        for _ in range(2):
            async with connected(live.port) as raw:
                sent = request("POST", "/v1/queues/q/messages", body, "Expect: 100-continue", auth=f"Bearer {token}")
                start, rest = sent[: -len(body)], body
                assert (await raw.ask(start)).status == 100
                await raw.send(rest)
                assert (await raw.answer()).status == 201


async def test_a_form_of_escapes_without_credentials_takes_no_memory(open_server: Live) -> None:
    tracemalloc.start()
    try:
        async with loop_delays() as delays, connected(open_server.port) as raw:
            await raw.send(head(Door("query", "/", (FORM,)), SIZE) + b"Action=SendMessage&MessageBody=")
            assert (await raw.answer()).status == 403
            assert await raw.rest() == b""
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()
    assert max(delays, default=0) < PROMPT_S


@pytest.mark.parametrize("piece", [b"%41", b"%25", b"a", b"&a=", b"&a.1.b=%41", b"%", b"+", b"."])
async def test_a_large_form_with_credentials_holds_nobody_up(open_server: Live, piece: bytes) -> None:
    start = b"Action=SendMessage&QueueUrl=http%3A%2F%2Fhere%2F0%2Fnowhere&MessageBody="
    body = start + piece * ((SIZE - len(start)) // len(piece))
    async with connected(open_server.port) as raw:
        await raw.send(head(Door("query", "/", (FORM,)), len(body), "x") + body)
        async with loop_delays() as delays:
            assert (await raw.answer()).status in (400, 413)
    assert max(delays, default=0) < PROMPT_S


@pytest.mark.parametrize(
    ("action", "field", "piece"),
    [
        ("SendMessageBatch", "Entries", b"{}"),
        ("SendMessageBatch", "Entries", b'{"Id":"ab"}'),
        ("GetQueueAttributes", "AttributeNames", b'"ab"'),
        ("TagQueue", "Tags", b"[]"),
        ("SendMessageBatch", "Other", b"1"),
    ],
)
async def test_a_large_list_in_json_is_refused_before_it_is_read(
    open_server: Live, action: str, field: str, piece: bytes
) -> None:
    body = b'{"QueueUrl":"q","%b":[' % field.encode() + b",".join([piece] * (16_000_000 // (len(piece) + 1))) + b"]}"
    door = Door("json", "/", (f"X-Amz-Target: AmazonSQS.{action}",))
    tracemalloc.start()
    try:
        async with connected(open_server.port) as raw:
            await raw.send(head(door, len(body), "x") + body)
            assert (await raw.answer()).status in (400, 413)
        assert tracemalloc.get_traced_memory()[1] < 150_000_000
    finally:
        tracemalloc.stop()


async def test_a_large_message_that_holds_json_is_sent(open_server: Live) -> None:
    name = f"large-{secrets.token_hex(4)}"
    await open_server.engine.queues.create(DEFAULT_TENANT, name, {})
    inner = json.dumps([{"a": [1, 2, {"b": 'quoted "and" back\\slashed'}]}] * 15_000)
    body = json.dumps({"QueueUrl": name, "MessageBody": inner}).encode()
    door = Door("json", "/", ("X-Amz-Target: AmazonSQS.SendMessage",))
    async with connected(open_server.port) as raw:
        await raw.send(head(door, len(body), "x") + body)
        answer = await raw.answer()
    assert answer.status == 200, answer.body[:300]


async def test_parked_bodies_give_way_to_a_send() -> None:
    limits = HttpLimits(buffered_bytes=600_000, parked_s=0.05, sweep_s=0.05)
    async with running(limits=limits) as live:
        await live.engine.queues.create(DEFAULT_TENANT, "q", {})
        parked = request("POST", "/v1/queues/q/messages", b"", "Content-Length: 1000000") + b" " * 190_000
        async with connected(live.port) as one, connected(live.port) as two, connected(live.port) as three:
            for raw in (one, two, three):
                await raw.send(parked)
            await until(lambda: traffic(live).buffered == 570_000)
            await asyncio.sleep(0.1)
            body = b'{"message":"%b"}' % (b"x" * 500_000)
            async with connected(live.port) as sender:
                await sender.send(request("POST", "/v1/queues/q/messages", body))
                assert (await sender.answer()).status == 201
            assert (await one.answer()).status == 503
    assert traffic(live).buffered == 0


async def test_slow_readers_are_dropped_when_their_answers_fill_the_memory() -> None:
    limits = HttpLimits(unsent_bytes=8_000_000)
    async with running(limits=limits) as live:
        await live.engine.queues.create(DEFAULT_TENANT, "q", {})
        async with live.client() as client:
            for _ in range(8):
                await client.post("/v1/queues/q/messages", json={"message": "x" * 1_000_000})
        ask = request("GET", "/v1/queues/q/messages?peek=true&max=8")
        slow = [await asyncio.open_connection("127.0.0.1", live.port, limit=1024) for _ in range(6)]
        try:
            for _, writer in slow:
                writer.write(ask)
            await until(lambda: len(traffic(live).stalled) > 0)
            async with live.client() as client:
                assert len((await client.get("/v1/queues/q/messages?peek=true&max=8")).json()) == 8
            held = sum(one.transport.get_write_buffer_size() for one in traffic(live).stalled)
            assert held <= 8_000_000
        finally:
            for _, writer in slow:
                writer.transport.abort()

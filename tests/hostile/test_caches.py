"""What is remembered is bounded by bytes, and a caller's own long texts are not remembered at all."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from penstock.auth import Authenticator, Mode, new_secret
from penstock.clock import FakeClock
from penstock.engine.bounded import BoundedCache
from penstock.model import DEFAULT_TENANT, Scope, Token
from penstock.wire.http.bodies import _remembered_query
from penstock.wire.sqs.names import _remembered_name
from penstock.wire.sqs.receive_attempts import MOST_BYTES
from tests.plain import PLAIN
from tests.wire.conftest import Live, running


@pytest.fixture
async def http(server: Live) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=server.url, trust_env=False, verify=PLAIN) as http:
        yield http


def test_a_cache_forgets_its_oldest_when_it_is_full() -> None:
    cache: BoundedCache[str, str] = BoundedCache(10_000)
    for number in range(100):
        cache.put(str(number), "x", 800)

    assert len(cache) == 10
    assert cache.bytes == 10_000
    assert cache.get("89") is None
    assert cache.pop("99") == "x"
    assert cache.bytes == 9_000


def test_a_cache_does_not_keep_what_would_fill_it() -> None:
    cache: BoundedCache[str, str] = BoundedCache(10_000)
    cache.put("small", "x", 1)
    cache.put("large", "x", 5_000)

    assert (cache.get("small"), cache.get("large")) == ("x", None)


async def test_a_long_queue_url_is_not_remembered(server: Live, http: httpx.AsyncClient) -> None:
    before = _remembered_name.cache_info().currsize
    for number in range(5):
        url = f"http://here/{number}{'x' * 100_000}/nowhere"
        head = {"authorization": "x", "x-amz-target": "AmazonSQS.GetQueueAttributes"}
        answer = await http.post("/", json={"QueueUrl": url}, headers=head)
        assert answer.status_code == 400

    assert _remembered_name.cache_info().currsize == before


async def test_a_long_query_is_not_remembered(server: Live) -> None:
    before = _remembered_query.cache_info().currsize  # type: ignore[attr-defined]
    async with server.client() as client:
        for number in range(5):
            assert (await client.get(f"/v1/queues?prefix={number}{'x' * 1000}")).status_code in (200, 400)

    assert _remembered_query.cache_info().currsize == before  # type: ignore[attr-defined]


async def test_attempts_at_fifo_queues_are_remembered_within_bounds(clock: FakeClock) -> None:
    from penstock.engine.queues.messages import Messages
    from penstock.model import Message, Receive
    from penstock.wire.sqs.queue_cache import QueueCache
    from penstock.wire.sqs.receive_attempts import Attempts

    async with running(clock=clock) as live:
        messages: Messages = live.engine.messages
        attempts = Attempts(messages, QueueCache(live.engine.queues), clock)
        now = clock.now()
        large = Message(1, 1, "x" * 1_000_000, False, 0, 1, now, now, now, "g", None, None, None, None, None)
        for number in range(200):
            wanted = Receive(tenant=DEFAULT_TENANT, queue="q.fifo", limit=1)
            attempts.remember(wanted, f"attempt-{number}", [large])

        assert 0 < attempts._given.bytes <= MOST_BYTES
        assert len(attempts._given) < 20


async def test_spaces_around_a_token_are_not_remembered(clock: FakeClock) -> None:
    text, prefix, sha256 = new_secret()
    token = Token(
        id=1, tenant=DEFAULT_TENANT, tenant_name="default", name="t", prefix=prefix, sha256=sha256,
        scopes=frozenset(Scope), queues="*",
        created_at=clock.now(), expires_at=None, revoked_at=None, last_seen_at=None,
    )  # fmt: skip

    async def find(prefix: str) -> list[Token]:
        return [token]

    async def saw(token_id: int) -> None:
        pass

    authenticator = Authenticator(Mode.TOKEN, clock, find, saw)
    for number in range(100):
        await authenticator.principal(f"Bearer {' ' * number}{text}{' ' * number}")

    assert len(authenticator._verdicts) == 1


async def test_spaces_in_the_header_do_not_raise_the_rate(clock: FakeClock) -> None:
    async with running(Mode.TOKEN, clock=clock, rate_per_token=5) as live:
        _, token = await live.engine.tenants.create_token(DEFAULT_TENANT, "fast", frozenset(Scope))
        async with httpx.AsyncClient(base_url=live.url, trust_env=False, verify=PLAIN) as http:
            answers = [
                (await http.get("/jobs", headers={"authorization": f"Bearer {' ' * number}{token}"})).status_code
                for number in range(20)
            ]

    assert answers.count(200) == 5
    assert answers.count(429) == 15

"""Streams and queues that are dropped while others use them: requests find them or do not, and nothing fails."""

from __future__ import annotations

import asyncio
import secrets

import asyncpg
import httpx
import pytest

from tests.wire.conftest import Live, build_store, running

ROUNDS = 10
FEW_OR_ALL = pytest.mark.parametrize("rounds", [3, pytest.param(ROUNDS, marks=pytest.mark.slow)])
BLOCKED = "select exists (select from pg_stat_activity where pg_backend_pid() = any (pg_blocking_pids(pid)))"


@FEW_OR_ALL
async def test_a_stream_that_comes_and_goes(request: pytest.FixtureRequest, rounds: int) -> None:
    stream = f"/v1/streams/gone-{secrets.token_hex(4)}"
    paths = ["", "/health", "/consumers", "/dead-letters", "/consumers/c/batch"]
    async with running(store=build_store("postgres", request)) as live, live.client() as client:
        ended = asyncio.Event()
        statuses: set[int] = set()

        async def look(path: str) -> None:
            while not ended.is_set():
                statuses.add((await client.get(f"{stream}{path}")).status_code)

        async def send() -> None:
            while not ended.is_set():
                statuses.add((await client.post(f"{stream}/events", json={"type": "t", "payload": 1})).status_code)

        tasks = [asyncio.create_task(look(path)) for path in paths] + [asyncio.create_task(send())]
        for _ in range(rounds):
            await client.post("/v1/streams", json={"name": stream.rpartition("/")[2]})
            await client.post(f"{stream}/consumers", json={"name": "c"})
            statuses.add((await client.delete(stream)).status_code)
        ended.set()
        await asyncio.gather(*tasks)
    assert statuses <= {200, 201, 204, 404}


async def test_a_queue_that_comes_and_goes(open_server: Live) -> None:
    queue = f"/v1/queues/gone-{secrets.token_hex(4)}"
    statuses: set[int] = set()
    async with open_server.client() as client:
        ended = asyncio.Event()

        async def use(client: httpx.AsyncClient) -> None:
            while not ended.is_set():
                statuses.add((await client.post(f"{queue}/messages", json={"message": 1})).status_code)
                statuses.add((await client.get(f"{queue}/messages")).status_code)
                statuses.add((await client.get(queue)).status_code)

        tasks = [asyncio.create_task(use(client)) for _ in range(2)]
        for _ in range(ROUNDS):
            await client.post("/v1/queues", json={"name": queue.rpartition("/")[2]})
            statuses.add((await client.delete(queue)).status_code)
        ended.set()
        await asyncio.gather(*tasks)
    assert statuses <= {200, 201, 204, 404}


async def test_a_consumer_that_joins_one_stream_while_it_leaves_another(
    request: pytest.FixtureRequest, postgres_dsn: str
) -> None:
    name = f"c-{secrets.token_hex(4)}"
    left, joined = (f"shared-{secrets.token_hex(4)}" for _ in range(2))
    async with running(store=build_store("postgres", request)) as live, live.client() as client:
        for stream in (left, joined):
            await client.post("/v1/streams", json={"name": stream})
        await client.post(f"/v1/streams/{left}/consumers", json={"name": name})
        joining = await asyncpg.connect(postgres_dsn)
        try:
            async with joining.transaction():
                await joining.fetchval("select pgque.register_consumer($1, $2)", joined, name)
                leaving = asyncio.create_task(client.delete(f"/v1/streams/{left}/consumers/{name}"))
                async with asyncio.timeout(10):
                    while not await joining.fetchval(BLOCKED):  # noqa: ASYNC110
                        await asyncio.sleep(0.01)
            assert (await leaving).status_code == 204
        finally:
            await joining.close()
        found = await client.get(f"/v1/streams/{joined}/consumers")
    assert [consumer["name"] for consumer in found.json()] == [name]

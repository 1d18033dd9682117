"""Jobs enqueued at the same time share requests, and nobody pays for another's mistake."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from penstock import errors
from penstock.client import AsyncClient, Retries
from penstock.client.exchange import Answer, Failure, Request
from tests.client.fakes import answer, fault


class Store:
    """Refuses whole requests that hold a job for the queue `bad`."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.trouble: Answer | Failure | None = None

    async def send(self, request: Request) -> Answer | Failure:
        await asyncio.sleep(0)
        body: Any = json.loads(request.body or b"")
        jobs = body["jobs"] if request.path == "/v1/jobs/batch" else [body]
        self.sizes.append(len(jobs))
        if self.trouble is not None:
            return self.trouble
        if any(job["queue_name"] == "bad" for job in jobs):
            return fault(400, "Invalid", "a bad queue")
        ids = [str(job["payload"]["n"]) for job in jobs]
        return answer(201, {"job_ids": ids} if request.path == "/v1/jobs/batch" else {"job_id": ids[0]})

    async def close(self) -> None:
        pass


def client_of(store: Store) -> AsyncClient:
    return AsyncClient("http://test", "t", transport=store, retries=Retries(attempts=1))


async def test_a_lone_job_goes_alone() -> None:
    store = Store()

    assert await client_of(store).jobs.enqueue("q", {"n": 1}) == "1"
    assert store.sizes == [1]


async def test_those_that_come_meanwhile_go_together() -> None:
    store = Store()
    client = client_of(store)

    ids = await asyncio.gather(*(client.jobs.enqueue("q", {"n": n}) for n in range(100)))

    assert ids == [str(n) for n in range(100)]
    assert len(store.sizes) <= 2


async def test_one_bad_job_does_not_fail_its_neighbours() -> None:
    client = client_of(Store())

    made = await asyncio.gather(
        client.jobs.enqueue("q", {"n": 1}),
        client.jobs.enqueue("bad", {"n": 2}),
        client.jobs.enqueue("q", {"n": 3}),
        return_exceptions=True,
    )

    assert (made[0], made[2]) == ("1", "3")
    assert isinstance(made[1], errors.Invalid)


@pytest.mark.parametrize("trouble", [Failure("cut off", sent=True), answer(500)], ids=["no answer", "500"])
async def test_jobs_that_may_be_stored_are_not_tried_one_by_one(trouble: Answer | Failure) -> None:
    store = Store()
    store.trouble = trouble
    client = client_of(store)

    made = await asyncio.gather(*(client.jobs.enqueue("q", {"n": n}) for n in range(9)), return_exceptions=True)

    assert all(isinstance(found, errors.PenstockError) for found in made)
    assert sum(store.sizes) == 9


async def test_a_caller_that_leaves_holds_nobody_up() -> None:
    client = client_of(Store())
    calls = [asyncio.create_task(client.jobs.enqueue("q", {"n": n})) for n in range(3)]
    await asyncio.sleep(0)
    calls[1].cancel()

    assert [await calls[0], await calls[2]] == ["0", "2"]


async def test_closing_waits_for_what_is_under_way() -> None:
    store = Store()
    client = client_of(store)
    call = asyncio.create_task(client.jobs.enqueue("q", {"n": 1}))
    await asyncio.sleep(0)

    await client.close()

    assert await call == "1"

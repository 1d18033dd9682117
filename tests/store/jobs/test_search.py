"""Finding jobs by a value of their payload, on every store."""

from __future__ import annotations

import json
from uuid import uuid4

import pytest

from penstock.clock import FakeClock
from penstock.engine import Engine
from penstock.errors import Invalid
from penstock.model import TenantId
from penstock.model.jobs import Completion, JobStatus, LeaseRequest, NewJob, has_value
from penstock.store import Store
from penstock.store.postgres.store import PostgresStore


@pytest.fixture
def engine(store: Store, clock: FakeClock) -> Engine:
    return Engine(store, clock)


async def enqueue(engine: Engine, tenant: TenantId, payload: object, queue: str = "mail") -> str:
    text = payload if isinstance(payload, str) else json.dumps(payload)
    return (await engine.jobs.enqueue(NewJob(tenant=tenant, queue=queue, payload=text))).id


async def found(engine: Engine, tenant: TenantId, value: str, **filters: object) -> list[str]:
    return [job.id for job in await engine.jobs.find_jobs(tenant, value, **filters)]  # type: ignore[arg-type]


async def test_a_job_is_found_by_any_value_of_its_payload(engine: Engine, tenant: TenantId) -> None:
    deep = await enqueue(engine, tenant, {"to": "ada", "more": [{"order": 4711}, True], "big": 12345678901234567890})
    other = await enqueue(engine, tenant, {"to": "grace", "ada": 1}, "invoices")

    for value in ("ada", "4711", "12345678901234567890", "true"):
        assert await found(engine, tenant, value) == [deep], value
    assert await found(engine, tenant, "grace") == [other]
    assert await found(engine, tenant, "grace", queue="mail") == []
    assert await found(engine, tenant, "ad") == []
    assert await found(engine, tenant, "to") == []


async def test_filters_and_pages_apply_to_a_search(engine: Engine, tenant: TenantId) -> None:
    ids = [await enqueue(engine, tenant, {"to": "ada", "n": number}, f"q{number % 2}") for number in range(6)]
    [job] = await engine.jobs.lease(LeaseRequest(tenant=tenant, queue="q0", lease_s=60, workers=["w"]))
    await engine.jobs.complete(Completion(tenant=tenant, id=job.id, token=job.token))

    newest = list(reversed(ids))
    assert await found(engine, tenant, "ada") == newest
    assert await found(engine, tenant, "ada", limit=2) == newest[:2]
    assert await found(engine, tenant, "ada", before=newest[1], limit=2) == newest[2:4]
    assert await found(engine, tenant, "ada", status=JobStatus.COMPLETED) == [job.id]
    assert len(await found(engine, tenant, "ada", status=JobStatus.PENDING)) == 5


async def test_another_tenant_finds_nothing(engine: Engine, store: Store, tenant: TenantId, clock: FakeClock) -> None:
    stranger = (await store.create_tenant(f"stranger-{uuid4().hex}", clock.now())).id
    await enqueue(engine, tenant, {"to": "ada"})

    assert await found(engine, stranger, "ada") == []


async def test_values_have_bounds(engine: Engine, tenant: TenantId) -> None:
    for value in ("", "x" * 1001):
        with pytest.raises(Invalid):
            await engine.jobs.find_jobs(tenant, value)


async def test_jobs_in_blocks_are_found_and_forgotten(
    postgres_store: PostgresStore, monkeypatch: pytest.MonkeyPatch, clock: FakeClock
) -> None:
    monkeypatch.setattr("penstock.store.postgres.jobs.jobs.BLOCK_SIZE", 3)
    await postgres_store.open()
    engine = Engine(postgres_store, clock)
    tenant = (await postgres_store.create_tenant(f"tenant-{uuid4().hex}", clock.now())).id
    ids = [await enqueue(engine, tenant, {"n": 100_000 + number, "all": "same"}) for number in range(8)]
    connections = postgres_store._connections
    blocks = (
        "select count(*) from penstock.job_blocks as b"
        " join penstock.job_queues as q on q.id = b.queue_id and q.tenant_id = $1"
    )

    async def count() -> int:
        found: int = await connections.call(lambda connection: connection.fetchval(blocks, tenant), True)
        return found

    # Three rounds: a number is seen, is given a horizon, and is settled when nothing older runs.
    for _ in range(200):
        await engine.jobs.index_values()
        if await count() == 2:
            break

    assert await count() == 2
    for number, job in enumerate(ids):
        assert await found(engine, tenant, str(100_000 + number)) == [job]
    assert await found(engine, tenant, "same") == list(reversed(ids))
    assert await found(engine, tenant, "same", limit=4) == list(reversed(ids))[:4]
    assert await found(engine, tenant, "other") == []


def test_values_are_texts_numbers_and_booleans() -> None:
    document = '{"a": ["x", 1.50, true, null, {"b": 18446744073709551617}]}'
    for value in ("x", "1.50", "true", "18446744073709551617"):
        assert has_value(document, value), value
    for value in ("a", "b", "1.5", "null", "[", ""):
        assert not has_value(document, value), value
    assert not has_value("no json", "no json")

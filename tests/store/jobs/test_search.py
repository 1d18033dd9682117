"""Finding jobs by a value of their payload, on every store."""

from __future__ import annotations

import json
from typing import Any
from uuid import uuid4

import pytest

from penstock.clock import FakeClock
from penstock.engine import Engine
from penstock.errors import Invalid
from penstock.model import TenantId
from penstock.model.jobs import Completion, JobFilter, JobStatus, LeaseRequest, NewJob, has_value
from penstock.store import Store
from penstock.store.postgres.store import PostgresStore


@pytest.fixture
def engine(store: Store, clock: FakeClock) -> Engine:
    return Engine(store, clock)


async def enqueue(engine: Engine, tenant: TenantId, payload: object, queue: str = "mail") -> str:
    text = payload if isinstance(payload, str) else json.dumps(payload)
    return (await engine.jobs.enqueue(NewJob(tenant=tenant, queue=queue, payload=text))).id


async def found(
    engine: Engine, tenant: TenantId, value: str | None, *, before: str | None = None, limit: int = 50, **filters: Any
) -> list[str]:
    wanted = JobFilter(value=value, **filters)
    return [job.id for job in (await engine.jobs.find_jobs(tenant, wanted, before=before, limit=limit)).jobs]


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
            await engine.jobs.find_jobs(tenant, JobFilter(value=value))
    with pytest.raises(Invalid):
        await engine.jobs.find_jobs(tenant, JobFilter())


async def test_escaped_texts_are_found(engine: Engine, tenant: TenantId) -> None:
    jobs = {text: await enqueue(engine, tenant, json.dumps({"to": text})) for text in ("zoë", 'a "b" \\ c', "e/f\n")}

    for text, job in jobs.items():
        assert await found(engine, tenant, text) == [job], text


async def test_jobs_are_found_by_tag(engine: Engine, tenant: TenantId) -> None:
    def tagged(number: int, *tags: str) -> NewJob:
        payload = json.dumps({"n": number, "to": "ada"})
        return NewJob(tenant=tenant, queue=f"q{number % 2}", payload=payload, tags=tags, unique_key=f"key-{number}")

    new = [tagged(0, "red"), tagged(1, "red", "blue", "red"), tagged(2)]
    ids = [made.id for made in await engine.jobs.enqueue_batch(new)]
    again = await engine.jobs.enqueue(tagged(2, "red"))
    after = NewJob(tenant=tenant, queue="q0", payload='{"n": 3}', after=[ids[0]], tags=["blue"])
    later = (await engine.jobs.enqueue(after)).id

    assert again.existing
    assert again.id == ids[2]
    newest = sorted(ids[:2], reverse=True)
    assert await found(engine, tenant, None, tag="red") == newest
    assert await found(engine, tenant, None, tag="red", limit=1) == newest[:1]
    assert await found(engine, tenant, None, tag="red", before=newest[0]) == newest[1:]
    assert await found(engine, tenant, None, tag="blue") == [later, ids[1]]
    assert await found(engine, tenant, None, tag="blue", queue="q1") == [ids[1]]
    assert await found(engine, tenant, "ada", tag="blue") == [ids[1]]
    assert await found(engine, tenant, None, tag="red", status=JobStatus.DEAD) == []
    assert await engine.jobs.find_ids(tenant, JobFilter(tag="red")) == newest
    assert (await engine.jobs.get(tenant, ids[1])).tags == ("blue", "red")
    listed = {job.id: job.tags for job in (await engine.jobs.list_jobs(tenant))[0]}
    assert listed == {later: ("blue",), ids[2]: (), ids[1]: ("blue", "red"), ids[0]: ("red",)}


async def test_tags_are_forgotten_with_their_jobs(engine: Engine, tenant: TenantId, clock: FakeClock) -> None:
    kept = NewJob(tenant=tenant, queue="later", payload="{}", tags=["mark"])
    stays = (await engine.jobs.enqueue(kept)).id
    done = (await engine.jobs.enqueue(NewJob(tenant=tenant, queue="now", payload="{}", tags=["mark"]))).id
    [job] = await engine.jobs.lease(LeaseRequest(tenant=tenant, queue="now", lease_s=60, workers=["w"]))
    await engine.jobs.complete(Completion(tenant=tenant, id=job.id, token=job.token))
    assert await found(engine, tenant, None, tag="mark", status=JobStatus.COMPLETED) == [done]
    for _ in range(4):
        clock.advance(seconds=4 * 86_400)
        await engine.jobs.tend()

    assert await found(engine, tenant, None, tag="mark") == [stays]


async def test_tags_have_bounds(engine: Engine, tenant: TenantId) -> None:
    for tags in ([""], ["x" * 101], [f"{number}" for number in range(21)], ["a\0"]):
        with pytest.raises(Invalid):
            await engine.jobs.enqueue(NewJob(tenant=tenant, queue="mail", payload="{}", tags=tags))


async def test_a_search_that_takes_long_can_be_continued(
    engine: Engine, tenant: TenantId, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.store.postgres.jobs.jobs.SEARCH_MS", 0)
    monkeypatch.setattr("penstock.store.sqlite.jobs.jobs.SEARCH_S", 0.0)
    monkeypatch.setattr("penstock.store.sqlite.jobs.search.STEP", 2)
    ids = [await enqueue(engine, tenant, {"n": str(number % 3)}, f"q{number % 2}") for number in range(9)]
    seen, before = list[str](), None
    for _ in range(20):
        page = await engine.jobs.find_jobs(tenant, JobFilter(value="0"), before=before)
        seen += [job.id for job in page.jobs]
        before = page.next
        if before is None:
            break

    assert before is None
    assert seen == [ids[6], ids[3], ids[0]]


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

"""Does a lease cost more with a million pending jobs than with a thousand? Run by bench/jobs.py."""

from __future__ import annotations

from datetime import UTC, datetime

from bench.depth import Cpu, backends, opened
from penstock.model import DEFAULT_TENANT
from penstock.model.jobs import Completion, LeaseRequest, NewJob
from penstock.store import Store

PROMISED = 2.0
SHALLOW = 1000
ROUNDS = 300


def now() -> datetime:
    return datetime.now(UTC)


async def fill(store: Store, queue: str, count: int) -> None:
    job = NewJob(tenant=DEFAULT_TENANT, queue=queue, payload='{"text": "' + "x" * 100 + '"}')
    for start in range(0, count, 1000):
        await store.jobs.enqueue_many([job] * min(1000, count - start), now())


async def measure(store: Store, queue: str, limit: int) -> float:
    """CPU µs of one lease of `limit` jobs; what is leased is completed, outside the measurement."""
    cpu = Cpu(backends())
    request = LeaseRequest(tenant=DEFAULT_TENANT, queue=queue, lease_s=60, workers=["bench"] * limit)
    for _ in range(ROUNDS):
        with cpu.counting():
            [leased] = await store.jobs.lease_many([request], now())
        assert len(leased.jobs) == limit
        done = [Completion(tenant=DEFAULT_TENANT, id=job.id, token=job.token) for job in leased.jobs]
        await store.jobs.complete_many(done, now())
    return cpu.spent / ROUNDS * 1e6


async def run(deep: int) -> bool:
    kept = True
    print(f"{'lease of':>8} {'µs at 1k':>10} {'µs deep':>10} {'ratio':>7}   {deep} pending jobs against {SHALLOW}")
    async with opened("postgres") as (store, settle):
        await fill(store, "deep", deep)
        for limit in (1, 10):
            shallow = f"shallow-{limit}"
            # It holds a thousand at the end: the leases before that take the rest.
            await fill(store, shallow, SHALLOW + ROUNDS * limit)
            await settle()
            few, many = await measure(store, shallow, limit), await measure(store, "deep", limit)
            ratio = many / few
            kept = kept and ratio <= PROMISED
            verdict = "kept" if ratio <= PROMISED else "BROKEN"
            print(f"{limit:8} {few:10.0f} {many:10.0f} {ratio:7.2f} (promised {PROMISED}: {verdict})", flush=True)
    return kept

"""How late are schedules, and what does it cost to have many that are not due?

Lateness is measured when the transaction that fired has committed, against the time the fire was scheduled for.
Spread: 10 000 schedules, one fire a minute each, evenly over the minute. Burst: all 10 000 due at the same moment.
Idle: 100 000 schedules that are not due; the time of one poll, as the server sees it and inside PostgreSQL.

    python -m bench.schedules
    python -m bench.schedules --schedules 2000 --seconds 10 --batch 32
"""

from __future__ import annotations

import argparse
import asyncio
import re
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import asyncpg

from bench.processes import conditions
from penstock.engine import Engine
from penstock.loops import run_every
from penstock.loops.scheduler import Scheduler
from penstock.model import DEFAULT_TENANT
from penstock.model.schedules import Fired, Firing, TargetKind
from penstock.store.postgres.connections import PLANNING, SQL
from penstock.store.postgres.embedded.server import EmbeddedPostgres
from penstock.store.postgres.store import PostgresStore
from penstock.store.schedules import BEGINNING, ScheduleStore

PROMISED_IDLE_MS = 1.0

COPY = """
insert into penstock.schedules (
  tenant_id, name, status, target_kind, target, shape, given, kind, expression, timezone, anchor, body, is_json,
  catchup, catchup_limit, jitter_s, failure_threshold, next_fire_at, due_at, created_at, updated_at
)
select
  s.tenant_id, s.name || '-' || n, s.status, s.target_kind, s.target, s.shape, s.given, s.kind, s.expression,
  s.timezone, p.first, s.body, s.is_json, s.catchup, s.catchup_limit, s.jitter_s, s.failure_threshold, p.first, p.first,
  s.created_at, s.updated_at
from penstock.schedules as s
cross join generate_series(1, $2::integer) as n
cross join lateral (select $3::timestamptz + $4::interval * (n::float / $2) as first) as p
where s.name = $1
"""


class Timed:
    """The store's schedules, with a note of how late each fire was once it was safe."""

    def __init__(self, schedules: ScheduleStore) -> None:
        self._schedules = schedules
        self.late: list[float] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._schedules, name)

    async def fire(self, firings: Sequence[Firing], now: datetime) -> Sequence[Fired]:
        fired = await self._schedules.fire(firings, now)
        done = datetime.now(UTC)
        self.late += [(done - at).total_seconds() for each in fired if each.error is None for at in each.times]
        return fired


@asynccontextmanager
async def opened(batch: int) -> AsyncIterator[tuple[Engine, Timed, str]]:
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        embedded = EmbeddedPostgres(Path(folder))
        embedded.start()
        try:
            store = PostgresStore(embedded.dsn)
            timed = Timed(store.schedules)
            store.schedules = timed
            engine = Engine(store, schedule_batch_size=batch)
            await engine.open()
            yield engine, timed, embedded.dsn
            await engine.close()
        finally:
            embedded.stop()


async def fill(engine: Engine, dsn: str, count: int, first: datetime, over: timedelta) -> None:
    await engine.queues.create(DEFAULT_TENANT, "ticks", {})
    given = {
        "every": "1m",
        "start_at": first + timedelta(days=1),
        "target_kind": TargetKind.QUEUE,
        "target": "ticks",
        "body": "{}",
        "catchup": True,
    }
    await engine.schedules.create(DEFAULT_TENANT, "model", given)
    connection = await asyncpg.connect(dsn)
    await connection.execute(COPY, "model", count, first, over)
    await connection.execute("vacuum analyze penstock.schedules")
    await connection.close()


async def lateness(title: str, batch: int, count: int, over: timedelta, seconds: float) -> None:
    async with opened(batch) as (engine, timed, dsn):
        first = datetime.now(UTC) + timedelta(seconds=4)
        await fill(engine, dsn, count, first, over)
        assert datetime.now(UTC) < first, "filling took too long"
        stop = asyncio.Event()
        scheduler = Scheduler(engine)
        running = asyncio.create_task(run_every(scheduler.pause, scheduler.once, name="scheduler", stop=stop))
        await asyncio.sleep((first - datetime.now(UTC)).total_seconds() + seconds)
        stop.set()
        await running
    late = sorted(timed.late)
    wanted = round(count * min(seconds / over.total_seconds(), 1.0)) if over else count
    p50, p99 = statistics.median(late), late[int(len(late) * 0.99)]
    delays = " ".join(f"{seconds * 1000:9.1f}" for seconds in (p50, p99, late[-1]))
    print(f"{title:8} {batch:6} {count:10,} {len(late):8,} {wanted:8,} {delays}", flush=True)


async def idle(count: int) -> bool:
    async with opened(32) as (engine, _, dsn):
        await fill(engine, dsn, count, datetime.now(UTC) + timedelta(hours=1), timedelta(days=1))
        took = []
        for _ in range(1000):
            began = time.perf_counter()
            assert await engine.schedules.next_due_at() is not None
            took.append(time.perf_counter() - began)
        connection = await asyncpg.connect(dsn, server_settings=PLANNING)
        inside = []
        for _ in range(200):
            plan = await connection.fetch(f"explain (analyze, buffers) {SQL['next_schedule_due']}", *BEGINNING)
            text = "\n".join(row[0] for row in plan)
            assert "schedules_due" in text, text
            found = re.search(r"Execution Time: ([\d.]+) ms", text)
            assert found is not None
            inside.append(float(found[1]))
        await connection.close()
    kept = max(statistics.median(inside), 0) < PROMISED_IDLE_MS
    print(
        f"idle poll with {count:,} schedules: {statistics.median(took) * 1000:.3f} ms at the server, "
        f"{statistics.median(inside):.3f} ms in PostgreSQL (p99 {sorted(inside)[-2]:.3f}); "
        f"promised {PROMISED_IDLE_MS} ms: {'kept' if kept else 'BROKEN'}"
    )
    return kept


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--schedules", type=int, default=10_000)
    parser.add_argument("--idle", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--batch", type=int, action="append")
    options = parser.parse_args()
    print(f"conditions: {conditions()}; one node; late in ms, when committed")
    print(f"{'fires':8} {'batch':>6} {'schedules':>10} {'fired':>8} {'expected':>8} {'p50':>9} {'p99':>9} {'most':>9}")
    for batch in options.batch or [32, 500]:
        asyncio.run(lateness("spread", batch, options.schedules, timedelta(minutes=1), options.seconds))
        asyncio.run(lateness("burst", batch, options.schedules, timedelta(), options.seconds))
    sys.exit(0 if asyncio.run(idle(options.idle)) else 1)


if __name__ == "__main__":
    main()

"""Private queues: bulk import against a raw COPY of the same rows, look-ups with and without the cache, and creation.

python -m bench.private [--records 1000000]

On an embedded PostgreSQL with its durable settings. The raw COPY reads a file in COPY's binary format into a table with
the same columns, checks and indexes; both loads take turns, and the best of each counts.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import secrets
import tempfile
from pathlib import Path
from time import perf_counter, process_time

import asyncpg

from penstock.client.private import new_key, public_key
from penstock.engine import Engine
from penstock.engine.private.cache import RecordCache
from penstock.model.private import NewPrivateQueue, Party
from penstock.store.postgres.embedded.server import EmbeddedPostgres
from penstock.store.postgres.store import PostgresStore

ROUNDS = 2
CONNECTIONS = 32
COLUMNS = "recipient_id, sender_id, recipient_keys, sender_key, notifier_id, notifier_key, created_at, touched_at"


def made_up(count: int) -> list[NewPrivateQueue]:
    keys = [public_key(new_key()) for _ in range(64)]
    return [
        NewPrivateQueue(
            recipient_id=secrets.token_bytes(24),
            sender_id=secrets.token_bytes(24),
            recipient_keys=(keys[number % 64],),
            sender_key=keys[(number + 1) % 64],
            notifier_id=secrets.token_bytes(24),
            notifier_key=keys[(number + 2) % 64],
        )
        for number in range(count)
    ]


async def imports(engine: Engine, dsn: str, records: list[NewPrivateQueue], folder: Path) -> None:
    file = str(folder / "records.copy")
    connection = await asyncpg.connect(dsn)
    ours: list[float] = []
    raw: list[float] = []
    try:
        await connection.execute("create table public.raw (like penstock.private_queues including all)")
        for _ in range(ROUNDS):
            await connection.execute("truncate penstock.private_queues; truncate public.raw; checkpoint")
            start, cpu = perf_counter(), process_time()
            await engine.private.import_records(iter(records))
            ours.append(perf_counter() - start)
            print(f"  import_records  {len(records) / ours[-1]:>10,.0f}/s  client CPU {process_time() - cpu:.1f} s")
            await connection.execute(f"copy penstock.private_queues ({COLUMNS}) to '{file}' (format binary)")
            await connection.execute("checkpoint")
            start = perf_counter()
            await connection.execute(f"copy public.raw ({COLUMNS}) from '{file}' (format binary)")
            raw.append(perf_counter() - start)
            print(f"  raw COPY        {len(records) / raw[-1]:>10,.0f}/s")
        await connection.execute("drop table public.raw")
    finally:
        await connection.close()
    print(f"import against raw COPY: {min(raw) / min(ours):.2f} (promised 0.5)")


async def lookups(engine: Engine, records: list[NewPrivateQueue]) -> None:
    chosen = [each.sender_id for each in random.sample(records, min(20_000, len(records)))]

    async def timed(cache: RecordCache) -> float:
        waiting = iter(chosen)

        async def work() -> None:
            for party_id in waiting:
                assert await cache.find(Party.SENDER, party_id) is not None

        start = perf_counter()
        await asyncio.gather(*(work() for _ in range(CONNECTIONS)))
        return len(chosen) / (perf_counter() - start)

    cache = RecordCache(engine.store.private.find, age_s=3600.0)
    cold, warm = await timed(cache), await timed(cache)
    print(f"look-ups by sender id: cold {cold:,.0f}/s, warm {warm:,.0f}/s, ratio {warm / cold:.0f} (promised 10)")
    start = perf_counter()
    await RecordCache(engine.store.private.find).find_many(Party.SENDER, chosen[:1000])
    print(f"1 000 cold look-ups in one statement: {1000 / (perf_counter() - start):,.0f}/s")


async def creation(engine: Engine, count: int) -> None:
    key = public_key(new_key())
    left = iter(range(count))

    async def work() -> None:
        for _ in left:
            await engine.private.create(key)

    start = perf_counter()
    await asyncio.gather(*(work() for _ in range(CONNECTIONS)))
    print(f"create at {CONNECTIONS} at once: {count / (perf_counter() - start):,.0f}/s, durable")


async def main(count: int) -> None:
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, {count:,} records")
    records = made_up(count)
    with tempfile.TemporaryDirectory() as name:
        # PostgreSQL writes the file itself, under its own account.
        os.chmod(name, 0o777)
        folder = Path(name)
        server = EmbeddedPostgres(folder / "data", settings={"max_wal_size": "4GB"})
        server.start()
        try:
            engine = Engine(PostgresStore(server.dsn, max_connections=24))
            await engine.open()
            try:
                await imports(engine, server.dsn, records, folder)
                await lookups(engine, records)
                await creation(engine, 5_000)
            finally:
                await engine.close()
        finally:
            server.stop()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=1_000_000, metavar="N", help="records to import")
    asyncio.run(main(parser.parse_args().records))

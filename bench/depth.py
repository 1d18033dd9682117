"""Does a receive cost more on a full queue than on a nearly empty one?

Fills queues of each kind with a thousand and with a million waiting messages through the ordinary send, then
receives and deletes one message at a time, and ten at a time, and compares the CPU time of a receive (store and
PostgreSQL together). The promise: a million costs at most twice a thousand.

    python -m bench.depth                      PostgreSQL and SQLite, a few minutes
    python -m bench.depth --store postgres --deep 200000
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from bench.processes import conditions, family
from penstock.model import DEFAULT_TENANT, Handle, QueueSettings, Receive, Received, Send
from penstock.store import Store

PROMISED = 2.0
GROUPS = 10_000
SHALLOW = 1000
ROUNDS = 300

Settle = Callable[[], Awaitable[None]]

KINDS: dict[str, Callable[[int, random.Random], dict[str, object]]] = {
    "standard": lambda number, dice: {},
    "priority": lambda number, dice: {"priority": dice.randint(0, 1000)},
    "fifo": lambda number, dice: {"group_id": f"group-{dice.randrange(GROUPS)}", "dedup_id": str(number)},
}


def now() -> datetime:
    return datetime.now(UTC)


@asynccontextmanager
async def opened(kind: str) -> AsyncIterator[tuple[Store, Settle]]:
    """A fresh store, and what brings it to rest after a load."""
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        if kind == "sqlite":
            from penstock.store.sqlite.store import SqliteStore

            store: Store = SqliteStore(Path(folder) / "queues.db")
            await store.open()
            yield store, nothing
            await store.close()
            return
        from penstock.store.postgres.embedded.server import EmbeddedPostgres
        from penstock.store.postgres.store import PostgresStore

        embedded = EmbeddedPostgres(Path(folder))
        embedded.start()
        try:
            store = PostgresStore(embedded.dsn, max_connections=3)
            await store.open()
            yield store, partial(checkpoint, embedded.dsn)
            await store.close()
        finally:
            embedded.stop()


async def nothing() -> None:
    pass


async def checkpoint(dsn: str) -> None:
    """The moment after a checkpoint is the dearest: every page is written to the log whole when first touched."""
    import asyncpg

    connection = await asyncpg.connect(dsn)
    await connection.execute("checkpoint")
    await connection.close()


def backends() -> list[Path]:
    """The kernel's accounts of our sessions in the PostgreSQL that this process started (Linux)."""
    processes = [Path(f"/proc/{process}") for process, name, _ in family(os.getpid()) if name == "postgres"]
    return [process / "schedstat" for process in processes if b"[local]" in (process / "cmdline").read_bytes()]


class Cpu:
    """CPU seconds of this process, and of PostgreSQL's where there is one."""

    def __init__(self, accounts: list[Path]) -> None:
        self._accounts = accounts
        self.spent = 0.0

    def _read(self) -> float:
        total = 0
        for path in self._accounts:
            with suppress(OSError):  # A worker of PostgreSQL's own may have ended.
                total += int(path.read_text().split()[0])
        return total / 1e9

    @contextmanager
    def counting(self) -> Iterator[None]:
        before, own = self._read(), time.process_time()
        yield
        own = time.process_time() - own
        self.spent += own + self._read() - before


async def fill(store: Store, queue: str, kind: str, count: int) -> None:
    await store.create_queue(DEFAULT_TENANT, queue, QueueSettings(), now())
    dice = random.Random(1)
    for start in range(0, count, 1000):
        size = min(1000, count - start)
        entries = [
            Send(tenant=DEFAULT_TENANT, queue=queue, body="x" * 100, **KINDS[kind](start + number, dice))  # type: ignore[arg-type]
            for number in range(size)
        ]
        await store.send_many(entries, now())
        if start % 100_000 == 0:
            print(f"\r  filling {queue}: {start + size:>9,}", end="", file=sys.stderr, flush=True)
    print(f"\r{' ' * 60}\r", end="", file=sys.stderr)


async def measure(store: Store, queue: str, limit: int) -> float:
    """CPU µs of one receive of `limit` messages; what is received is deleted, outside the measurement."""
    cpu = Cpu(backends() if store.kind == "postgres" else [])
    request = Receive(tenant=DEFAULT_TENANT, queue=queue, limit=limit)
    for _ in range(ROUNDS):
        with cpu.counting():
            [received] = await store.receive_many([request], now())
        assert isinstance(received, Received)
        assert len(received.messages) == limit
        handles = [Handle(tenant=DEFAULT_TENANT, queue=queue, id=m.id, lease=m.lease) for m in received.messages]
        await store.delete_many(handles, now())
    return cpu.spent / ROUNDS * 1e6


async def run(store_kind: str, deep: int) -> bool:
    kept = True
    async with opened(store_kind) as (store, settle):
        for kind in KINDS:
            suffix = ".fifo" if kind == "fifo" else ""
            full = f"{kind}-deep{suffix}"
            await fill(store, full, kind, deep)
            for limit in (1, 10):
                cost: dict[int, float] = {}
                shallow = f"{kind}-{limit}{suffix}"
                # It holds a thousand at the end: the receives before that take the rest.
                await fill(store, shallow, kind, SHALLOW + ROUNDS * limit)
                await settle()
                cost[SHALLOW] = await measure(store, shallow, limit)
                cost[deep] = await measure(store, full, limit)
                ratio = cost[deep] / cost[SHALLOW]
                good = ratio <= PROMISED
                kept = kept and good
                print(
                    f"{store_kind:9} {kind:9} {limit:5} {cost[SHALLOW]:10.0f} {cost[deep]:10.0f} {ratio:7.2f} "
                    f"{'kept' if good else 'BROKEN'}",
                    flush=True,
                )
    return kept


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", choices=["postgres", "sqlite"], action="append")
    parser.add_argument("--deep", type=int, default=1_000_000)
    options = parser.parse_args()
    print(f"conditions: {conditions()}; {ROUNDS} receives per figure; FIFO over {GROUPS} groups")
    print(f"{'store':9} {'queue':9} {'limit':>5} {'µs at 1k':>10} {'µs deep':>10} {'ratio':>7} promised {PROMISED}")
    kept = [asyncio.run(run(store, options.deep)) for store in options.store or ["postgres", "sqlite"]]
    sys.exit(0 if all(kept) else 1)


if __name__ == "__main__":
    main()

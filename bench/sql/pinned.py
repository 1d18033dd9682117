"""What a transaction that stays open costs those who use queues from SQL, for `bench.sql`.

One session holds a snapshot, so nothing that is deleted can be removed. Another sends, receives and deletes batches for
some time. Then: its rate in the last eighth of the time over that in the first, a receive that finds nothing over one
on the table as it was before (medians of some seconds of them), and the size of the table with its indexes per message.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from typing import Any

import asyncpg

WINDOWS = 8
BATCH = 100
EMPTY_S = 3.0
LONG_MS = 5.0
BODY = '{"order": 17, "customer": "ada", "lines": [1, 2, 3]}'
RECEIVE = "select id from penstock.receive('pinned', 30, $1)"


@dataclass(frozen=True)
class Pinned:
    seconds: float
    messages: int
    rates: list[float]
    """Messages per second, by window."""
    empty_before_ms: list[float]
    empty_after_ms: list[float]
    bytes_per_message: float


async def run(dsn: str, seconds: float) -> Pinned:
    user = await asyncpg.connect(dsn, server_settings={"synchronous_commit": "off"})
    await user.execute("select penstock.create_queue('pinned')")
    holder = await asyncpg.connect(dsn)
    async with holder.transaction(isolation="repeatable_read", readonly=True):
        await holder.fetchval("select count(*) from pg_class")
        before = await _empty_ms(user)
        size_before = await _size(user)
        rates = []
        for _ in range(WINDOWS):
            rates.append(await _work(user, seconds / WINDOWS))
        messages = round(sum(rates) * seconds / WINDOWS)
        grown = await _size(user) - size_before
        after = await _empty_ms(user)
    await holder.close()
    await user.close()
    return Pinned(seconds, messages, rates, before, after, grown / messages)


async def _work(user: Any, seconds: float) -> float:
    began = time.monotonic()
    done = 0
    while (took := time.monotonic() - began) < seconds:
        await user.fetchval("select penstock.send_batch('pinned', $1, is_json => true)", [BODY] * BATCH)
        rows = await user.fetch(RECEIVE, BATCH)
        assert len(rows) == BATCH
        await user.fetchval("select penstock.delete_batch('pinned', $1)", [row["id"] for row in rows])
        done += BATCH
    return done / took


async def _empty_ms(user: Any) -> list[float]:
    times = []
    end = time.perf_counter() + EMPTY_S
    while (began := time.perf_counter()) < end:
        assert not await user.fetch(RECEIVE, 10)
        times.append((time.perf_counter() - began) * 1000)
    return times


async def _size(user: Any) -> int:
    size: int = await user.fetchval("select pg_total_relation_size('penstock.messages')")
    return size


def show(done: Pinned) -> None:
    before, after = statistics.median(done.empty_before_ms), statistics.median(done.empty_after_ms)
    print(f"{'a transaction stays open':42} {'figure':>9} {'goal':>8}")
    for label, figure, goal in (
        (f"rate, last {done.seconds / WINDOWS:.0f} s / first", f"{done.rates[-1] / done.rates[0]:.2f}", "0.9"),
        ("empty receive / on a fresh table", f"{after / before:.1f}", "2"),
        ("MB per 10 million messages, from this rate", f"{done.bytes_per_message * 10:.0f}", "256"),
    ):
        print(f"{label:42} {figure:>9} {goal:>8}")
    print(f"messages: {done.messages}; empty receive: {before:.2f} and {after:.2f} ms; {_share_of_long(done):.0%} of")
    print(f"the time of the latter in looks at everything, the longest {max(done.empty_after_ms):.0f} ms")


def _share_of_long(done: Pinned) -> float:
    return sum(ms for ms in done.empty_after_ms if ms > LONG_MS) / sum(done.empty_after_ms)

"""A plausible past for a database that `penstock demo` filled: samples of a month, runs of pipelines, insights."""

from __future__ import annotations

import json
import math
import random
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg

DAY_S = 86_400
QUEUES = {"demo-orders": 3.0, "demo-kitchen": 2.6, "demo-payments.fifo": 2.8, "demo-failed": 0.1, "": 8.5}
JOBS = {"demo-emails": 40, "demo-invoices": 25, "": 65}
MEASURED = (("queue", "demo-orders", 3.0), ("job", "demo-emails", 0.4), ("stream", "demo-audit", 1.2))
CONSUMERS = {"demo-audit/warehouse": 1.0, "demo-audit/forgetful": 3.0, "": 3.0}
ERRORS = (
    ("job", "demo-emails", "SMTP server answered <number>", 61),
    ("delivery", "demo.order.paid", "connection refused", 44),
    ("job", "demo-invoices", "template <text> not found", 12),
    ("queue", "demo-orders", "received <number> times", 9),
)


async def write_history(dsn: str, now: datetime, seed: int = 1) -> None:
    """`now` is the end of the past: samples of later moments come from the server."""
    chance = random.Random(seed)
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute("set search_path = penstock")
        await _samples(connection, now, chance)
        await _outcomes(connection, now, chance)
        await _insights(connection, now, chance)
        await _runs(connection, now)
    finally:
        await connection.close()


def _busy(at: datetime) -> float:
    """How busy a shop is: most at noon and in the evening."""
    hour = at.hour + at.minute / 60
    return 0.25 + math.exp(-((hour - 12.5) ** 2) / 6) + 0.8 * math.exp(-((hour - 18.5) ** 2) / 4)


async def _samples(connection: asyncpg.Connection, now: datetime, chance: random.Random) -> None:
    rows = []
    for minutes, count in ((1, 1439), (60, 719)):
        end = now.astimezone(UTC).replace(second=0, microsecond=0)
        end = end if minutes == 1 else end.replace(minute=0)
        for kind, names in (("queue", QUEUES), ("job", JOBS), ("consumer", CONSUMERS)):
            for name, scale in names.items():
                rows += _series(kind, name, scale, minutes, count, end, chance)
    await connection.execute("delete from samples")
    await connection.copy_records_to_table(
        "samples", schema_name="penstock", records=rows,
        columns=["tenant_id", "kind", "name", "step", "starts_at", "arrived", "departed", "waiting", "oldest_s"],
    )  # fmt: skip


async def _outcomes(connection: asyncpg.Connection, now: datetime, chance: random.Random) -> None:
    rows = []
    for minutes, count in ((1, 1439), (60, 719)):
        end = now.astimezone(UTC).replace(second=0, microsecond=0)
        end = end if minutes == 1 else end.replace(minute=0)
        for step in range(count, 0, -1):
            at = end - timedelta(minutes=minutes * step)
            for kind, scale, failing in (("job", 40, 0.03), ("delivery", 12, 0.06), ("schedule", 1, 0.01)):
                flow = int(scale * minutes * _busy(at) * chance.uniform(0.8, 1.2)) if kind != "schedule" else minutes
                bad = sum(chance.random() < failing for _ in range(min(flow, 500)))
                rows.append((1, kind, minutes, at, flow - bad, bad))
    await connection.execute("delete from outcomes")
    await connection.copy_records_to_table(
        "outcomes", schema_name="penstock", records=rows,
        columns=["tenant_id", "kind", "step", "starts_at", "good", "bad"],
    )  # fmt: skip


def _series(
    kind: str, name: str, scale: float, minutes: int, count: int, end: datetime, chance: random.Random
) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = []
    arrived = departed = 0
    for step in range(count, 0, -1):
        at = end - timedelta(minutes=minutes * step)
        flow = scale * _busy(at) * minutes * 60 * chance.uniform(0.8, 1.2)
        arrived += int(flow)
        waiting = int(scale * 6 * _busy(at) ** 2 * chance.uniform(0.7, 1.3)) + 2
        departed = max(arrived - waiting, departed)
        counters = (arrived, departed) if kind == "queue" else (None, None)
        rows.append((1, kind, name, minutes, at, *counters, waiting, round(waiting / scale, 1)))
    # The counters of the server begin with zero: those of the past end there.
    return [
        (*row[:5], None if row[5] is None else row[5] - arrived, None if row[6] is None else row[6] - arrived, *row[7:])
        for row in rows
    ]


async def _insights(connection: asyncpg.Connection, now: datetime, chance: random.Random) -> None:
    hour = now.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    for step, length, count in (("hour", 3600, 26), ("day", DAY_S, 31)):
        first = hour if step == "hour" else hour.replace(hour=0)
        for kind, name, scale in MEASURED:
            for back in range(count):
                at = first - timedelta(seconds=length * back)
                sent = int(scale * length * (_busy(at) if step == "hour" else chance.uniform(0.5, 0.7)))
                failed, p50 = sent // 70, chance.uniform(0.05, 0.12) * (1 + _busy(at))
                await connection.execute(
                    "insert into insights (tenant_id, step, starts_at, kind, name, sent, done, retried, failed, dead,"
                    " retry_rate, dead_rate, per_second, p50_s, p95_s, p99_s, max_s, recorded_at)"
                    " values (1, $1, $2, $3, $4, $5, $6, $7, $8, $9, 0.02, 0.001, $10, $11, $12, $13, $14, $15)"
                    " on conflict do nothing",
                    step, at, kind, name, sent, sent - failed, failed, failed, failed // 9, sent / length, p50, p50 * 4,
                    p50 * chance.uniform(7, 11), p50 * 20, now,
                )  # fmt: skip
    for kind, name, shape, count in ERRORS:
        await connection.execute(
            "insert into insight_errors (tenant_id, starts_at, kind, name, shape, count, example, recorded_at)"
            " values (1, $1, $2, $3, $4, $5, $4, $6) on conflict do nothing",
            hour - timedelta(hours=1), kind, name, shape, count, now,
        )  # fmt: skip


async def _runs(connection: asyncpg.Connection, now: datetime) -> None:
    archive = {
        "queries": [
            {"name": name, "batch": 412, "rows": rows, "batches": 412, "ticks": ticks, "rows_per_s": 5200.0,
             "at": now.isoformat()}
            for name, rows, ticks in (("events", 184_220, {"demo-audit": 9120}), ("messages", 96_411, {}))
        ]
    }  # fmt: skip
    runs: tuple[tuple[Any, ...], ...] = (
        ("import", {"source": "redis"}, "failed", 90, 50, 1200, None, None, "connection refused", {}),
        ("cdc", {"tables": ["shop.orders"]}, "done", 60, 44, 48_210, 0, None, None, {}),
        ("insights", {"days": 2}, "done", 30, 28, 310_992, None, "26 hours", None, {}),
        (
            "archive",
            {"streams": ["demo-audit"], "messages": True},
            "running",
            240,
            None,
            280_631,
            34,
            None,
            None,
            archive,
        ),
    )
    # Runs of the day before, so that the chart of runs has some.
    for hours in range(2, 24):
        failed = hours in (5, 16)
        await connection.execute(
            "insert into pipeline_runs (tenant_id, pipeline, settings, state, started_at, seen_at, finished_at, rows,"
            " batches, error, progress) values (1, 'insights', '{}', $1, $2, $3, $3, 310000, 1, $4, '{}')",
            "failed" if failed else "done", now - timedelta(hours=hours), now - timedelta(minutes=60 * hours - 2),
            "no space left on device" if failed else None,
        )  # fmt: skip
    for pipeline, settings, state, began, ended, rows, lag, note, error, progress in runs:
        await connection.execute(
            "insert into pipeline_runs (tenant_id, pipeline, settings, state, started_at, seen_at, finished_at, rows,"
            " batches, lag_events, lag_s, note, error, progress)"
            " values (1, $1, $2, $3, $4, $5, $6, $7, 412, $8, $9, $10, $11, $12)",
            pipeline, json.dumps(settings), state, now - timedelta(minutes=began), now + timedelta(minutes=10),
            None if ended is None else now - timedelta(minutes=ended), rows, lag, None if lag is None else 1.4,
            note, error, json.dumps(progress),
        )  # fmt: skip

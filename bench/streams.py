"""What do streams cost beside plain tables, and do they stay as fast while somebody holds a snapshot?

On the embedded PostgreSQL, durable but for `synchronous_commit`, which is off: what a disk takes to answer is the same
for both sides and would hide the rest. Each way of a pair takes its turns beside the other, and its best round counts.
What must stay as fast is judged by the CPU time of the session in PostgreSQL; rates by the clock are shown beside it.

    python -m bench.streams             everything, about five minutes
    python -m bench.streams --quick     the same with less of it, under a minute
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from bench.processes import conditions, family

Connection = psycopg.Connection[Any]

PAYLOAD = '{"order": 42, "customer": "somebody", "note": "' + "x" * 60 + '"}'
COLUMNS = "ev_id, ev_time, ev_txid, ev_retry, ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4"
EVENTS = "pgque.event_1"


@dataclass(frozen=True)
class Scale:
    """How much of everything."""

    singles: int
    batches: int
    rounds: int
    read: int
    latencies: int
    many: int
    pinned_seconds: float
    window_seconds: float
    loops: int


FULL = Scale(1000, 20, 7, 100_000, 300, 1_000_000, 90, 15, 10_000)
QUICK = Scale(300, 10, 4, 100_000, 60, 100_000, 12, 2, 2_000)


class Report:
    def __init__(self) -> None:
        self.kept = True

    def pair(self, name: str, plain: float, ours: float, unit: str, promised: float | None) -> None:
        self.line(f"{name:34} plain {plain:11,.0f} {unit}   streams {ours:11,.0f} {unit}", ours / plain, promised)

    def line(self, text: str, ratio: float, promised: float | None) -> None:
        kept = promised is None or ratio >= promised
        self.kept = self.kept and kept
        verdict = "" if promised is None else f"   (promised {promised:.2f}: {'kept' if kept else 'BROKEN'})"
        print(f"{text}   ratio {ratio:.2f}{verdict}", flush=True)

    def fact(self, text: str, kept: bool) -> None:
        self.kept = self.kept and kept
        print(f"{text}   ({'kept' if kept else 'BROKEN'})", flush=True)


def rate(count: int, work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return count / (time.perf_counter() - started)


def best(rounds: int, count: int, plain: Callable[[], object], ours: Callable[[], object]) -> tuple[float, float]:
    """The best rates of both. They take turns, and what else the machine does only ever slows down."""
    rates = [(rate(count, plain), rate(count, ours)) for _ in range(rounds)]
    return max(first for first, _ in rates), max(second for _, second in rates)


def spent(connection: Connection) -> float:
    """CPU seconds of the session so far, without the client's."""
    [seconds] = [found for process, _, found in family(connection.info.backend_pid)[:1]]
    return seconds


def prepare(connection: Connection) -> None:
    connection.execute("set synchronous_commit = off")
    connection.prepare_threshold = 0
    connection.execute(
        """
        create table plain (
          id bigserial primary key,
          time timestamptz not null default now(),
          type text,
          data text
        )
        """
    )
    connection.execute("select pgque.create_queue('bench')")


def call(connection: Connection, query: str, *arguments: object) -> Any:
    [[value]] = connection.execute(query.encode(), arguments).fetchall()
    return value


def tick(connection: Connection, queue: str = "bench") -> None:
    call(connection, "select pgque.tick_if_waiting(%s)", queue)


def singles(connection: Connection, scale: Scale, report: Report) -> None:
    def plain() -> None:
        for _ in range(scale.singles):
            call(connection, "insert into plain (type, data) values ('type', %s) returning id", PAYLOAD)

    def ours() -> None:
        for _ in range(scale.singles):
            call(connection, "select pgque.send('bench', 'type', %s::text)", PAYLOAD)

    report.pair("one per transaction", *best(scale.rounds, scale.singles, plain, ours), "/s", None)


def batches(connection: Connection, scale: Scale, report: Report) -> None:
    payloads = [PAYLOAD] * 1000

    def plain() -> None:
        query = b"insert into plain (type, data) select 'type', p from unnest(%s::text[]) as p returning id"
        for _ in range(scale.batches):
            connection.execute(query, (payloads,)).fetchall()

    def ours() -> None:
        for _ in range(scale.batches):
            call(connection, "select pgque.send_batch('bench', 'type', %s::text[])", payloads)

    report.pair("1000 per call", *best(scale.rounds, scale.batches * 1000, plain, ours), "/s", 0.60)


def copies(connection: Connection, scale: Scale, report: Report) -> None:
    count = scale.batches * 1000

    def load(table: str, columns: str) -> None:
        with connection.cursor().copy(f"copy {table} ({columns}) from stdin".encode()) as copy:
            for _ in range(count):
                copy.write_row(("type", PAYLOAD))

    def plain() -> None:
        load("plain", "type, data")

    def ours() -> None:
        with connection.transaction():
            load(call(connection, "select pgque.current_event_table('bench')"), "ev_type, ev_data")

    report.pair("COPY, into the current event table", *best(scale.rounds, count, plain, ours), "/s", None)


def reading(connection: Connection, scale: Scale, report: Report) -> None:
    tick(connection)
    call(connection, "select pgque.register_consumer('bench', 'reader')")
    for _ in range(scale.read // 1000):
        call(connection, "select pgque.send_batch('bench', 'type', %s::text[])", [PAYLOAD] * 1000)
    tick(connection)
    batch = call(connection, "select pgque.next_batch('bench', 'reader')")
    count = scale.read
    last = call(connection, f"select max(ev_id) from {EVENTS}")

    def plain() -> None:
        query = f"select {COLUMNS} from {EVENTS}_0 where ev_id > %s and ev_id <= %s order by ev_id"
        assert len(connection.execute(query.encode(), (last - count, last)).fetchall()) == count

    def ours() -> None:
        query = b"select * from pgque.get_batch_events(%s)"
        assert len(connection.execute(query, (batch,)).fetchall()) == count

    report.pair(f"reading a batch of {count:,}", *best(scale.rounds, count, plain, ours), "/s", 0.70)
    call(connection, "select pgque.finish_batch(%s)", batch)


def latency(connection: Connection, dsn: str, scale: Scale, report: Report) -> None:
    """From before the send until the consumer has the event: it listens, has a tick made, and takes the batch."""
    call(connection, "select pgque.create_queue('live')")
    call(connection, "select pgque.register_consumer('live', 'c')")
    sent: dict[str, float] = {}
    seen: list[float] = []
    ready = threading.Event()

    def consume() -> None:
        with psycopg.connect(dsn, autocommit=True) as consumer:
            consumer.execute('listen "pgque_wake_live"')
            while len(seen) < scale.latencies:
                call(consumer, "select pgque.expect_events('live')::text")
                tick(consumer, "live")
                batch = call(consumer, "select pgque.next_batch('live', 'c')")
                if batch is not None:
                    rows = consumer.execute("select ev_data from pgque.get_batch_events(%s)", (batch,)).fetchall()
                    seen.extend(time.perf_counter() - sent[row[0]] for row in rows)
                    call(consumer, "select pgque.finish_batch(%s)", batch)
                    continue
                ready.set()
                list(consumer.notifies(timeout=0.1, stop_after=1))

    thread = threading.Thread(target=consume)
    thread.start()
    ready.wait(10)
    for number in range(scale.latencies):
        sent[str(number)] = time.perf_counter()
        call(connection, "select pgque.send('live', 'type', %s::text)", str(number))
        time.sleep(0.02)
    thread.join(30)
    ordered = sorted(seen)
    median, tail = ordered[len(ordered) // 2] * 1000, ordered[int(len(ordered) * 0.99)] * 1000
    report.fact(
        f"from send to a waiting consumer: p50 {median:.1f} ms, p99 {tail:.1f} ms; promised p50 < 15", median < 15
    )


def rotations(connection: Connection, scale: Scale, report: Report) -> None:
    """A tenth of the events, a rotation, and so on."""
    call(connection, "select pgque.create_queue('million')")
    call(connection, "select pgque.register_consumer('million', 'c')")
    call(connection, "select pgque.set_queue_config('million', 'rotation_period', '0')")
    turned = 0
    read = 0
    for _ in range(10):
        for _ in range(scale.many // 10_000):
            call(connection, "select pgque.send_batch('million', 'type', %s::text[])", [PAYLOAD] * 1000)
        tick(connection, "million")
        batch = call(connection, "select pgque.next_batch('million', 'c')")
        read += call(connection, "select count(*) from pgque.get_batch_events(%s)", batch)
        call(connection, "select pgque.finish_batch(%s)", batch)
        before = call(connection, "select queue_cur_table from pgque.queue where queue_name = 'million'")
        call(connection, "select pgque.maint_rotate_tables_step1('million')")
        call(connection, "select pgque.maint_rotate_tables_step2()")
        turned += before != call(connection, "select queue_cur_table from pgque.queue where queue_name = 'million'")
    call(connection, "select pg_stat_force_next_flush()::text")
    tables = "pg_stat_user_tables where schemaname = 'pgque' and relname ~ '^event_'"
    dead = call(connection, f"select coalesce(sum(n_dead_tup), 0) from {tables}")
    text = f"{read:,} events, {turned} rotations: {dead} dead rows in event tables; promised 0"
    report.fact(text, dead == 0 and read == scale.many and turned >= 9)


@contextmanager
def pinned(dsn: str) -> Iterator[None]:
    """Somebody who has read and stays."""
    with psycopg.connect(dsn) as analyst:
        analyst.execute("set transaction isolation level repeatable read")
        analyst.execute("select count(*) from pgque.queue")
        yield
        analyst.rollback()


def upkeep(connection: Connection, queue: str) -> None:
    call(connection, "select pgque.maint_rotate_tables_step2()")
    call(connection, "select pgque.maint_rotate_tables_step1(%s)", queue)
    call(connection, "select pgque.maint_progress()")


def steady(connection: Connection, dsn: str, scale: Scale, report: Report) -> None:
    """Send, tick, receive and finish, while a snapshot is held all along."""
    call(connection, "select pgque.create_queue('steady')")
    call(connection, "select pgque.register_consumer('steady', 'c')")
    call(connection, "select pgque.set_queue_config('steady', 'rotation_period', '20 seconds')")
    done: list[tuple[float, float]] = []
    with pinned(dsn):
        started = maintained = time.perf_counter()
        while (now := time.perf_counter()) - started < scale.pinned_seconds:
            if len(done) % 20 == 0:
                cpu = spent(connection)
            call(connection, "select pgque.send_batch('steady', 'type', %s::text[])", [PAYLOAD] * 100)
            tick(connection, "steady")
            batch = call(connection, "select pgque.next_batch('steady', 'c')")
            assert call(connection, "select count(*) from pgque.get_batch_events(%s)", batch) == 100
            call(connection, "select pgque.finish_batch(%s)", batch)
            done.append((now - started, cpu))
            if now - maintained > 1:
                upkeep(connection, "steady")
                maintained = now
    window = scale.window_seconds
    first = [(moment, cpu) for moment, cpu in done if moment < window]
    last = [(moment, cpu) for moment, cpu in done if moment >= scale.pinned_seconds - window]
    rates = [len(part) * 100 / window for part in (first, last)]
    costs = [(part[-1][1] - part[0][1]) / len(part) for part in (first, last)]
    text = (
        f"{scale.pinned_seconds:.0f} s with a snapshot held: first {window:.0f} s {rates[0]:,.0f}/s, "
        f"last {rates[1]:,.0f}/s; {costs[0] * 1e3:.2f}, {costs[1] * 1e3:.2f} ms of CPU per batch"
    )
    report.line(text, costs[0] / costs[1], 0.95)


def bare(connection: Connection, dsn: str, scale: Scale, report: Report) -> None:
    """Tick, next batch, finish; nothing else."""
    call(connection, "select pgque.create_queue('bare')")
    call(connection, "select pgque.register_consumer('bare', 'c')")
    call(connection, "select pgque.set_queue_config('bare', 'ticker_max_count', '1')")
    part = scale.loops // 20

    def loop() -> None:
        for _ in range(part):
            call(connection, "select pgque.force_next_tick('bare')")
            call(connection, "select pgque.ticker('bare')")
            call(connection, "select pgque.finish_batch(pgque.next_batch('bare', 'c'))")

    rates, costs = [], []
    with pinned(dsn):
        for _ in range(20):
            before = spent(connection)
            rates.append(rate(part, loop))
            costs.append((spent(connection) - before) / part)
            upkeep(connection, "bare")
    text = (
        f"bare loop, {scale.loops:,} batches with a snapshot held: "
        f"{max(rates[:4]):,.0f}/s, then {max(rates[-4:]):,.0f}/s; "
        f"{min(costs[:4]) * 1e6:.0f}, {min(costs[-4:]) * 1e6:.0f} µs of CPU each"
    )
    report.line(text, min(costs[:4]) / min(costs[-4:]), 0.80)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    scale = QUICK if parser.parse_args().quick else FULL
    from penstock.store.postgres.embedded.server import EmbeddedPostgres
    from penstock.store.postgres.migrate import migrate

    print(f"conditions: {conditions()}; payloads of {len(PAYLOAD)} bytes; synchronous_commit off", flush=True)
    report = Report()
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        server = EmbeddedPostgres(Path(folder))
        server.start()
        try:
            import asyncio

            asyncio.run(migrate(server.dsn))
            with psycopg.connect(server.dsn, autocommit=True) as connection:
                prepare(connection)
                singles(connection, scale, report)
                batches(connection, scale, report)
                copies(connection, scale, report)
                reading(connection, scale, report)
                latency(connection, server.dsn, scale, report)
                rotations(connection, scale, report)
                steady(connection, server.dsn, scale, report)
                bare(connection, server.dsn, scale, report)
        finally:
            server.stop()
    sys.exit(0 if report.kept else 1)


if __name__ == "__main__":
    main()

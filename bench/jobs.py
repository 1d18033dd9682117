"""What does a job cost, beside procrastinate and pgqueuer on the same PostgreSQL?

Three rates: jobs enqueued per second one by one (16 producers at a time in one process), in batches of 500, and
jobs per second through a full cycle: enqueued, run by one of two worker processes, where they do nothing, and recorded
as completed. Every contender waits for the disk when it enqueues and when it completes. They take turns, round by
round, so that a noisy machine is noisy to all; the best round of each counts.

Penstock is measured twice: over HTTP, through its client and worker, and in the process of its user, as its peers are.
Ratios are to the better peer on each figure; on a machine that does other things too, that of the CPU is the steadier.

    python -m bench.jobs                       everything, some minutes
    python -m bench.jobs --quick               fewer jobs, one round
    python -m bench.jobs --only depth          a lease from 1 000 pending jobs and from 1 000 000
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

from bench import job_depth
from bench.processes import conditions, family, serving
from bench.suite.contenders import BATCH, CONTENDERS, HANDS, PRODUCERS
from penstock.store.postgres.embedded.server import EmbeddedPostgres

PEERS = ("procrastinate", "pgqueuer")
OURS = ("penstock", "in-process")
PROMISED = 2.0
WORKERS = 2
LONGEST_S = 120.0


@dataclass(frozen=True)
class Contender:
    """Where a contender keeps its jobs, and what its processes are told to connect to."""

    name: str
    dsn: str
    address: str


@dataclass(frozen=True)
class Found:
    per_second: float
    cpu_us: float
    """Of all processes: producers, workers, server and PostgreSQL."""


class Process:
    def __init__(self, contender: Contender, role: str, count: int) -> None:
        command = [sys.executable, "-m", "bench.suite.contenders", contender.name, role, contender.address, str(count)]
        # What the peers tell on standard error, line by line and job by job, would be measured too.
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def await_ready(self) -> None:
        assert self._process.stdout is not None
        if self._process.stdout.readline() != "ready\n":
            raise SystemExit(f"{self._process.args!r} did not start")

    def go(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def await_done(self) -> None:
        """Until its part is done; what it does after that, closing and ending, is not measured."""
        assert self._process.stdout is not None
        if self._process.stdout.readline() != "done\n":
            raise SystemExit(f"{self._process.args!r} failed")

    def terminate(self) -> None:
        self._process.terminate()

    def end(self) -> None:
        self._process.communicate(timeout=LONGEST_S)
        if self._process.returncode != 0:
            raise SystemExit(f"{self._process.args!r} failed")


def cpu() -> float:
    """CPU seconds of everything that this process has started, ended or not."""
    return sum(seconds for _, _, seconds in family(os.getpid()))


def await_finished(contender: Contender) -> None:
    give_up = time.monotonic() + LONGEST_S
    with psycopg.connect(contender.dsn, autocommit=True) as connection:
        while connection.execute(CONTENDERS[contender.name].unfinished).fetchone():
            if time.monotonic() > give_up:
                raise SystemExit(f"{contender.name} has not finished its jobs")
            time.sleep(0.02)


def enqueue(contender: Contender, role: str, count: int) -> Found:
    process = Process(contender, role, count)
    process.await_ready()
    spent, began = cpu(), time.perf_counter()
    process.go()
    process.await_done()
    took = time.perf_counter() - began
    found = Found(count / took, (cpu() - spent) / count * 1e6)
    process.end()
    clear(contender)
    return found


def cycle(contender: Contender, count: int) -> Found:
    producer = Process(contender, "single", count)
    workers = [Process(contender, "work", 0) for _ in range(WORKERS)]
    for process in (producer, *workers):
        process.await_ready()
    for worker in workers:
        worker.go()
    await_finished(contender)  # The job that the producer warmed up with.
    spent, began = cpu(), time.perf_counter()
    producer.go()
    producer.await_done()
    await_finished(contender)
    took = time.perf_counter() - began
    found = Found(count / took, (cpu() - spent) / count * 1e6)
    producer.end()
    for worker in workers:
        worker.terminate()
        worker.end()
    clear(contender)
    return found


TABLES = {
    "procrastinate": "procrastinate_jobs, procrastinate_events, procrastinate_periodic_defers",
    "pgqueuer": "pgqueuer, pgqueuer_log",
    "penstock": "penstock.jobs, penstock.finished_jobs, penstock.job_attempts, penstock.job_changes",
    "in-process": "penstock.jobs, penstock.finished_jobs, penstock.job_attempts, penstock.job_changes",
}


def clear(contender: Contender) -> None:
    """Every figure begins on empty tables and after a checkpoint."""
    with psycopg.connect(contender.dsn, autocommit=True) as connection:
        connection.execute(f"truncate {TABLES[contender.name]} cascade".encode())
        connection.execute("vacuum analyze")
        connection.execute("checkpoint")


MEASURES = {
    "single": lambda contender, count: enqueue(contender, "single", count),
    "batch": lambda contender, count: enqueue(contender, "batch", count * 5),
    "cycle": cycle,
}


@contextmanager
def contenders(names: Sequence[str]) -> Iterator[list[Contender]]:
    """One PostgreSQL, durable, with a database for each; and a server of ours."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="penstock-bench-"))
        postgres = EmbeddedPostgres(Path(folder))
        postgres.start()
        stack.callback(postgres.stop)
        found = []
        for name in names:
            database = name.replace("-", "_")
            with psycopg.connect(postgres.dsn, autocommit=True) as connection:
                connection.execute(f"create database bench_{database}".encode())
            dsn = _with_database(postgres.dsn, f"bench_{database}")
            address = dsn
            if name in OURS:
                server = stack.enter_context(serving("--database-url", dsn))
                if name == "penstock":
                    address = f"http://{server.host}:{server.port}"
            contender = Contender(name, dsn, address)
            Process(contender, "install", 0).end()
            found.append(contender)
        yield found


def _with_database(dsn: str, name: str) -> str:
    head, question, query = dsn.partition("?")
    return f"{head.rpartition('/')[0]}/{name}{question}{query}"


def compare(names: Sequence[str], measures: Sequence[str], count: int, rounds: int) -> bool:
    kept = True
    print(f"{'measure':8} {'contender':14} {'jobs/s':>8} {'CPU µs/job':>10} {'ratio':>7} {'of CPU':>7}")
    with contenders(names) as found:
        for measure in measures:
            best: dict[str, Found] = {}
            for _ in range(rounds):
                for contender in found:
                    now = MEASURES[measure](contender, count)
                    if contender.name not in best or now.per_second > best[contender.name].per_second:
                        best[contender.name] = now
            kept = show(measure, best) and kept
    return kept


def show(measure: str, best: dict[str, Found]) -> bool:
    peers = [best[name] for name in PEERS if name in best]
    kept = True
    for name, found in best.items():
        line = f"{measure:8} {name:14} {found.per_second:8.0f} {found.cpu_us:10.0f}"
        if name in OURS and peers:
            ratio = found.per_second / max(peer.per_second for peer in peers)
            cheaper = min(peer.cpu_us for peer in peers) / found.cpu_us
            kept = kept and ratio >= PROMISED
            line += f" {ratio:7.2f} {cheaper:7.2f} (promised {PROMISED}: {'kept' if ratio >= PROMISED else 'BROKEN'})"
        print(line, flush=True)
    return kept


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=8000, help="of each round; five times as many in batches")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=[*MEASURES, "depth"], action="append")
    parser.add_argument("--contender", choices=list(CONTENDERS), action="append")
    parser.add_argument("--deep", type=int, default=1_000_000)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    count, rounds = (2000, 1) if options.quick else (options.jobs, options.rounds)
    wanted = options.only or [*MEASURES, "depth"]
    print(
        f"conditions: {conditions()}; PostgreSQL embedded, fsync and synchronous_commit on; {count} jobs, best of "
        f"{rounds} rounds; {PRODUCERS} producers, batches of {BATCH}, {WORKERS} workers with {HANDS} hands each"
    )
    measures = [name for name in MEASURES if name in wanted]
    kept = compare(options.contender or list(CONTENDERS), measures, count, rounds) if measures else True
    if "depth" in wanted:
        kept = asyncio.run(job_depth.run(options.deep)) and kept
    sys.exit(0 if kept else 1)


if __name__ == "__main__":
    main()

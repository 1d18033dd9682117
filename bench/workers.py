"""What does a request cost with one, two or more server processes on one PostgreSQL?

A full cycle over HTTP (send, receive, delete; one message per request) on one queue, against servers with different
`--workers`, in turns. Beside the CPU per request stands how many of PostgreSQL's backends, looked at a hundred times
per second, waited for a lock on a row or an object, for one of PostgreSQL's own short locks, and for the disk.

    python -m bench.workers --workers 1 --workers 2 --rounds 3
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import threading
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import psycopg

from bench.cycle import measure
from bench.processes import Server, conditions, postmaster, serving
from bench.sql.clients import postgres_cpu
from penstock.store.postgres.embedded.server import EmbeddedPostgres

WAITS = """
select wait_event_type, count(*)
from pg_stat_activity
where state = 'active' and pid <> pg_backend_pid()
group by 1
"""
LOOK_S = 0.01


class Watch:
    """What the backends wait for, while a load runs."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._looks = 0
        self._found: Counter[str] = Counter()

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        with psycopg.connect(self._dsn, autocommit=True) as connection:
            while not self._over.wait(LOOK_S):
                self._looks += 1
                for kind, count in connection.execute(WAITS):
                    self._found[kind or "CPU"] += count

    def average(self, kind: str) -> float:
        return self._found[kind] / max(self._looks, 1)


def run(server: Server, dsn: str, postgres_pid: int, connections: int, seconds: float) -> dict[str, float]:
    with Watch(dsn) as watch:
        before = postgres_cpu(postgres_pid)
        found = measure(server, "native", connections, 1, 1_000_000, seconds)
        postgres = postgres_cpu(postgres_pid) - before
    return {
        "per_second": found["messages"] / found["seconds"],
        "server": found["server"],
        "postgres": postgres / found["requests"] * 1e6,
        "lock": watch.average("Lock"),
        "lwlock": watch.average("LWLock"),
        "disk": watch.average("IO"),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, action="append", help="a number of server processes")
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    print(f"conditions: {conditions()}; {options.connections} connections; median of {options.rounds} rounds")
    with ExitStack() as stack:
        data = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="penstock-bench-"))) / "data"
        embedded = EmbeddedPostgres(data)
        embedded.start()
        stack.callback(embedded.stop)
        postgres = postmaster(data)
        servers = {
            count: stack.enter_context(serving("--database-url", embedded.dsn, "--workers", str(count)))
            for count in options.workers or [1, 2]
        }
        next(iter(servers.values())).request("POST", "/v1/queues", {"name": "bench"})
        rounds: dict[int, list[dict[str, float]]] = {count: [] for count in servers}
        for server in servers.values():
            measure(server, "native", 8, 1, 500, 5)  # warm up
        for _ in range(options.rounds):
            for count, server in servers.items():
                rounds[count].append(run(server, embedded.dsn, postgres, options.connections, options.seconds))
    print(f"{'workers':>7} {'msg/s':>7} {'server µs':>9} {'PostgreSQL µs':>13} {'lock':>6} {'LWLock':>6} {'disk':>6}")
    for count, found in rounds.items():
        line = {name: statistics.median(each[name] for each in found) for name in found[0]}
        print(
            f"{count:7} {line['per_second']:7.0f} {line['server']:9.1f} {line['postgres']:13.1f} "
            f"{line['lock']:6.2f} {line['lwlock']:6.2f} {line['disk']:6.2f}"
        )


if __name__ == "__main__":
    main()

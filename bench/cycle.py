"""What does a message cost over HTTP, from send to receive to delete?

For one message per request and for ten, at 1, 8, 32 and 128 connections, on the embedded PostgreSQL (fsync on)
and on a SQLite file (synchronous = full), with natural batching and without. The two ways alternate on servers
that run side by side, so that a noisy machine is noisy to both. CPU is that of the server and of PostgreSQL; the
load generator's is shown apart.

    make bench                              all of it, a few minutes
    python -m bench.cycle --quick           the figures that the ratios are made of
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from contextlib import ExitStack

from bench.processes import Server, conditions, serving, store_flags

CONNECTIONS = (1, 8, 32, 128)
PROMISED = {32: 2.5, 128: 4.0}
"""Batching cuts CPU per request, one message each on PostgreSQL, at least this many times."""

HEADER = (
    f"{'store':9} {'batching':8} {'per req':>7} {'conns':>5} {'msg/s':>8} {'p50 ms':>7} {'p99 ms':>7} "
    f"{'µs/msg':>7} {'µs/req':>7} {'server':>7} {'postgres':>8} {'client':>7}"
)


def measure(server: Server, connections: int, per_request: int, limit: int, seconds: float) -> dict[str, float]:
    command = [sys.executable, "-m", "bench.load", server.host, str(server.port), "bench"]
    before = server.cpu()
    done = subprocess.run(
        [*command, *map(str, (connections, per_request, limit, seconds))],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=seconds + 60,
    )
    spent = server.cpu() - before
    found: dict[str, float] = json.loads(done.stdout)
    requests = found["requests"]
    return found | {
        "per_message": spent.all / max(found["messages"], 1) * 1e6,
        "per_request": spent.all / requests * 1e6,
        "server": spent.server / requests * 1e6,
        "postgres": spent.postgres / requests * 1e6,
        "client": found["cpu"] / requests * 1e6,
    }


def show(store: str, batching: bool, per_request: int, connections: int, found: dict[str, float]) -> None:
    print(
        f"{store:9} {'on' if batching else 'off':8} {per_request:7} {connections:5} "
        f"{found['messages'] / found['seconds']:8.0f} {found['p50_ms']:7.2f} {found['p99_ms']:7.2f} "
        f"{found['per_message']:7.1f} {found['per_request']:7.1f} {found['server']:7.1f} {found['postgres']:8.1f} "
        f"{found['client']:7.1f}",
        flush=True,
    )


def run_store(store: str, connections: tuple[int, ...], sizes: tuple[int, ...], limit: int, seconds: float) -> bool:
    kept = True
    with ExitStack() as stack:
        servers = {}
        for batching in (True, False):
            flags = stack.enter_context(store_flags(store))
            flag = "--batching" if batching else "--no-batching"
            servers[batching] = stack.enter_context(serving(*flags, flag))
            servers[batching].request("POST", "/v1/queues", {"name": "bench"})
            measure(servers[batching], 8, 1, 500, 5)  # warm up
        for per_request in sizes:
            for count in connections:
                cost = {}
                for batching, server in servers.items():
                    found = measure(server, count, per_request, limit, seconds)
                    show(store, batching, per_request, count, found)
                    cost[batching] = found["per_request"]
                if store == "postgres" and per_request == 1 and count in PROMISED:
                    ratio = cost[False] / cost[True]
                    good = ratio >= PROMISED[count]
                    kept = kept and good
                    print(
                        f"{'':9} unbatched / batched CPU per request at {count} connections: {ratio:.2f} "
                        f"(promised {PROMISED[count]}: {'kept' if good else 'BROKEN'})"
                    )
    return kept


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", choices=["postgres", "sqlite", "memory"], action="append")
    parser.add_argument("--seconds", type=float, default=4.0, help="at most this long per line")
    parser.add_argument("--messages", type=int, default=20_000, help="at most this many per line")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    print(
        f"conditions: {conditions()}; bodies of 200 bytes; at most {options.messages} messages or {options.seconds} s"
    )
    print(HEADER)
    kept = True
    for store in options.store or (["postgres"] if options.quick else ["postgres", "sqlite"]):
        connections = tuple(PROMISED) if options.quick else CONNECTIONS
        sizes = (1,) if options.quick else (1, 10)
        kept = run_store(store, connections, sizes, options.messages, options.seconds) and kept
    sys.exit(0 if kept else 1)


if __name__ == "__main__":
    main()

"""What does a message cost over HTTP, from send to receive to delete?

For one message per request and for ten, at 1, 8, 32 and 128 connections, on the embedded PostgreSQL (fsync on)
and on a SQLite file (synchronous = full), with natural batching and without. The two ways alternate on servers
that run side by side, so that a noisy machine is noisy to both. CPU is that of the server and of PostgreSQL; the
load generator's is shown apart.

    python -m bench.cycle                   all of it, a few minutes
    python -m bench.cycle --quick           the numbers that the ratios are computed from
    python -m bench.cycle --quick --door native --door sqs     what SQS costs beside the native door
    python -m bench.cycle --quick --store memory --door native --door simple --rounds 3     and the simple protocol

The simple protocol has a queue of its own: its first use creates it, bounded and with numbered messages.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from bench.processes import Server, conditions, serving, store_flags

CONNECTIONS = (1, 8, 32, 128)
PROMISED = {32: 2.5, 128: 4.0}
"""Batching cuts CPU per request, one message each on PostgreSQL, at least this many times."""

PROMISED_DOOR = 1.25
"""SQS costs at most this many times the CPU of the native door."""

PROMISED_SIMPLE = 1.0
"""In memory the simple protocol costs at most this many times the CPU of the native door."""

Measured = dict[tuple[str, bool], dict[str, float]]
"""By door, and by whether requests are batched."""

HEADER = (
    f"{'store':9} {'door':6} {'batching':8} {'per req':>7} {'conns':>5} {'msg/s':>8} {'p50 ms':>7} {'p99 ms':>7} "
    f"{'µs/msg':>7} {'µs/req':>7} {'server':>7} {'postgres':>8} {'client':>7}"
)


def measure(
    server: Server, door: str, connections: int, per_request: int, limit: int, seconds: float
) -> dict[str, float]:
    queue = "bench-simple" if door == "simple" else "bench"
    command = [sys.executable, "-m", "bench.load", door, server.host, str(server.port), queue]
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


def show(store: str, door: str, batching: bool, per_request: int, connections: int, found: dict[str, float]) -> None:
    print(
        f"{store:9} {door:6} {'on' if batching else 'off':8} {per_request:7} {connections:5} "
        f"{found['messages'] / found['seconds']:8.0f} {found['p50_ms']:7.2f} {found['p99_ms']:7.2f} "
        f"{found['per_message']:7.1f} {found['per_request']:7.1f} {found['server']:7.1f} {found['postgres']:8.1f} "
        f"{found['client']:7.1f}",
        flush=True,
    )


def promise(text: str, ratio: float, kept: bool, bound: float) -> bool:
    print(f"{'':9} {text}: {ratio:.2f} (promised {bound}: {'kept' if kept else 'BROKEN'})", flush=True)
    return kept


@dataclass(frozen=True)
class Load:
    limit: int
    seconds: float
    rounds: int


def best(servers: dict[bool, Server], doors: Sequence[str], count: int, per_request: int, load: Load) -> Measured:
    """Of each way its cheapest round. The ways take turns, and what else the machine does only ever adds."""
    found: Measured = {}
    for _ in range(load.rounds):
        for batching, server in servers.items():
            for door in doors:
                now = measure(server, door, count, per_request, load.limit, load.seconds)
                known = found.get((door, batching))
                if known is None or now["per_request"] < known["per_request"]:
                    found[door, batching] = now
    return found


def run_store(store: str, doors: Sequence[str], connections: Sequence[int], sizes: Sequence[int], load: Load) -> bool:
    kept = True
    with ExitStack() as stack:
        servers = {}
        for batching in (True, False):
            flags = [*stack.enter_context(store_flags(store)), *(["--simple"] if "simple" in doors else [])]
            flag = "--batching" if batching else "--no-batching"
            servers[batching] = stack.enter_context(serving(*flags, flag))
            servers[batching].request("POST", "/v1/queues", {"name": "bench"})
            for door in doors:
                measure(servers[batching], door, 8, 1, 500, 5)  # warm up
        for per_request in sizes:
            for count in connections:
                found = best(servers, doors, count, per_request, load)
                for (door, batching), line in found.items():
                    show(store, door, batching, per_request, count, line)
                kept = judge(store, doors, per_request, count, found) and kept
    return kept


def judge(store: str, doors: Sequence[str], per_request: int, connections: int, found: Measured) -> bool:
    cost = {way: line["per_request"] for way, line in found.items()}
    kept = True
    if store == "postgres" and per_request == 1 and connections in PROMISED:
        for door in doors:
            ratio = cost[door, False] / cost[door, True]
            text = f"unbatched / batched CPU per request at {connections} connections"
            kept = promise(text, ratio, ratio >= PROMISED[connections], PROMISED[connections]) and kept
    if "native" in doors and "sqs" in doors:
        ratio = cost["sqs", True] / cost["native", True]
        text = f"SQS / native CPU per request at {connections} connections"
        kept = promise(text, ratio, ratio <= PROMISED_DOOR, PROMISED_DOOR) and kept
    if "native" in doors and "simple" in doors:
        ratio = cost["simple", True] / cost["native", True]
        text = f"simple / native CPU per request at {connections} connections"
        if store == "memory":
            kept = promise(text, ratio, ratio <= PROMISED_SIMPLE, PROMISED_SIMPLE) and kept
        else:
            print(f"{'':9} {text}: {ratio:.2f}", flush=True)
    return kept


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", choices=["postgres", "sqlite", "memory"], action="append")
    parser.add_argument("--door", choices=["native", "sqs", "simple"], action="append")
    parser.add_argument("--seconds", type=float, default=4.0, help="at most this long per line")
    parser.add_argument("--messages", type=int, default=20_000, help="at most this many per line")
    parser.add_argument("--rounds", type=int, default=1, help="measure each way so often, and show its cheapest")
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
        load = Load(options.messages, options.seconds, options.rounds)
        kept = run_store(store, options.door or ["native"], connections, sizes, load) and kept
    sys.exit(0 if kept else 1)


if __name__ == "__main__":
    main()

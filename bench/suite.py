"""Penstock beside its peers: `make bench`.

Two comparisons, each with all contenders on this machine, in this run, taking turns round by round:

- over HTTP: a full cycle of SQS (send, receive, delete; one message per request), against moto and ministack, which
  keep their messages in memory; Penstock durable on PostgreSQL, on a SQLite file, and in memory;
- jobs: enqueued one by one, in batches, and through a full cycle, against procrastinate and pgqueuer on the same
  PostgreSQL, durable all of them.

A figure is the median of the rounds, with the lowest and the highest beside it. The table goes to standard output, all
rounds to bench/results/suite.json, charts to docs/img. `bench/sql.py` compares the SQL functions.

    make bench                                everything, about ten minutes
    python -m bench.suite --only http --rounds 3 --seconds 3
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bench import charts, jobs, peers
from bench.contenders import CONTENDERS
from bench.processes import Server, conditions, serving, store_flags

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "bench" / "results" / "suite.json"
IMAGES = ROOT / "docs" / "img"
CONNECTIONS = 32
OURS = {"penstock, PostgreSQL": "postgres", "penstock, SQLite": "sqlite", "penstock, memory": "memory"}
PEERS = {"moto, memory": "moto", "ministack, memory": "ministack"}

Rounds = dict[str, list[dict[str, float]]]
"""By contender, of each round: messages per second and CPU µs per message."""


def sqs_queue(server: Server) -> str:
    """The URL of a new queue, as the server itself gives it."""
    scope = "20260101/us-east-1/sqs/aws4_request"
    headers = {
        "X-Amz-Target": "AmazonSQS.CreateQueue",
        "Content-Type": "application/x-amz-json-1.0",
        "Authorization": f"AWS4-HMAC-SHA256 Credential=bench/{scope}, SignedHeaders=host, Signature={'0' * 64}",
    }
    request = urllib.request.Request(f"http://{server.host}:{server.port}/", b'{"QueueName":"bench"}', headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        url: str = json.load(answer)["QueueUrl"]
        return url


def sqs_cycle(server: Server, queue: str, seconds: float) -> dict[str, float]:
    command = [sys.executable, "-m", "bench.load", "sqs", server.host, str(server.port), queue]
    before = server.cpu()
    done = subprocess.run(
        [*command, str(CONNECTIONS), "1", "1000000", str(seconds)],
        stdout=subprocess.PIPE, text=True, check=True, timeout=seconds + 60,
    )  # fmt: skip
    spent = server.cpu() - before
    found = json.loads(done.stdout)
    messages = max(found["messages"], 1)
    return {
        "per_second": found["messages"] / found["seconds"],
        "cpu_us": spent.all / messages * 1e6,
        "p99_ms": found["p99_ms"],
    }


def over_http(rounds: int, seconds: float) -> dict[str, Rounds]:
    with ExitStack() as stack:
        servers: dict[str, tuple[Server, str]] = {}
        for name, store in OURS.items():
            server = stack.enter_context(serving(*stack.enter_context(store_flags(store))))
            servers[name] = server, sqs_queue(server)
        for name, peer in PEERS.items():
            server = stack.enter_context(peers.running(peer))
            servers[name] = server, sqs_queue(server)
        for server, queue in servers.values():
            sqs_cycle(server, queue, 1.0)  # warm up
        found: Rounds = {name: [] for name in servers}
        for _ in range(rounds):
            for name, (server, queue) in servers.items():
                found[name].append(sqs_cycle(server, queue, seconds))
    return {f"SQS cycle, {CONNECTIONS} connections": found}


def of_jobs(rounds: int, count: int) -> dict[str, Rounds]:
    results: dict[str, Rounds] = {}
    shown = {"penstock": "penstock, HTTP", "in-process": "penstock, in process"}
    with jobs.contenders(list(CONTENDERS)) as contenders:
        for name, measure in jobs.MEASURES.items():
            found: Rounds = {shown.get(each.name, each.name): [] for each in contenders}
            for _ in range(rounds):
                for each in contenders:
                    now = measure(each, count)
                    found[shown.get(each.name, each.name)].append({"per_second": now.per_second, "cpu_us": now.cpu_us})
            results[f"jobs, {name}"] = found
    return results


def spread(rounds: list[dict[str, float]], figure: str) -> tuple[float, float, float]:
    values = sorted(each[figure] for each in rounds)
    return values[0], statistics.median(values), values[-1]


def show(results: dict[str, Rounds]) -> None:
    print(f"| {'measure':26} | {'contender':22} | {'messages/s':>10} | {'lowest–highest':>16} | {'CPU µs':>8} |")
    print(f"|{'-' * 28}|{'-' * 24}|{'-' * 12}|{'-' * 18}|{'-' * 10}|")
    for measure, found in results.items():
        for name, rounds in found.items():
            low, median, high = spread(rounds, "per_second")
            cpu = spread(rounds, "cpu_us")[1]
            print(f"| {measure:26} | {name:22} | {median:10,.0f} | {f'{low:,.0f}–{high:,.0f}':>16} | {cpu:8,.0f} |")


def draw(results: dict[str, Rounds]) -> None:
    for measure, found in results.items():
        stem = "bench-" + "-".join(part.strip(",").lower() for part in measure.split() if not part.isdigit())
        for figure, unit in (("per_second", "messages/s"), ("cpu_us", "CPU µs per message")):
            values = {name: spread(rounds, figure) for name, rounds in found.items()}
            suffix = "" if figure == "per_second" else "-cpu"
            charts.bars(measure, unit, values, IMAGES / f"{stem}{suffix}.svg")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=["http", "jobs"], action="append", help="only this comparison")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each contender, at least 3")
    parser.add_argument("--seconds", type=float, default=5.0, help="length of a round over HTTP")
    parser.add_argument("--jobs", type=int, default=4000, help="jobs of a round")
    options = parser.parse_args()
    rounds = max(options.rounds, 3)
    parts: dict[str, Callable[[], dict[str, Rounds]]] = {
        "http": lambda: over_http(rounds, options.seconds),
        "jobs": lambda: of_jobs(rounds, options.jobs),
    }
    said = f"{conditions()}; bodies of 200 bytes; median of {rounds} rounds"
    print(f"conditions: {said}", flush=True)
    results: dict[str, Any] = {}
    for part in options.only or list(parts):
        results |= parts[part]()
    show(results)
    draw(results)
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text(json.dumps({"conditions": said, "rounds": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()

"""Penstock beside its peers: `make bench`.

Three comparisons, each with all contenders on this machine, in this run, taking turns round by round:

- over HTTP: a full cycle of SQS (send, receive, delete; one message per request), against moto and ministack, which
  keep their messages in memory; Penstock durable on PostgreSQL, on a SQLite file, and in memory;
- brokers: a full cycle (send, receive, acknowledge; one message each) against Redis lists, Redis streams and RabbitMQ,
  durable all of them;
- jobs: enqueued one by one, in batches, and through a full cycle, against procrastinate and pgqueuer on the same
  PostgreSQL and Celery on Redis and on RabbitMQ, durable all of them.

A peer that cannot be had on this machine is named, and left out.

A figure is the median of the rounds, with the lowest and the highest beside it. The table goes to standard output, all
rounds to bench/results/suite.json, charts to docs/img. `bench/sql.py` compares the SQL functions.

    make bench                                everything, about ten minutes
    python -m bench.suite --only http --rounds 3 --seconds 3
"""

from __future__ import annotations

import argparse
import json
import signal
import statistics
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from bench import brokers, celery_peer, charts, jobs, peers
from bench.celery_peer import CeleryPeer
from bench.contenders import CONTENDERS
from bench.processes import Server, conditions, serving, store_flags

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "bench" / "results" / "suite.json"
IMAGES = ROOT / "docs" / "img"
CONNECTIONS = 32
OURS = {"penstock, PostgreSQL": "postgres", "penstock, SQLite": "sqlite", "penstock, memory": "memory"}
PEERS = {"moto, memory": "moto", "ministack, memory": "ministack"}

BROKERS = {"Redis list": ("redis", "list"), "Redis stream": ("redis", "stream"), "RabbitMQ": ("rabbitmq", "rabbitmq")}

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


def cycle(server: Server, module: str, words: Sequence[str], seconds: float) -> dict[str, float]:
    """A load by a process of its own; the CPU is that of the server."""
    before = server.cpu()
    done = subprocess.run(
        [sys.executable, "-m", module, *words, str(seconds)],
        stdout=subprocess.PIPE, text=True, check=True, timeout=seconds + 60,
    )  # fmt: skip
    spent = server.cpu() - before
    found = json.loads(done.stdout)
    return {
        "per_second": found["messages"] / found["seconds"],
        "cpu_us": spent.all / max(found["messages"], 1) * 1e6,
        "p99_ms": found.get("p99_ms", 0.0),
    }


def http_cycle(server: Server, door: str, queue: str, seconds: float) -> dict[str, float]:
    words = [door, server.host, str(server.port), queue, str(CONNECTIONS), "1", "1000000"]
    return cycle(server, "bench.load", words, seconds)


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
            http_cycle(server, "sqs", queue, 1.0)  # warm up
        found: Rounds = {name: [] for name in servers}
        for _ in range(rounds):
            for name, (server, queue) in servers.items():
                found[name].append(http_cycle(server, "sqs", queue, seconds))
    return {f"SQS cycle, {CONNECTIONS} connections": found}


def with_brokers(rounds: int, seconds: float) -> dict[str, Rounds]:
    with ExitStack() as stack:
        ours = {}
        for name, store in OURS.items():
            ours[name] = stack.enter_context(serving(*stack.enter_context(store_flags(store))))
            ours[name].request("POST", "/v1/queues", {"name": "bench"})
        measures: dict[str, Callable[[float], dict[str, float]]] = {
            name: partial(http_cycle, server, "native", "bench") for name, server in ours.items()
        }
        running: dict[str, Server] = {}
        for name, (program, kind) in BROKERS.items():
            try:
                if program not in running:
                    running[program] = stack.enter_context(brokers.running(program))
            except brokers.Missing as missing:
                print(f"{name}: not measured, {missing}", file=sys.stderr, flush=True)
                continue
            server = running[program]
            measures[name] = partial(cycle, server, "bench.broker_load", [kind, str(server.port), str(CONNECTIONS)])
        for measure in measures.values():
            measure(1.0)  # warm up
        found: Rounds = {name: [] for name in measures}
        for _ in range(rounds):
            for name, measure in measures.items():
                found[name].append(measure(seconds))
    return {f"queue cycle, {CONNECTIONS} connections": found}


def of_jobs(rounds: int, count: int) -> dict[str, Rounds]:
    results: dict[str, Rounds] = {}
    shown = {"penstock": "penstock, HTTP", "in-process": "penstock, in process"}
    with ExitStack() as stack:
        contenders = stack.enter_context(jobs.contenders(list(CONTENDERS)))
        celery = celery_peers(stack)
        for name, measure in jobs.MEASURES.items():
            ways: dict[str, Callable[[], jobs.Found]] = {
                shown.get(each.name, each.name): partial(measure, each, count) for each in contenders
            } | {each: partial(peer.measure, name, count) for each, peer in celery.items()}
            found: Rounds = {each: [] for each in ways}
            for _ in range(rounds):
                for each, way in ways.items():
                    now = way()
                    found[each].append({"per_second": now.per_second, "cpu_us": now.cpu_us})
            results[f"jobs, {name}"] = found
    return results


def celery_peers(stack: ExitStack) -> dict[str, CeleryPeer]:
    found = {}
    for name, broker in (("Celery on Redis", "redis"), ("Celery on RabbitMQ", "rabbitmq")):
        try:
            found[name] = stack.enter_context(celery_peer.running(broker))
        except brokers.Missing as missing:
            print(f"{name}: not measured, {missing}", file=sys.stderr, flush=True)
    return found


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
    parser.add_argument("--only", choices=["http", "brokers", "jobs"], action="append", help="only this comparison")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each contender, at least 3")
    parser.add_argument("--seconds", type=float, default=5.0, help="length of a round over HTTP")
    parser.add_argument("--jobs", type=int, default=4000, help="jobs of a round")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started is stopped
    rounds = max(options.rounds, 3)
    parts: dict[str, Callable[[], dict[str, Rounds]]] = {
        "http": lambda: over_http(rounds, options.seconds),
        "brokers": lambda: with_brokers(rounds, options.seconds),
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
    known = json.loads(RESULTS.read_text())["rounds"] if RESULTS.exists() and options.only else {}
    RESULTS.write_text(json.dumps({"conditions": said, "rounds": known | results}, indent=1) + "\n")


if __name__ == "__main__":
    main()

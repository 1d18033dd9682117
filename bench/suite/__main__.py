"""Penstock beside its peers: `make bench`.

Four comparisons, each with all contenders on this machine, in this run, taking turns round by round:

- over HTTP: a full cycle of SQS (send, receive, delete; one message per request), against moto and ministack, which
  keep their messages in memory; Penstock durable on PostgreSQL, on a SQLite file, and in memory;
- brokers: a full cycle (send, receive, acknowledge; one message each) against Redis lists, Redis streams and RabbitMQ,
  durable all of them;
- jobs: enqueued one by one, in batches, and through a full cycle, against procrastinate and pgqueuer on the same
  PostgreSQL and Celery on Redis and on RabbitMQ, durable all of them;
- SQL: the functions of Penstock against those of PGMQ and against plain inserts, in the same PostgreSQL; none waits
  for the disk.

Peers are installed from PyPI and Debian by the suite itself; one that cannot be had on this machine is named, and left
out.

A figure is the median of the rounds, with the lowest and the highest beside it. The table goes to standard output, all
rounds to bench/results/suite.json, charts to docs/img. The CPU is that of servers and databases, with jobs also that of
producers and workers.

    make bench                                everything, about ten minutes
    python -m bench.suite --only http --rounds 5 --seconds 10
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import statistics
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from bench import jobs
from bench.processes import Missing, Server, conditions, postmaster, serving, store_flags
from bench.progress import Progress
from bench.sql import clients
from bench.suite import brokers, celery_peer, charts, peers
from bench.suite.celery_peer import CeleryPeer
from bench.suite.charts import Column, Spread
from bench.suite.contenders import BATCH, CONTENDERS, PRODUCERS
from penstock.store.postgres.embedded.server import EmbeddedPostgres
from penstock.store.postgres.migrate import migrate

ROOT = Path(__file__).parent.parent.parent
RESULTS = ROOT / "bench" / "results" / "suite.json"
IMAGES = ROOT / "docs" / "img"
CONNECTIONS = 32
OURS = {"penstock, PostgreSQL": "postgres", "penstock, SQLite": "sqlite", "penstock, memory": "memory"}
PEERS = {"moto, memory": "moto", "ministack, memory": "ministack"}

BROKERS = {"Redis list": ("redis", "list"), "Redis stream": ("redis", "stream"), "RabbitMQ": ("rabbitmq", "rabbitmq")}
MEASURES = {
    "single": f"enqueue one by one: {PRODUCERS} at a time",
    "batch": f"enqueue in batches of {BATCH}",
    "cycle": f"enqueue one by one, run, complete: {jobs.WORKERS} workers",
}
"""Of jobs."""
JOBS = {"penstock": "penstock, HTTP", "in-process": "penstock, in process"}
CELERY = {"Celery on Redis": "redis", "Celery on RabbitMQ": "rabbitmq"}
SQL = {"penstock": "penstock", "pgmq": "PGMQ", "plain": "plain SQL"}

STEPS = {
    "http": len(OURS) + len(PEERS),
    "brokers": len(OURS) + len(BROKERS),
    "jobs": len(jobs.MEASURES) * (len(CONTENDERS) + len(CELERY)),
    "sql": len(clients.loads(with_pgmq=True)),
}
"""Of a round."""

TITLES = {
    "http": "Amazon SQS over HTTP",
    "brokers": "Queues beside message brokers",
    "jobs": "Jobs",
    "sql": "Queues from SQL",
}
FIGURES = {"per_second": "per second: longer is better", "cpu_us": "CPU µs of each: shorter is better"}

Round = dict[str, float]
"""Messages per second and CPU µs per message."""

Rounds = dict[str, list[Round]]
"""By contender."""

Peer = TypeVar("Peer")


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


def take_turns(measures: Mapping[str, Callable[[], Round]], rounds: int, progress: Progress) -> Rounds:
    """Each contender once in every round. One that fails is named, and left out from then on."""
    found: Rounds = {name: [] for name in measures}
    for number in range(rounds):
        for name in list(found):
            progress.begin(f"round {number + 1} of {rounds}: {name}")
            try:
                found[name].append(measures[name]())
            except Missing as missing:
                progress.say(f"{name}: not measured, {missing}")
                del found[name]
            progress.end_step()
    return found


def had(stack: ExitStack, name: str, peer: AbstractContextManager[Peer], progress: Progress) -> Peer | None:
    """A peer that runs; None, and its name told, when it cannot be had on this machine."""
    progress.begin(f"starting {name}")
    try:
        return stack.enter_context(peer)
    except Missing as missing:
        progress.say(f"{name}: not measured, {missing}")
        return None


def over_http(rounds: int, seconds: float, progress: Progress) -> dict[str, Rounds]:
    with ExitStack() as stack:
        servers = {
            name: stack.enter_context(serving(*stack.enter_context(store_flags(store)))) for name, store in OURS.items()
        }
        for name, peer in PEERS.items():
            server = had(stack, name, peers.running(peer), progress)
            if server is not None:
                servers[name] = server
        measures: dict[str, Callable[[], Round]] = {}
        for name, server in servers.items():
            queue = sqs_queue(server)
            http_cycle(server, "sqs", queue, 1.0)  # warm up
            measures[name] = partial(http_cycle, server, "sqs", queue, seconds)
        found = take_turns(measures, rounds, progress)
    return {f"SendMessage, ReceiveMessage, DeleteMessage: {CONNECTIONS} connections": found}


def with_brokers(rounds: int, seconds: float, progress: Progress) -> dict[str, Rounds]:
    with ExitStack() as stack:
        measures: dict[str, Callable[[float], Round]] = {}
        for name, store in OURS.items():
            server = stack.enter_context(serving(*stack.enter_context(store_flags(store))))
            server.request("POST", "/v1/queues", {"name": "bench"})
            measures[name] = partial(http_cycle, server, "native", "bench")
        running: dict[str, Server | None] = {}
        for name, (program, kind) in BROKERS.items():
            if program not in running:
                running[program] = had(stack, name, brokers.running(program), progress)
            broker = running[program]
            if broker is not None:
                words = [kind, str(broker.port), str(CONNECTIONS)]
                measures[name] = partial(cycle, broker, "bench.suite.broker_load", words)
        for measure in measures.values():
            measure(1.0)  # warm up
        found = take_turns({name: partial(way, seconds) for name, way in measures.items()}, rounds, progress)
    return {f"send, receive, delete: {CONNECTIONS} connections": found}


def of_jobs(rounds: int, count: int, progress: Progress) -> dict[str, Rounds]:
    def round_of(way: Callable[[], jobs.Found]) -> Round:
        found = way()
        return {"per_second": found.per_second, "cpu_us": found.cpu_us}

    results: dict[str, Rounds] = {}
    with ExitStack() as stack:
        contenders = stack.enter_context(jobs.contenders(list(CONTENDERS)))
        celery: dict[str, CeleryPeer] = {}
        for name, broker in CELERY.items():
            peer = had(stack, name, celery_peer.running(broker), progress)
            if peer is not None:
                celery[name] = peer
        for name, measure in jobs.MEASURES.items():
            ways: Mapping[str, Callable[[], jobs.Found]] = {
                JOBS.get(each.name, each.name): partial(measure, each, count) for each in contenders
            } | {each: partial(peer.measure, name, count) for each, peer in celery.items()}
            measures = {each: partial(round_of, way) for each, way in ways.items()}
            results[MEASURES[name]] = take_turns(measures, rounds, progress)
    return results


def from_sql(rounds: int, progress: Progress) -> dict[str, Rounds]:
    with sql_database() as (dsn, server):
        with_pgmq = True
        try:
            asyncio.run(clients.install_pgmq(dsn, peers.pgmq()))
        except Missing as missing:
            progress.say(f"PGMQ: not measured, {missing}")
            with_pgmq = False

        def tell(title: str) -> None:
            progress.begin(f"SQL: {title}")
            progress.end_step(rounds)

        loads = asyncio.run(clients.run(dsn, server, rounds, with_pgmq, tell))
    return {
        load.title: {
            SQL[name]: [
                {"per_second": rate, "cpu_us": cost} for rate, cost in zip(rates, load.costs[name], strict=True)
            ]
            for name, rates in load.rates.items()
        }
        for load in loads
    }


@contextmanager
def sql_database() -> Iterator[tuple[str, int]]:
    """An embedded PostgreSQL with our functions: its DSN, and the id of its process."""
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        Path(folder).chmod(0o755)
        embedded = EmbeddedPostgres(Path(folder) / "data")
        embedded.start()
        try:
            asyncio.run(migrate(embedded.dsn))
            yield embedded.dsn, postmaster(Path(folder) / "data")
        finally:
            embedded.stop()


def spread(rounds: list[Round], figure: str) -> Spread:
    values = sorted(each[figure] for each in rounds)
    return values[0], statistics.median(values), values[-1]


def show(results: dict[str, Rounds]) -> None:
    print(f"| {'measure':62} | {'contender':22} | {'per second':>10} | {'lowest–highest':>17} | {'CPU µs':>8} |")
    print(f"|{'-' * 64}|{'-' * 24}|{'-' * 12}|{'-' * 19}|{'-' * 10}|")
    for measure, found in results.items():
        for name, rounds in found.items():
            low, median, high = spread(rounds, "per_second")
            cpu = spread(rounds, "cpu_us")[1]
            print(f"| {measure:62} | {name:22} | {median:10,.0f} | {f'{low:,.0f}–{high:,.0f}':>17} | {cpu:8,.1f} |")


def draw(part: str, said: str, results: dict[str, Rounds]) -> None:
    columns = [
        Column(
            caption,
            {
                measure: {name: spread(rounds, figure) for name, rounds in found.items()}
                for measure, found in results.items()
            },
        )
        for figure, caption in FIGURES.items()
    ]
    charts.draw(TITLES[part], said, columns, IMAGES / f"bench-{part}.svg")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=list(STEPS), action="append", help="only this comparison")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of each contender, at least 3")
    parser.add_argument("--seconds", type=float, default=4.0, help="length of a round over HTTP and with brokers")
    parser.add_argument("--jobs", type=int, default=1600, help="jobs of a round")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started is stopped
    rounds = max(options.rounds, 3)
    parts: dict[str, Callable[[Progress], dict[str, Rounds]]] = {
        "http": lambda progress: over_http(rounds, options.seconds, progress),
        "brokers": lambda progress: with_brokers(rounds, options.seconds, progress),
        "jobs": lambda progress: of_jobs(rounds, options.jobs, progress),
        "sql": lambda progress: from_sql(rounds, progress),
    }
    said = f"{conditions()}; median of {rounds} rounds, and the lowest and highest"
    print(f"conditions: {said}", flush=True)
    wanted = [part for part in parts if part in (options.only or parts)]
    progress = Progress(rounds * sum(STEPS[part] for part in wanted))
    results: dict[str, Any] = {}
    for part in wanted:
        found = parts[part](progress)
        draw(part, said, found)
        results[part] = {"conditions": said, "rounds": found}
    progress.end()
    show({measure: rounds for part in results.values() for measure, rounds in part["rounds"].items()})
    known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text(json.dumps(known | results, indent=1) + "\n")


if __name__ == "__main__":
    main()

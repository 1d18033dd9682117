"""How long does an event take from its sender to the handler of a waiting consumer?

A producer sends one event at a time, with pauses, and the consumer has nothing to do in between: the time from before
the send to the first line of the handler, the commit included. Once with nobody ticking but the consumer itself, once
with a server beside it whose ticker runs as usual. The promise: half of the events take less than 15 ms.

    python -m bench.consumer_latency
    python -m bench.consumer_latency --events 1000 --kind async
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import penstock
from bench.processes import conditions, serving
from penstock.consumer import Message
from penstock.store.postgres.embedded.server import EmbeddedPostgres
from penstock.store.postgres.migrate import migrate

PROMISED_MS = 15.0
Stop = Callable[[], None]


def consume_in_thread(dsn: str, queue: str, kind: str, handle: Callable[[Message], None]) -> Stop:
    if kind == "sync":
        consumer = penstock.Consumer(dsn, queue, "bench")
        consumer.on("*")(handle)
        thread = threading.Thread(target=consumer.start)
        stop = consumer.stop
    else:
        loop = asyncio.new_event_loop()
        other = penstock.AsyncConsumer(dsn, queue, "bench")
        other.on("*")(handle)
        thread = threading.Thread(target=lambda: loop.run_until_complete(other.start()))

        def stop() -> None:
            loop.call_soon_threadsafe(other.stop)

    thread.start()

    def end() -> None:
        stop()
        thread.join(30)

    return end


def measure(dsn: str, kind: str, events: int) -> list[float]:
    """Milliseconds of each event, sorted."""
    queue = f"latency-{kind}-{time.time_ns() % 1_000_000}"
    arrived: dict[int, float] = {}
    change = threading.Condition()

    def handle(message: Message) -> None:
        now = time.perf_counter()
        with change:
            arrived[message.payload] = now
            change.notify_all()

    with penstock.connect(dsn) as producer:
        producer.connection.execute("select pgque.create_queue(%s)", [queue])
        producer.connection.execute("select pgque.subscribe(%s, 'bench')", [queue])
        stop = consume_in_thread(dsn, queue, kind, handle)
        took = []
        try:
            for number in range(events + 20):
                # Longer and shorter than the period of a ticker, so that no rhythm helps.
                time.sleep(random.uniform(0.01, 0.25))
                sent = time.perf_counter()
                producer.send(queue, number)
                with change:
                    if not change.wait_for(lambda number=number: number in arrived, 30):  # type: ignore[misc]
                        raise SystemExit("an event did not arrive")
                took.append((arrived[number] - sent) * 1000)
        finally:
            stop()
    return sorted(took[20:])


def report(name: str, took: list[float]) -> float:
    def at(share: float) -> float:
        return took[min(int(len(took) * share), len(took) - 1)]

    print(
        f"{name:<28} p50 {at(0.5):6.2f} ms   p95 {at(0.95):6.2f} ms   p99 {at(0.99):6.2f} ms   max {took[-1]:6.2f} ms"
    )
    return at(0.5)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--events", type=int, default=200)
    parser.add_argument("--kind", choices=["sync", "async", "both"], default="both")
    arguments = parser.parse_args()
    kinds = ["sync", "async"] if arguments.kind == "both" else [arguments.kind]
    print(f"{conditions()}, {arguments.events} events each")
    halves = []
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        server = EmbeddedPostgres(Path(folder))
        server.start()
        try:
            asyncio.run(migrate(server.dsn))
            for kind in kinds:
                halves.append(report(f"{kind}, no server", measure(server.dsn, kind, arguments.events)))
            with serving("--database-url", server.dsn):
                for kind in kinds:
                    halves.append(report(f"{kind}, beside a server", measure(server.dsn, kind, arguments.events)))
        finally:
            server.stop()
    if max(halves) >= PROMISED_MS:
        print(f"FAILED: half of the events should take less than {PROMISED_MS} ms")
        sys.exit(1)


if __name__ == "__main__":
    main()

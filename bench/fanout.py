"""What does it cost to publish to many?

Events to 1, 10 and 100 subscribed queues, and events with 10 000 patterns of which 5 fit; each over 8 connections, on
the embedded PostgreSQL (fsync on) and on a SQLite file. CPU is that of the server and of PostgreSQL, per delivery: per
message that came to stand in a queue.

    python -m bench.fanout              all of it, a minute or two
    python -m bench.fanout --quick      shorter rounds
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from contextlib import ExitStack

from bench.processes import Server, conditions, serving, store_flags

CONNECTIONS = 8
PATTERNS = 10_000
FITTING = 5
PROMISED = 1.3
"""A delivery among a hundred costs at most this many times one among ten."""

HEADER = (
    f"{'store':9} {'case':24} {'publish/s':>10} {'deliver/s':>10} {'µs CPU/delivery':>16} {'p50 ms':>7} {'p99 ms':>7}"
)


class Line:
    """One HTTP connection, as plain as can be: the load must cost less than what it measures."""

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port

    async def open(self) -> None:
        self._reader, self._writer = await asyncio.open_connection(self._host, self._port)

    async def post(self, path: str, body: bytes) -> bytes:
        head = f"POST {path} HTTP/1.1\r\nhost: bench\r\nauthorization: Bearer b\r\ncontent-length: {len(body)}\r\n\r\n"
        self._writer.write(head.encode() + body)
        answer = await self._reader.readuntil(b"\r\n\r\n")
        status = int(answer[9:12])
        length = int(next(line[16:] for line in answer.split(b"\r\n") if line.lower().startswith(b"content-length")))
        content = await self._reader.readexactly(length)
        if status not in (200, 201):
            raise RuntimeError(f"{path}: {status} {content[:200]!r}")
        return content

    def close(self) -> None:
        self._writer.close()


async def subscribe(server: Server, subscriptions: list[tuple[str, str]]) -> None:
    """Pattern and queue of each."""
    waiting = list(reversed(subscriptions))

    async def some() -> None:
        line = Line(server.host, server.port)
        await line.open()
        while waiting:
            pattern, queue = waiting.pop()
            path = f"/v1/events/{pattern.replace('#', '%23')}/subscriptions"
            await line.post(path, json.dumps({"queue_name": queue}).encode())
        line.close()

    await asyncio.gather(*(some() for _ in range(CONNECTIONS)))


async def publish(server: Server, key: str, seconds: float) -> tuple[list[float], int]:
    """How long each publish took, and how many messages came of them."""
    times: list[float] = []
    delivered = 0
    body = json.dumps({"message": {"customer": "ada", "text": "x" * 200}}).encode()
    until = time.perf_counter() + seconds

    async def some() -> None:
        nonlocal delivered
        line = Line(server.host, server.port)
        await line.open()
        while (began := time.perf_counter()) < until:
            answer = json.loads(await line.post(f"/v1/events/{key}", body))
            times.append(time.perf_counter() - began)
            delivered += answer["queues_matched"]
        line.close()

    await asyncio.gather(*(some() for _ in range(CONNECTIONS)))
    return times, delivered


def measure(server: Server, store: str, case: str, key: str, seconds: float) -> float:
    asyncio.run(publish(server, key, 0.5))
    before, began = server.cpu(), time.perf_counter()
    times, delivered = asyncio.run(publish(server, key, seconds))
    took = time.perf_counter() - began
    cost = (server.cpu() - before).all / max(delivered, 1) * 1e6
    times.sort()
    print(
        f"{store:9} {case:24} {len(times) / took:10.0f} {delivered / took:10.0f} {cost:16.1f} "
        f"{times[len(times) // 2] * 1e3:7.2f} {times[len(times) * 99 // 100] * 1e3:7.2f}",
        flush=True,
    )
    return cost


def run(store: str, seconds: float, rounds: int) -> bool:
    with ExitStack() as stack:
        server = stack.enter_context(serving(*stack.enter_context(store_flags(store))))
        queues = [f"queue-{number}" for number in range(100)]
        for queue in queues:
            server.request("POST", "/v1/queues", {"name": queue})
        for count in (1, 10, 100):
            asyncio.run(subscribe(server, [(f"to.{count}", queue) for queue in queues[:count]]))
        costs: dict[int, float] = {}
        for _ in range(rounds):
            for count in (1, 10, 100):
                found = measure(server, store, f"{count} subscribers", f"to.{count}", seconds)
                costs[count] = min(costs.get(count, found), found)
        others = [(f"many.{number}.*.made", queues[number % 100]) for number in range(PATTERNS - FITTING)]
        fitting = [("many.here.#", queues[0]), ("many.*.x.made", queues[1]), ("many.here.x.made", queues[2])]
        fitting += [("#.x.made", queues[3]), ("many.#.made", queues[4])]
        asyncio.run(subscribe(server, others + fitting))
        measure(server, store, f"{FITTING} of {PATTERNS} patterns", "many.here.x.made", seconds)
        ratio = costs[100] / costs[10]
        kept = ratio <= PROMISED
        verdict = "kept" if kept else "BROKEN"
        print(f"{'':9} a delivery among 100 costs {ratio:.2f} of one among 10 (promised {PROMISED}: {verdict})")
        return kept


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--store", choices=("postgres", "sqlite"), action="append")
    given = parser.parse_args()
    print(f"conditions: {conditions()}; bodies of 200 bytes, {CONNECTIONS} connections")
    print(HEADER)
    seconds, rounds = (1.5, 1) if given.quick else (4.0, 3)
    kept = True
    for store in given.store or ("postgres", "sqlite"):
        kept = run(store, seconds, rounds) and kept
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())

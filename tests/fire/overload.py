"""`python -m tests.fire.overload`: one tenant asks for ten times what a server can do, another for a little.

The busy tenant sends batches, which take so long that most of its connections wait longer than the server lets them.
Prints what it is answered, how long the other one waits, and the memory of the server.

Exits with 1 when it did not ask for ten times what was served, when a refusal does not say when to come back, when an
answer is neither a success nor 429 or 503, when the memory exceeds 512 MB, or when the 99th percentile of the other
tenant more than doubles.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from tests import cluster
from tests.fire import processes
from tests.fire.history import Recorder
from tests.fire.load.doors import Rest
from tests.fire.site import Node, Postgres, give_access

QUEUE = "overload"
FULL = 64
"""Connections that keep a server busy, and that it does not refuse."""
OVER = 4000
MESSAGES = 600
"""In each request of the busy tenant."""
TIMES = 10
"""What is asked beyond what is served, at least."""
MOST_MB = 512
MOST_RATIO = 2.0
PAUSE_S = 0.005
_LENGTH = re.compile(rb"content-length: (\d+)")


@dataclass
class Load:
    """What happened to the requests of one tenant."""

    statuses: Counter[int]
    silent: int
    """Answers 429 and 503 that do not say when to come back."""
    seconds: list[float]

    def p(self, share: float) -> float:
        ordered = sorted(self.seconds)
        return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0.0


def request(token: str, messages: int) -> bytes:
    body = b"[%b]" % b",".join([b'{"message":"overload"}'] * messages)
    head = f"POST /v1/queues/{QUEUE}/messages HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n"
    return head.encode() + b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


Connected = Callable[[], None]


async def ask(
    port: int,
    token: str,
    connections: int,
    seconds: float,
    *,
    messages: int = 1,
    pause_s: float = 0.0,
    connected: Connected | None = None,
) -> Load:
    """Every connection sends its next request as soon as the last is answered, whatever the answer is."""
    load, sent = Load(Counter(), 0, []), request(token, messages)
    streams = [await asyncio.open_connection("127.0.0.1", port) for _ in range(connections)]
    if connected is not None:
        connected()
    until = time.monotonic() + seconds

    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while time.monotonic() < until:
            began = time.monotonic()
            try:
                writer.write(sent)
                head = await reader.readuntil(b"\r\n\r\n")
                length = _LENGTH.search(head)
                await reader.readexactly(int(length[1]) if length else 0)
            except (OSError, asyncio.IncompleteReadError):
                # Closed before its first request: so many connections take their time.
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                continue
            load.seconds.append(time.monotonic() - began)
            status = int(head[9:12])
            load.statuses[status] += 1
            load.silent += status in (429, 503) and b"retry-after: " not in head
            await asyncio.sleep(pause_s)
        writer.close()

    await asyncio.gather(*(one(*each) for each in streams))
    return load


def _busy(port: int, token: str, connections: int, messages: int, seconds: float, pipe: Connection) -> None:
    processes.die_with_parent()
    os.nice(10)  # a client on another machine would not take time from the server
    pipe.send(asyncio.run(ask(port, token, connections, seconds, messages=messages, connected=lambda: pipe.send(None))))


@dataclass
class Round:
    name: str
    busy: Load | None
    other: Load

    def __str__(self) -> str:
        busy = "" if self.busy is None else f"; busy tenant: {sum(self.busy.statuses.values())} answers, "
        told = "" if self.busy is None else str(dict(sorted(self.busy.statuses.items())))
        return (
            f"{self.name}: other tenant p50 {self.other.p(0.5) * 1000:.1f} ms, p99 {self.other.p(0.99) * 1000:.1f} ms,"
            f" {dict(self.other.statuses)}{busy}{told}"
        )


def measure(port: int, tokens: tuple[str, str], connections: int, messages: int, seconds: float, name: str) -> Round:
    if not connections:
        return Round(name, None, asyncio.run(ask(port, tokens[1], 1, seconds, pause_s=PAUSE_S)))
    context = multiprocessing.get_context("forkserver")
    ours, theirs = context.Pipe()
    attacker = context.Process(target=_busy, args=(port, tokens[0], connections, messages, seconds + 1, theirs))
    attacker.start()
    ours.recv()
    time.sleep(1)
    other = asyncio.run(ask(port, tokens[1], 1, seconds, pause_s=PAUSE_S))
    busy: Load = ours.recv()
    attacker.join(10)
    return Round(name, busy, other)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Ask one server for ten times what it can do.")
    parser.add_argument("--seconds", type=float, default=10, help="Time of each of the three rounds.")
    parser.add_argument("--full", type=int, default=FULL, help="Connections that keep the server busy.")
    parser.add_argument("--over", type=int, default=OVER, help="Connections that are far too many.")
    parser.add_argument("--messages", type=int, default=MESSAGES, help="In each request of the busy tenant.")
    given = parser.parse_args(arguments)
    with (
        ExitStack() as stack,
        tempfile.TemporaryDirectory(prefix="penstock-fire-", dir=cluster.in_memory()) as name,
        Recorder(Path(name), "overload") as recorder,
    ):
        postgres = Postgres(Path(name) / "data")
        postgres.start()
        stack.callback(postgres.stop)
        access = asyncio.run(give_access(postgres.dsn))
        node = Node(0, postgres.dsn, Path(name) / "node.log")
        node.start()
        stack.callback(node.stop)
        node.await_ready()
        tokens = (access.token, access.other_token)
        for token in tokens:
            Rest(recorder, [node.url], token).ask("POST", "/v1/queues", {"name": QUEUE})
        rounds = []
        for connections, text in ((0, "alone"), (given.full, "beside a full load"), (given.over, "overload")):
            rounds.append(measure(node.port, tokens, connections, given.messages, given.seconds, text))
            print(rounds[-1], flush=True)
        memory = processes.memory_mb(node.pid)
    return judge(rounds, memory)


def judge(rounds: list[Round], memory: float) -> int:
    _, full, over = rounds
    assert over.busy is not None
    ratio = over.other.p(0.99) / max(full.other.p(0.99), 0.001)
    statuses = over.busy.statuses
    times = statuses.total() / max(sum(count for status, count in statuses.items() if status < 300), 1)
    wrong = [status for status in statuses if status >= 300 and status not in (429, 503)]
    print(f"memory {memory:.0f} MB; {times:.1f} times what was served; {over.busy.silent} refusals without a time")
    print(f"p99 of the other tenant is {ratio:.2f} times what it is beside a full load")
    if times < TIMES:
        print("VERDICT: no overload, too little was asked: take more --messages or --over")
        return 1
    failed = ratio > MOST_RATIO or memory > MOST_MB or over.busy.silent > 0 or bool(wrong)
    failed = failed or set(over.other.statuses) != {201}
    print("VERDICT: overload hurts" if failed else "VERDICT: overload is held off")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())

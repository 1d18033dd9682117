"""`python -m tests.hostile.fuzz`: hostile requests to a server of its own, bounded in number and time, from a seed.

Reports answers of 500 and above, answers slower than two seconds, and the peak memory of the server. Exits with 1 when
there is one of the first two, or when the memory is above 400 MB.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from time import monotonic

import httpx

from tests.hostile.inputs import Door, Sent, aws_door, json_door
from tests.plain import PLAIN
from tests.system.serving import serving

SLOW_S = 2.0
MOST_MB = 400
CONNECTIONS = 4
SHOWN = 15
DOORS = ("rest", "jobs", "sqs", "sns", "simple")
SIMPLE = ("/send", "/receive", "/dequeue", "/enqueue", "/delete", "/change_visibility", "/queue_length", "/stats")


@dataclass
class Findings:
    answers: Counter[int] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    slow: list[str] = field(default_factory=list)
    slowest_s: float = 0.0

    def note(self, sent: Sent, status: int, body: bytes, took_s: float) -> None:
        self.answers[status] += 1
        self.slowest_s = max(self.slowest_s, took_s)
        # What only PostgreSQL has is refused on SQLite, by design.
        if status >= 500 and not (status == 501 and b'"Unsupported"' in body):
            self.wrong.append(f"{status} {body[:200]!r} to {sent}")
        if took_s > SLOW_S:
            self.slow.append(f"{took_s:.1f} s for {sent}")


class Connection:
    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, sent: Sent) -> tuple[int, bytes]:
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port, limit=1 << 24)
        reader, writer = self._streams
        writer.write(sent.bytes())
        head = await reader.readuntil(b"\r\n\r\n")
        status = int(head[9:12])
        length = re.search(rb"content-length: (\d+)", head)
        body = await reader.readexactly(int(length[1])) if length and sent.method != "HEAD" else b""
        if b"connection: close" in head:
            self.close()
        return status, body

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


async def attack(port: int, door: Door, random: Random, requests: int, until: float) -> Findings:
    findings = Findings()
    left = iter(range(requests))

    async def send() -> None:
        connection = Connection(port)
        for _ in left:
            if monotonic() > until:
                break
            sent, began = door(random), monotonic()
            try:
                status, body = await asyncio.wait_for(connection.ask(sent), 30)
            except (TimeoutError, asyncio.IncompleteReadError, ConnectionError) as error:
                connection.close()
                status, body = 599, repr(error).encode()
            findings.note(sent, status, body, monotonic() - began)
        connection.close()

    await asyncio.gather(*(send() for _ in range(CONNECTIONS)))
    return findings


def peak_mb(pid: int) -> float:
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) / 1024 if found else 0.0


def doors(url: str) -> dict[str, Door]:
    document = httpx.get(f"{url}/v1/openapi.json", verify=PLAIN).json()
    return {
        "rest": json_door(document, lambda path: path.startswith("/v1/")),
        "jobs": json_door(document, lambda path: path.startswith(("/jobs", "/queues"))),
        "sqs": aws_door("sqs", "AmazonSQS"),
        "sns": aws_door("sns", "AmazonSNS"),
        "simple": json_door(document, lambda path: path.startswith(SIMPLE)),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description="Send hostile requests to a server of its own.")
    parser.add_argument("--seconds", type=float, default=60, help="Time for all doors together.")
    parser.add_argument("--requests", type=int, default=50_000, help="Requests per door, at most.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--door", choices=DOORS, help="Only this one.")
    parser.add_argument("store", nargs="*", help="How penstock serve is told its store. Default: --memory.")
    given = parser.parse_args()
    failed = False
    # A long poll is slow by design.
    more = {"LOG_LEVEL": "error", "PENSTOCK_SIMPLE_WAIT_S": "0"}
    with serving(*(given.store or ["--memory"]), more=more) as server:
        port = int(server.url.rpartition(":")[2])
        for name, door in doors(server.url).items():
            if given.door not in (None, name):
                continue
            until = monotonic() + given.seconds / (1 if given.door else len(DOORS))
            found = asyncio.run(attack(port, door, Random(f"{given.seed} {name}"), given.requests, until))
            memory = peak_mb(server.process.pid)
            total = sum(found.answers.values())
            print(
                f"{name}: {total} requests, {len(found.wrong)} answers of 500 and above, {len(found.slow)} slower than "
                f"{SLOW_S:.0f} s (slowest {found.slowest_s:.2f} s), peak memory {memory:.0f} MB, "
                f"answers {json.dumps(dict(sorted(found.answers.items())))}"
            )
            for line in [*found.wrong[:SHOWN], *found.slow[:SHOWN]]:
                print("  ", line)
            failed |= bool(found.wrong or found.slow or memory > MOST_MB)
        log = server.log
    if failed:
        print(log[-20_000:], file=sys.stderr)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())

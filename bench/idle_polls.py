"""What do a thousand idle long polls cost: memory for each, and the latency of those who do receive?

Clients that wait on queues where nothing comes, a tenth as many queues as clients. Beside them, eight connections send,
receive and delete on another queue, with and without the polls, in turns.

    python -m bench.idle_polls                PostgreSQL, three rounds
    python -m bench.idle_polls --polls 200 --rounds 1 --store memory
"""

from __future__ import annotations

import argparse
import json
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.processes import Server, conditions, family, serving, store_flags

PROMISED_RATIO = 2.0
PROMISED_KB = 20.0
WAIT_S = 20


def resident_kb(server: Server) -> float:
    """Memory of the server's own processes."""
    total = 0.0
    for process, name, _ in family(server.pid):
        if not name.startswith("postgres"):
            lines = Path(f"/proc/{process}/status").read_text().splitlines()
            total += sum(float(line.split()[1]) for line in lines if line.startswith("RssAnon:"))
    return total


@contextmanager
def polling(server: Server, count: int) -> Iterator[None]:
    clients = []
    try:
        for number in range(count):
            client = socket.create_connection((server.host, server.port))
            path = f"/v1/queues/idle-{number % max(count // 10, 1)}/messages?wait={WAIT_S}"
            head = f"GET {path} HTTP/1.1\r\nHost: {server.host}:{server.port}\r\nAuthorization: Bearer bench\r\n\r\n"
            client.sendall(head.encode())
            clients.append(client)
        time.sleep(2.0)  # until each of them has looked at its queue and sleeps
        yield
    finally:
        for client in clients:
            client.close()


def p99_ms(server: Server, seconds: float) -> float:
    command = [
        sys.executable,
        "-m",
        "bench.load",
        "native",
        server.host,
        str(server.port),
        "bench",
        "8",
        "1",
        "1000000",
    ]
    done = subprocess.run([*command, str(seconds)], stdout=subprocess.PIPE, text=True, check=True, timeout=seconds + 60)
    return float(json.loads(done.stdout)["p99_ms"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--polls", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--store", choices=["postgres", "sqlite", "memory"], default="postgres")
    options = parser.parse_args()
    print(f"conditions: {conditions()}; {options.polls} polls, {options.store}")
    without, beside, each_kb = [], [], []
    with store_flags(options.store) as flags, serving(*flags) as server:
        for number in range(max(options.polls // 10, 1)):
            server.request("POST", "/v1/queues", {"name": f"idle-{number}"})
        server.request("POST", "/v1/queues", {"name": "bench"})
        p99_ms(server, 1.0)  # warm up
        for _ in range(options.rounds):
            without.append(p99_ms(server, options.seconds))
            before = resident_kb(server)
            with polling(server, options.polls):
                each_kb.append((resident_kb(server) - before) / options.polls)
                beside.append(p99_ms(server, options.seconds))
            time.sleep(1.0)
    # Later polls take the memory again that the first ones have left.
    alone, busy, size = statistics.median(without), statistics.median(beside), max(each_kb)
    kept = busy <= PROMISED_RATIO * alone and size <= PROMISED_KB
    print(f"p99 of a request without polls {alone:.1f} ms ({min(without):.1f}-{max(without):.1f})")
    print(
        f"p99 of a request beside them   {busy:.1f} ms ({min(beside):.1f}-{max(beside):.1f}), {busy / alone:.2f} times"
    )
    print(f"memory of an idle poll         {size:.1f} KB (promised {PROMISED_KB:.0f})")
    sys.exit(0 if kept else 1)


if __name__ == "__main__":
    main()

"""A batch of a thousand messages over HTTP, beside the same rows by `insert … unnest` on the same PostgreSQL.

Both are durable, from one connection, one batch after the other; they take turns. The plain table has the columns of a
message and its primary key, and none of the indexes that receiving needs.

    python -m bench.batches --rounds 5
"""

from __future__ import annotations

import argparse
import http.client
import json
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import psycopg

from bench.processes import Server, conditions, serving
from penstock.store.postgres.embedded.server import EmbeddedPostgres

BATCH = 1000
PROMISED = 0.5
BODY = "x" * 200
TABLE = """
create table plain (
  id bigint generated always as identity primary key, bin_id bigint not null, sent_at timestamptz not null,
  expires_at timestamptz not null, priority smallint not null, body text not null
)
"""
INSERT = """
insert into plain (bin_id, sent_at, expires_at, priority, body)
select 1, now(), now() + interval '4 days', 100, b from unnest(%s::text[]) as b returning id
"""


def over_http(server: Server, batches: int) -> float:
    connection = http.client.HTTPConnection(server.host, server.port, timeout=60)
    body = json.dumps([{"message": BODY}] * BATCH).encode()
    start = time.perf_counter()
    for _ in range(batches):
        connection.request("POST", "/v1/queues/bench/messages", body, {"Authorization": "Bearer bench"})
        answer = connection.getresponse()
        if answer.status != 201 or len(json.loads(answer.read())["ids"]) != BATCH:
            raise SystemExit(f"the server answered {answer.status}")
    return batches * BATCH / (time.perf_counter() - start)


def plain(connection: psycopg.Connection[tuple[int]], batches: int) -> float:
    bodies = [BODY] * BATCH
    start = time.perf_counter()
    for _ in range(batches):
        connection.execute(INSERT, (bodies,), prepare=True).fetchall()
    return batches * BATCH / (time.perf_counter() - start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batches", type=int, default=20, help="of each round")
    options = parser.parse_args()
    print(f"conditions: {conditions()}; batches of {BATCH}, bodies of {len(BODY)} bytes")
    ours, theirs = [], []
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="penstock-bench-"))
        postgres = EmbeddedPostgres(Path(folder))
        postgres.start()
        stack.callback(postgres.stop)
        server = stack.enter_context(serving("--database-url", postgres.dsn))
        server.request("POST", "/v1/queues", {"name": "bench"})
        connection = stack.enter_context(psycopg.connect(postgres.dsn, autocommit=True))
        connection.execute(TABLE)
        for _ in range(options.rounds + 1):
            ours.append(over_http(server, options.batches))
            theirs.append(plain(connection, options.batches))
    ratio = statistics.median(ours[1:]) / statistics.median(theirs[1:])
    for name, found in (("over HTTP", ours[1:]), ("insert … unnest", theirs[1:])):
        print(f"{name:16} {statistics.median(found):9,.0f} messages/s ({min(found):,.0f}-{max(found):,.0f})")
    print(f"ratio {ratio:.2f} (promised {PROMISED}: {'kept' if ratio >= PROMISED else 'BROKEN'})")
    sys.exit(0 if ratio >= PROMISED else 1)


if __name__ == "__main__":
    main()

"""What do the SQL functions of queues cost inside PostgreSQL, against plain SQL and against PGMQ?

One session calls each function in turn with its contenders, a transaction per call, and reads the CPU time of its own
PostgreSQL process. A contender named `plain` is a table per queue with the least SQL that does the same: no tenants, no
counters, no dead letters. With --pgmq FILE (`pgmq.sql`, as in the wheel `pgmq`), PGMQ runs beside it. Then pgbench runs
the loads of several clients in `bench.sql.clients`, and `bench.sql.pinned` measures what a transaction that stays open
costs.

    python -m bench.sql                        about two minutes
    python -m bench.sql --rounds 9 --pgmq site-packages/pgmq/sql/pgmq.sql
    python -m bench.sql --only clients         only the loads of several clients
    python -m bench.sql --only pinned --seconds 120
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any, ClassVar

import asyncpg

from bench.processes import conditions, postmaster
from bench.sql import clients, pinned
from penstock.store.postgres.embedded.server import EmbeddedPostgres
from penstock.store.postgres.migrate import migrate

CALLS = 100
"""Calls per round; the figure of a round is their lower quartile, which other load on the machine changes least."""

WARM_UP = 20
BODY = '{"order": 17, "customer": "ada", "lines": [1, 2, 3]}'

PLAIN = """
create schema plain;
create table plain.work (
  id bigint generated always as identity primary key,
  reads integer not null default 0,
  sent_at timestamptz not null default now(),
  visible_at timestamptz not null default now(),
  message jsonb
);
create index on plain.work (visible_at);
create table plain.archive (like plain.work);
"""

PLAIN_TAKE = (
    "select id from plain.work where visible_at <= clock_timestamp() order by id limit $1 for update skip locked"
)


class Contender:
    """The same verbs in one dialect of SQL. `None`: it has no such verb."""

    name: ClassVar[str]
    statements: ClassVar[dict[str, str | None]]

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self.account = Path(f"/proc/{connection.get_server_pid()}/schedstat")
        self.costs: dict[str, list[float]] = {}
        self.rounds: dict[str, list[float]] = {}

    async def call(self, verb: str, label: str, *arguments: object) -> Any:
        statement = self.statements[verb]
        assert statement is not None
        before = self._cpu()
        rows = await self.connection.fetch(statement, *arguments)
        self.costs.setdefault(label, []).append(self._cpu() - before)
        return rows

    def _cpu(self) -> float:
        return int(self.account.read_text().split()[0]) / 1000

    def end_round(self) -> None:
        for label, costs in self.costs.items():
            self.rounds.setdefault(label, []).append(sorted(costs)[len(costs) // 4])
        self.costs = {}

    def has(self, verb: str) -> bool:
        return self.statements[verb] is not None


class Penstock(Contender):
    name = "penstock"
    statements: ClassVar[dict[str, str | None]] = {
        "send": "select penstock.send('work', $1::text::jsonb)",
        "send_batch": "select penstock.send_batch('work', $1::text[], is_json => true)",
        "receive": "select id, body from penstock.receive('work', 30, $1)",
        "delete": "select penstock.delete('work', $1)",
        "delete_batch": "select penstock.delete_batch('work', $1)",
        "archive_batch": "select penstock.archive_batch('work', $1)",
        "pop": "select id, body from penstock.pop('work', $1)",
    }


class Plain(Contender):
    name = "plain"
    statements: ClassVar[dict[str, str | None]] = {
        "send": "insert into plain.work (message) values ($1::text::jsonb) returning id",
        "send_batch": "insert into plain.work (message) select m::jsonb from unnest($1::text[]) as m returning id",
        "receive": f"""
            with taken as ({PLAIN_TAKE})
            update plain.work as w
            set visible_at = clock_timestamp() + interval '30 s', reads = w.reads + 1
            from taken as t
            where w.id = t.id
            returning w.id, w.message
        """,
        "delete": "delete from plain.work where id = $1 returning id",
        "delete_batch": "delete from plain.work where id = any ($1::bigint[]) returning id",
        "archive_batch": """
            with gone as (delete from plain.work where id = any ($1::bigint[]) returning *)
            insert into plain.archive select g.* from gone as g returning id
        """,
        "pop": f"delete from plain.work where id = any (array({PLAIN_TAKE})) returning id, message",
    }


class Pgmq(Contender):
    name = "pgmq"
    statements: ClassVar[dict[str, str | None]] = {
        "send": "select pgmq.send('work', $1::text::jsonb)",
        "send_batch": "select pgmq.send_batch('work', $1::text[]::jsonb[])",
        "receive": "select msg_id, message from pgmq.read('work', 30, $1)",
        "delete": "select pgmq.delete('work', $1::bigint)",
        "delete_batch": "select pgmq.delete('work', $1::bigint[])",
        "archive_batch": "select pgmq.archive('work', $1::bigint[])",
        "pop": None,
    }


async def cycle(contender: Contender, size: int) -> None:
    """Every verb once, with `size` messages; the queue is as full afterwards as before."""
    bodies = [BODY] * size
    if size == 1:
        await contender.call("send", "send", BODY)
    else:
        await contender.call("send_batch", f"send_batch {size}", bodies)
    rows = await contender.call("receive", f"receive {size}", size)
    assert len(rows) == size
    if size == 1:
        await contender.call("delete", "delete", rows[0][0])
    else:
        await contender.call("delete_batch", f"delete_batch {size}", [row[0] for row in rows])
    if size > 1:
        await contender.call("send_batch", f"send_batch {size}", bodies)
        rows = await contender.call("receive", f"receive {size}", size)
        await contender.call("archive_batch", f"archive_batch {size}", [row[0] for row in rows])
    if contender.has("pop"):
        await contender.connection.fetch(contender.statements["send_batch"], bodies)
        assert len(await contender.call("pop", f"pop {size}", size)) == size


async def run(dsn: str, rounds: int, pgmq: bool) -> list[Contender]:
    kinds: list[type[Contender]] = [Penstock, Plain]
    setup = await asyncpg.connect(dsn)
    await setup.execute(PLAIN)
    await setup.execute("select penstock.create_queue('work')")
    if pgmq:
        await setup.execute("select pgmq.create('work')")
        kinds.append(Pgmq)
    await setup.close()
    # Waiting for the disk is no CPU time, and no contender's own.
    connections = [await asyncpg.connect(dsn, server_settings={"synchronous_commit": "off"}) for _ in kinds]
    contenders = [kind(connection) for kind, connection in zip(kinds, connections, strict=True)]
    for number in range(rounds + 1):
        for size in (1, 10, 100):
            for turn in range(CALLS if number else WARM_UP):
                for contender in contenders if turn % 2 else contenders[::-1]:
                    await cycle(contender, size)
        for contender in contenders:
            contender.end_round()
            if number == 0:
                contender.rounds = {}
    for connection in connections:
        await connection.close()
    return contenders


def show(contenders: list[Contender]) -> None:
    ours, *others = contenders
    heads = [f"{other.name + ' µs':>12} {'ratio':>6} {'spread':>11}" for other in others]
    print(f"{'call':18} {'penstock µs':>12}", *heads)
    for label, costs in ours.rounds.items():
        line = f"{label:18} {statistics.median(costs):12.1f}"
        for other in others:
            if theirs := other.rounds.get(label):
                ratios = [cost / their for cost, their in zip(costs, theirs, strict=True)]
                spread = f"{min(ratios):.2f}-{max(ratios):.2f}"
                line += f" {statistics.median(theirs):12.1f} {statistics.median(ratios):6.2f} {spread:>11}"
        print(line)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--pgmq", type=Path, help="file pgmq.sql")
    parser.add_argument("--only", choices=["calls", "clients", "pinned"], help="run one part")
    parser.add_argument("--seconds", type=float, default=24, help="how long the transaction stays open")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        os.chmod(folder, 0o755)
        embedded = EmbeddedPostgres(Path(folder) / "data")
        embedded.start()
        try:
            asyncio.run(migrate(embedded.dsn))
            print(f"conditions: {conditions()}; embedded PostgreSQL, synchronous_commit off, default planner settings")
            if options.pgmq:
                asyncio.run(clients.install_pgmq(embedded.dsn, options.pgmq.read_text("utf-8")))
            if options.only in (None, "calls"):
                print(
                    f"CPU µs inside PostgreSQL per call; lower quartile of {CALLS}, median of {options.rounds} rounds"
                )
                show(asyncio.run(run(embedded.dsn, options.rounds, bool(options.pgmq))))
            if options.only in (None, "clients"):
                server = postmaster(Path(folder) / "data")
                print(f"pgbench; CPU µs of PostgreSQL per message; median of {options.rounds} rounds; above 1 is ours")
                clients.show(
                    asyncio.run(clients.run(embedded.dsn, server, options.rounds, bool(options.pgmq), print_progress))
                )
            if options.only in (None, "pinned"):
                pinned.show(asyncio.run(pinned.run(embedded.dsn, options.seconds)))
        finally:
            embedded.stop()


def print_progress(title: str) -> None:
    print(f"... {title}", file=sys.stderr)


if __name__ == "__main__":
    main()

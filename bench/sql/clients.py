"""Loads of several clients for `bench.sql`: pgbench runs the same script for every contender, in turns.

A figure is a ratio: messages per second of Penstock over those of the other, and CPU time per message of the other
over that of Penstock (all processes of PostgreSQL). Above 1, Penstock is faster or cheaper. Other load on the machine
changes the second ratio least.
"""

from __future__ import annotations

import re
import statistics
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import asyncpg

from bench.processes import family
from penstock.store.postgres.embedded.binaries import find_installation

BODY = '{"order": 17, "customer": "ada", "lines": [1, 2, 3]}'
BODIES = f"array_fill('{BODY}'::text, array[1000])"
GROUPS = 1000
GROUPED = 100_000

PLAIN = """
create schema clients;
create table clients.work (
  id bigint generated always as identity primary key,
  visible_at timestamptz not null default now(),
  message jsonb
);
create index on clients.work (visible_at);
create table clients.events (id bigint generated always as identity primary key, type text, data text);
"""


@dataclass(frozen=True)
class Script:
    """One contender's transactions. `fill` runs before each round, outside of the measurement."""

    name: str
    text: str
    fill: str | None = None
    transactions: int | None = None
    """Of each client; by default those of the load."""


@dataclass
class Load:
    title: str
    clients: int
    transactions: int
    messages: int
    """Per transaction."""
    ours: Script
    others: dict[str, tuple[Script, float | None]]
    """By name, with the ratio to reach."""
    rates: dict[str, list[float]] = field(default_factory=dict)
    costs: dict[str, list[float]] = field(default_factory=dict)

    def scripts(self) -> list[Script]:
        return [self.ours, *(script for script, _ in self.others.values())]


def loads(with_pgmq: bool) -> list[Load]:
    def peers(**scripts: tuple[Script, float | None]) -> dict[str, tuple[Script, float | None]]:
        return {name: peer for name, peer in scripts.items() if with_pgmq or name != "pgmq"}

    send = Load(
        "send 1, 4 clients", 4, 1500, 1,
        Script("penstock", f"select penstock.send('many', '{BODY}'::jsonb);"),
        peers(
            pgmq=(Script("pgmq", f"select pgmq.send('many', '{BODY}'::jsonb);"), 1.0),
            plain=(Script("plain", f"insert into clients.work (message) values ('{BODY}'::jsonb) returning id;"), None),
        ),
    )  # fmt: skip
    insert = f"insert into clients.work (message) select m::jsonb from unnest({BODIES}) as m returning id"
    batch = Load(
        "send_batch 1000", 1, 50, 1000,
        Script("penstock", f"select penstock.send_batch('many', {BODIES}, is_json => true);"),
        peers(
            pgmq=(Script("pgmq", f"select pgmq.send_batch('many', {BODIES}::jsonb[]);"), 1.5),
            plain=(Script("plain", f"with s as ({insert}) select array_agg(s.id) from s;"), 0.6),
        ),
    )  # fmt: skip
    receive = Load(
        "receive 10 + delete 10, 4 clients", 4, 500, 10,
        Script(
            "penstock",
            "select array_agg(id) as ids from penstock.receive('drain', 30, 10) \\gset\n"
            "select penstock.delete_batch('drain', :ids);",
            f"select penstock.send_batch('drain', array_fill('{BODY}'::text, array[21000]), is_json => true)",
        ),
        peers(
            pgmq=(
                Script(
                    "pgmq",
                    "select array_agg(msg_id) as ids from pgmq.read('drain', 30, 10) \\gset\n"
                    "select count(*) from pgmq.delete('drain', cast(:ids as bigint[]));",
                    f"select count(*) from pgmq.send_batch('drain', array_fill('{BODY}'::jsonb, array[21000]))",
                ),
                1.5,
            )
        ),
    )  # fmt: skip
    grouped = Load(
        f"receive 10, {GROUPED} messages in {GROUPS} groups", 1, 30, 10,
        Script("penstock", "select count(*) from penstock.receive('grouped.fifo', 600, 10);"),
        peers(pgmq=(Script("pgmq", "select count(*) from pgmq.read_grouped_rr('grouped', 600, 10);", None, 2), 10.0)),
    )  # fmt: skip
    insert_event = f"insert into clients.events (type, data) values ('type', '{BODY}') returning id;"
    events = Load(
        "pgque.send 1, 4 clients", 4, 1500, 1,
        Script("penstock", f"select pgque.send('events', 'type', '{BODY}'::text);"),
        peers(plain=(Script("plain", insert_event), None)),
    )  # fmt: skip
    found = [send, batch, receive, grouped, events]
    return [load for load in found if load.others]


async def prepare(connection: Any, with_pgmq: bool) -> None:
    await connection.execute(PLAIN)
    await connection.execute("select penstock.create_queue('many'), penstock.create_queue('drain')")
    await connection.execute("select penstock.create_queue('grouped.fifo', '{\"dedup_scope\": \"group\"}')")
    await connection.execute("select pgque.create_queue('events')")
    run = GROUPED // GROUPS
    await connection.execute(
        f"""
        select penstock.send_batch(
          'grouped.fifo', array_fill('{BODY}'::text, array[{run}]), group_id => 'g' || g, is_json => true,
          dedup_ids => array(select 'd' || n from generate_series(1, {run}) as n)
        )
        from generate_series(1, {GROUPS}) as g
        """
    )
    if with_pgmq:
        await connection.execute("select pgmq.create(q) from unnest(array['many', 'drain', 'grouped']) as q")
        await connection.execute("select pgmq.create_fifo_index('grouped')")
        await connection.execute(
            f"""
            select count(*)
            from generate_series(1, {GROUPS}) as g,
              pgmq.send_batch(
                'grouped', array_fill('{BODY}'::jsonb, array[{run}]),
                array_fill(jsonb_build_object('x-pgmq-group', 'g' || g), array[{run}])
              )
            """
        )
    await connection.execute("vacuum analyze")


def pgbench(dsn: str, script: Script, load: Load) -> float:
    """Messages per second."""
    with tempfile.NamedTemporaryFile("w", suffix=".sql") as file:
        file.write(script.text)
        file.flush()
        command = [
            find_installation().program("pgbench"), "--no-vacuum", "--protocol=prepared", f"--file={file.name}",
            f"--client={load.clients}", f"--transactions={script.transactions or load.transactions}", dsn,
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    found = re.search(r"tps = ([0-9.]+) \(without", done.stdout)
    if done.returncode or found is None:
        raise SystemExit(f"pgbench failed: {done.stderr}")
    return float(found[1]) * load.messages


async def install_pgmq(dsn: str, text: str) -> None:
    connection = await asyncpg.connect(dsn)
    await connection.execute("create schema if not exists pgmq")
    await connection.execute(text)
    await connection.close()


async def run(dsn: str, postmaster: int, rounds: int, with_pgmq: bool, tell: Callable[[str], None]) -> list[Load]:
    setup = await asyncpg.connect(dsn)
    await prepare(setup, with_pgmq)
    # Waiting for the disk costs no CPU time and is the same for all.
    await setup.execute("alter role current_user set synchronous_commit = off")
    todo = loads(with_pgmq)
    for load in todo:
        tell(load.title)
        for number in range(rounds + 1):
            for script in load.scripts() if number % 2 else load.scripts()[::-1]:
                if script.fill is not None:
                    await setup.execute(script.fill)
                before = postgres_cpu(postmaster)
                rate = pgbench(dsn, script, load)
                spent = postgres_cpu(postmaster) - before
                if number:
                    count = load.clients * (script.transactions or load.transactions) * load.messages
                    load.rates.setdefault(script.name, []).append(rate)
                    load.costs.setdefault(script.name, []).append(spent * 1e6 / count)
    await setup.execute("alter role current_user reset synchronous_commit")
    await setup.close()
    return todo


def postgres_cpu(postmaster: int) -> float:
    """CPU seconds of PostgreSQL's processes, with those that have ended."""
    return sum(seconds for _, _, seconds in family(postmaster))


def show(done: list[Load]) -> None:
    print(f"{'load':42} {'penstock/s':>11} {'µs':>7}", end="")
    print(f" {'against':>8} {'/s':>9} {'µs':>9} {'rate':>6} {'CPU':>6} {'spread':>11} {'goal':>5}")
    for load in done:
        rates, costs = load.rates["penstock"], load.costs["penstock"]
        for name, (_, goal) in load.others.items():
            faster = [ours / theirs for ours, theirs in zip(rates, load.rates[name], strict=True)]
            cheaper = [theirs / max(ours, 0.01) for ours, theirs in zip(costs, load.costs[name], strict=True)]
            spread = f"{min(cheaper):.2f}-{max(cheaper):.2f}"
            print(
                f"{load.title:42} {statistics.median(rates):11.0f} {statistics.median(costs):7.1f} {name:>8}"
                f" {statistics.median(load.rates[name]):9.0f} {statistics.median(load.costs[name]):9.1f}"
                f" {statistics.median(faster):6.2f} {statistics.median(cheaper):6.2f} {spread:>11} {goal or '':>5}"
            )

"""How long does `penstock pipeline run` take to say what is wrong?

Each mistake is made once, in a process of its own. It must end within five seconds, with one line, which says what is
wrong, and without a change of the database.

    python -m bench.spark.errors
"""

from __future__ import annotations

import os
import resource
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

from bench.processes import conditions
from bench.spark.setting import serving
from bench.streams import Report

PROMISED_S = 5.0


@dataclass(frozen=True)
class Mistake:
    name: str
    arguments: tuple[str, ...]
    says: str
    url: str | None = None
    """Another database than the right one."""


def main() -> None:
    report = Report()
    print(f"conditions: {conditions()}", flush=True)
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as made, ExitStack() as stack:
        folder = Path(made)
        server = stack.enter_context(serving(folder / "data"))
        connection = stack.enter_context(psycopg.connect(server.url, autocommit=True))
        connection.execute("select pgque.create_queue('orders')")
        connection.execute("create database other")
        connection.execute("create table public.bills (id bigint primary key)")
        connection.execute("select pgque.track_table('public.bills', 'orders')")
        (folder / "file").touch()
        for mistake in mistakes(server.url, stack.enter_context(silent_port()), folder):
            _time(mistake, server.url, folder, report)
        with psycopg.connect(_other(server.url, "other")) as other:
            [[relations]] = other.execute(
                "select count(*) from pg_class where relnamespace not in (select oid from pg_namespace"
                " where nspname like 'pg_%' or nspname = 'information_schema')"
            ).fetchall()
        report.fact(f"{relations} relations were made in the wrong database", relations == 0)
    print(f"load {os.getloadavg()[0]:.1f} at the end")
    sys.exit(0 if report.kept else 1)


def mistakes(url: str, silent: int, folder: Path) -> list[Mistake]:
    archive = ("archive", "--stream", "orders")
    lake = f"{folder}/file/lake"
    return [
        Mistake("database without Penstock", archive, "is not up to date", _other(url, "other")),
        Mistake("database that does not exist", archive, "does not exist", _other(url, "none")),
        Mistake(
            "PostgreSQL is not there", archive, "Connect call failed", "postgresql://penstock:x@127.0.0.1:1/penstock"
        ),
        Mistake("PostgreSQL is silent", archive, "cannot open", f"postgresql://penstock:x@127.0.0.1:{silent}/penstock"),
        Mistake("--remote is not there", (*archive, "--remote", "sc://127.0.0.1:1"), "Connection refused"),
        Mistake("--remote is silent", (*archive, "--remote", f"sc://127.0.0.1:{silent}"), "timed out"),
        Mistake("--master is not there", (*archive, "--master", "spark://127.0.0.1:1"), "Connection refused"),
        Mistake("--master is silent", (*archive, "--master", f"spark://127.0.0.1:{silent}"), "timed out"),
        Mistake("--master has no address", (*archive, "--master", "spark://nowhere.invalid:7077"), "no Spark master"),
        Mistake("missing stream", ("archive", "--stream", "none"), "there is no stream 'none'"),
        Mistake("missing table", ("cdc", "--stream", "orders", "--table", "public.none"), "is not tracked"),
        Mistake("missing lake", ("replay", "r", "--to", "orders"), "there is no table at"),
        Mistake("lake that cannot be written", (*archive, "--lake", lake), "cannot be written"),
        Mistake("missing file", ("import", "jsonl", "none.jsonl", "--into", "q"), "there are no files none.jsonl"),
        Mistake("wrong option", ("replay", "r", "--to", "s", "--since", "noon"), "'noon' is not a timestamp"),
    ]


def _other(url: str, database: str) -> str:
    return f"{url.rpartition('/')[0]}/{database}"


def _time(mistake: Mistake, url: str, folder: Path, report: Report) -> None:
    environment = {**os.environ, "DATABASE_URL": mistake.url or url}
    command = [sys.executable, "-m", "penstock", "pipeline", "run", *mistake.arguments]
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, timeout=300)
    took, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    lines = done.stderr.splitlines()
    report.fact(
        f"{mistake.name:30} {took:5.2f} s, {cpu:4.2f} s of CPU, {len(lines)} line: {lines[-1] if lines else ''}"[:200],
        took <= PROMISED_S and len(lines) == 1 and mistake.says in lines[0] and done.returncode != 0,
    )


@contextmanager
def silent_port() -> Iterator[int]:
    """A port that answers nothing: its queue of connections is full."""
    with ExitStack() as stack:
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(3):
            client = stack.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(server.getsockname())
        yield int(server.getsockname()[1])


if __name__ == "__main__":
    main()

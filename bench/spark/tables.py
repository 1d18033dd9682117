"""How fast does the pipeline `tables` drain a stream, and does each event arrive once when its processes are killed?

A million events of 12 types, with three changes of their schema on the way and one bad payload in 200. The first part
drains them in one Spark session. The second runs `penstock pipeline run tables`, kills all its processes ten times at
random moments, and compares the tables with what PostgreSQL computes from the same events.

    python -m bench.spark.tables                     both parts, some minutes
    python -m bench.spark.tables --events 200000 --kills 3
    python -m bench.spark.tables --only drain
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import polars
import psycopg
from pyspark.sql.streaming.listener import StreamingQueryListener

from bench.processes import conditions
from bench.spark.setting import Connection, Server, measured, serving
from bench.streams import Report
from penstock.spark.pipelines.run import run_pipeline
from penstock.spark.pipelines.tables import Tables
from penstock.spark.running.session import session

TYPES = 12
BAD_EVERY = 200
PER_TRANSACTION = 10_000
PROMISED = 150_000

_FILL = """
insert into {table} (ev_type, ev_data, ev_extra4)
select
  'order.' || g %% {types},
  case
    when g %% {bad} = 0 then case g / {bad} %% 2 when 0 then 'nonsense ' || g else '{{"id": "x' || g || '"}}' end
    else (
      jsonb_build_object('id', g, 'name', md5(g::text), 'customer', md5((g * 7)::text), 'count', g %% 10)
      || jsonb_build_object('total', case when g < {total} / 2 then g %% 1000 else g %% 1000 + 0.5 end)
      || case when g >= {total} / 4 then jsonb_build_object('note', 'note ' || g) else '{{}}' end
      || case when g >= {total} * 3 / 4 then jsonb_build_object('tags', jsonb_build_array('a', 'b')) else '{{}}' end
    )::text
  end,
  'customer-' || g %% 1000
from generate_series(%s::bigint, %s::bigint) as g
"""

_EXPECTED = """
select ev_type, count(*), sum((ev_data::jsonb ->> 'id')::bigint), sum((ev_data::jsonb ->> 'total')::float8),
  count(ev_data::jsonb ->> 'note'), count(ev_data::jsonb ->> 'tags'), sum(ev_id)
from {table}
where (ev_data::jsonb -> 'id') is not null and jsonb_typeof(ev_data::jsonb -> 'id') = 'number'
group by ev_type order by ev_type
"""


def fill(connection: Connection, stream: str, events: int) -> str:
    connection.execute("select pgque.create_queue(%s)", [stream])
    table = ""
    for first in range(1, events + 1, PER_TRANSACTION):
        with connection.transaction():
            [[table]] = connection.execute("select pgque.current_event_table(%s)", [stream]).fetchall()
            last = min(first + PER_TRANSACTION - 1, events)
            query = _FILL.format(table=table, types=TYPES, bad=BAD_EVERY, total=events)
            connection.execute(query.encode(), [first, last])
        connection.execute("select pgque.tick_if_waiting(%s)", [stream])
    return str(table)


class Triggers(StreamingQueryListener):
    """The time that triggers took."""

    def __init__(self) -> None:
        self.count, self.seconds = 0, 0.0

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        self.count += 1
        self.seconds += event.progress.durationMs["triggerExecution"] / 1000

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        """Nothing to do."""

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """Nothing to do."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """Nothing to do."""


def drain(server: Server, connection: Connection, root: Path, events: int, report: Report) -> None:
    cores = os.cpu_count() or 1
    spark = session("bench", master=f"local[{cores}]", settings={"spark.log.level": "ERROR"})
    try:
        fill(connection, "warm", 20_000)
        run_pipeline(Tables(streams=("warm",)), spark=spark, url=server.url, lake=str(root / "warm"))
        fill(connection, "drained", events)
        triggers = Triggers()
        spark.streams.addListener(triggers)
        found = measured(
            events,
            lambda: run_pipeline(Tables(streams=("drained",)), spark=spark, url=server.url, lake=str(root / "drained")),
        )
    finally:
        spark.stop()
    rows = sum(_count(path) for path in _tables(root / "drained"))
    if rows != events:
        raise SystemExit(f"{rows} rows arrived, not {events}")
    rate = events / triggers.seconds
    print(f"  with the start of the query: {found}")
    report.fact(
        f"tables drains {events:,} events of {TYPES} types at {rate:,.0f}/s of trigger time, in {triggers.count}"
        f" triggers; promised {PROMISED:,}/s",
        rate >= PROMISED,
    )


def kills(server: Server, connection: Connection, root: Path, events: int, times: int, report: Report) -> None:
    table = fill(connection, "killed", events)
    lake = root / "killed"
    command = [
        sys.executable, "-m", "penstock", "pipeline", "run", "tables", "--stream", "killed", "--lake", str(lake),
        "--max-events", str(max(events // 40, 1000)),
    ]  # fmt: skip
    environment = {**os.environ, "DATABASE_URL": server.url}
    chance = random.Random(21)
    done = 0
    while True:
        with (root / "runs.log").open("ab") as log:
            process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)
        if done == times:
            if process.wait(900) != 0:
                raise SystemExit((root / "runs.log").read_text()[-1000:])
            break
        began = _batches(lake)
        # At least one batch, and then some time in one of the next.
        until = time.monotonic() + 240
        while _batches(lake) == began and process.poll() is None and time.monotonic() < until:
            time.sleep(0.02)
        time.sleep(chance.uniform(0, 1.5))
        if process.poll() is not None:
            if process.returncode != 0:
                raise SystemExit((root / "runs.log").read_text()[-1000:])
            print(f"  the run ended after {done} kills")
            break
        _kill(process)
        done += 1
    _compare(connection, table, lake, events, done, report)


def _compare(connection: Connection, table: str, lake: Path, events: int, done: int, report: Report) -> None:
    bad = "(ev_data like 'nonsense%%' or ev_data like '{\"id\": \"x%%')".replace("%%", "%")
    good = f"(select * from {table} where not {bad}) as e"
    expected = [tuple(row) for row in connection.execute(_EXPECTED.format(table=good).encode())]
    found = []
    for path in _tables(lake):
        if path.name == "_quarantine":
            continue
        rows = polars.read_delta(str(path))
        found.append(
            (path.name, rows.height, rows["id"].sum(), rows["total"].sum(), rows["note"].count(),
             rows["tags"].count(), rows["_offset"].sum())
        )  # fmt: skip
        if rows["_offset"].n_unique() != rows.height:
            report.fact(f"{path.name} has an event twice", False)
    report.fact(f"{len(found)} tables are equal to a recomputation after {done} kills", sorted(found) == expected)
    wrong = {row[0] for row in connection.execute(f"select ev_id from {table} where {bad}".encode())}
    aside = polars.read_delta(str(lake / "tables" / "_quarantine"))["offset"].to_list()
    report.fact(
        f"{len(aside):,} of {events:,} events are in the quarantine, each once",
        len(aside) == len(wrong) and set(aside) == wrong,
    )


def _tables(lake: Path) -> list[Path]:
    return sorted(path.parent for path in (lake / "tables").glob("*/_delta_log"))


def _count(path: Path) -> int:
    return int(polars.scan_delta(str(path)).select(polars.len()).collect().item())


def _batches(lake: Path) -> int:
    return len(list(lake.glob("_checkpoints/tables/*/commits/[0-9]*")))


def _kill(process: subprocess.Popen[Any]) -> None:
    """The command, its Java and its Python processes: they share a session."""
    for _ in range(2):
        for path in Path("/proc").iterdir():
            with suppress(OSError):
                if path.name.isdigit() and os.getsid(int(path.name)) == process.pid:
                    os.kill(int(path.name), signal.SIGKILL)
    process.wait(30)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--only", choices=("drain", "kills"))
    given = parser.parse_args()
    report = Report()
    print(f"conditions: {conditions()}", flush=True)
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        root = Path(folder)
        with serving(root / "data") as server, psycopg.connect(server.url, autocommit=True) as connection:
            if given.only in (None, "drain"):
                drain(server, connection, root, given.events, report)
            if given.only in (None, "kills"):
                kills(server, connection, root, given.events, given.kills, report)
    print(f"load {os.getloadavg()[0]:.1f} at the end")
    sys.exit(0 if report.kept else 1)


if __name__ == "__main__":
    main()

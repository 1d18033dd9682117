"""What does Spark take to read, write and follow streams, beside its own JDBC source and sink?

On the embedded PostgreSQL, durable, over the loopback. One Spark session for everything: all cores, Parquet with zstd,
the settings of `penstock.spark.running.session`. Ways that are compared take turns, after two rounds to warm up, and
the median round of each counts; CPU is that of Spark (Java and Python) and of PostgreSQL, per row.

    python -m bench.spark                    everything, some minutes
    python -m bench.spark --quick            less of it, two minutes
    python -m bench.spark --only write       some parts: read, write, drain or latency; repeatable
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import adbc_driver_postgresql
import psycopg
import pyarrow as pa
import pyspark
from pyspark.sql import SparkSession

from bench.processes import conditions
from bench.spark.latency import PER_SECOND, TICK_S, latencies
from bench.spark.reads import Reads, drain, fill
from bench.spark.setting import Connection, Found, Server, in_turns, jdbc_driver, middle, serving
from bench.spark.writes import DOOR, LIKE_EVENTS, PLAIN, Writes
from bench.streams import Report
from penstock.spark.running.session import session

PAYLOAD_BYTES = 220
PARTS = ("read", "write", "drain", "latency")


@dataclass(frozen=True)
class Scale:
    events: int
    drained: int
    written: int
    rounds: int
    live_s: float


FULL = Scale(events=2_000_000, drained=1_000_000, written=1_000_000, rounds=3, live_s=25)
QUICK = Scale(events=500_000, drained=300_000, written=200_000, rounds=3, live_s=10)


@dataclass(frozen=True)
class Bench:
    spark: SparkSession
    server: Server
    connection: Connection
    folder: Path
    scale: Scale
    report: Report
    has_jdbc: bool

    def read(self) -> None:
        events = self.scale.events
        reads = Reads(self.spark, self.server, self.folder, "read", fill(self.connection, "read", events), events)
        count = reads.partitions()
        ours = {"ours, by itself": reads.ours(None)}
        if not self.has_jdbc:
            self._show("read", in_turns(self.scale.rounds, events, ours))
            return
        reads.check()
        ways = {"JDBC, same partitions": reads.jdbc(count), "JDBC, no bounds": reads.jdbc(None), **ours}
        found = in_turns(self.scale.rounds, events, ways)
        print(f"read of {events:,} events into Parquet; ours makes {count} partitions, JDBC gets {count} or has one")
        self._show("read", found)
        self._compare(f"read, {count} partitions each", found, "JDBC, same partitions", "ours, by itself", 1.0)
        self._compare("read, nobody says how to split", found, "JDBC, no bounds", "ours, by itself", 1.5)

    def write(self) -> None:
        rows = self.scale.written
        writes = Writes(self.spark, self.server, self.connection, rows)
        ways = {"ours, direct": writes.ours(exactly_once=False), "ours, exactly once": writes.ours(exactly_once=True)}
        if self.has_jdbc:
            jdbc = {
                "JDBC, into the stream": writes.jdbc(DOOR),
                "JDBC, like events": writes.jdbc(LIKE_EVENTS),
                "JDBC, plain table": writes.jdbc(PLAIN),
            }
            ways = {**jdbc, **ways}
        found = in_turns(self.scale.rounds, rows, ways)
        print(f"write of {rows:,} rows; JDBC with batches of 10 000, rewritten to inserts of many rows")
        self._show("write", found)
        if self.has_jdbc:
            self._compare("write, JDBC's with both indexes", found, "JDBC, like events", "ours, direct", 1.9)
            self._compare("write, ours once each", found, "JDBC, like events", "ours, exactly once", 1.9)
            self._compare("write, JDBC's without index", found, "JDBC, plain table", "ours, direct", None)
            self._compare("write, JDBC's by a trigger", found, "JDBC, into the stream", "ours, direct", None)

    def drain(self) -> None:
        fill(self.connection, "drained", self.scale.drained)
        events = self.scale.drained
        reads = Reads(self.spark, self.server, self.folder, "drained", "", events)
        ways = {"ours, by itself": reads.ours(None)}
        batch = in_turns(self.scale.rounds, events, ways)["ours, by itself"]
        rates: list[tuple[float, int]] = []
        for number in range(self.scale.rounds):
            place = self.folder / f"drain-{number}"
            place.mkdir()
            drained, seconds, triggers = drain(self.spark, self.server, "drained", place)
            if drained != events:
                raise SystemExit(f"{drained} events were drained, not {events}")
            rates.append((events / seconds, triggers))
        rate, triggers = middle(rates, lambda one: one[0])
        self.report.fact(
            f"drain of {events:,} events in {triggers} triggers: {rate:,.0f}/s of trigger time, "
            f"{rate / batch.rate:.2f} of the read rate of {batch.rate:,.0f}/s; promised 0.70",
            rate / batch.rate >= 0.7,
        )

    def latency(self) -> None:
        place = self.folder / "live"
        place.mkdir()
        took = latencies(self.spark, self.server, place, warm_s=10, seconds=self.scale.live_s)
        half, most = (took[int(len(took) * share)] if took else float("inf") for share in (0.5, 0.95))
        self.report.fact(
            f"end to end at {PER_SECOND} events/s, a tick every {TICK_S} s: p50 {half:.2f} s, p95 {most:.2f} s of "
            f"{len(took):,} events; promised p50 <= 1",
            half <= 1,
        )

    def _show(self, what: str, found: dict[str, Found]) -> None:
        for name, one in found.items():
            print(f"  {what}: {name:24} {one}", flush=True)

    def _compare(self, text: str, found: dict[str, Found], theirs: str, ours: str, promised: float | None) -> None:
        self.report.line(f"{text:34} {ours} against {theirs}", found[ours].rate / found[theirs].rate, promised)


def started(jar: Path | None, cores: int) -> SparkSession:
    settings = {
        "spark.driver.memory": "3g",
        "spark.sql.parquet.compression.codec": "zstd",
        "spark.log.level": "ERROR",
        **({"spark.jars": str(jar)} if jar is not None else {}),
    }
    return session("bench", master=f"local[{cores}]", settings=settings)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", choices=PARTS, action="append")
    parser.add_argument("--install-driver", action="store_true", help="install the JDBC driver by apt-get, as root")
    parser.add_argument("--driver", type=Path, metavar="JAR", help="the JDBC driver. Default: that of Debian")
    given = parser.parse_args()
    scale = QUICK if given.quick else FULL
    cores = os.cpu_count() or 1
    jar = jdbc_driver(given.driver, given.install_driver)
    report = Report()
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        root = Path(folder)
        with serving(root / "data") as server, psycopg.connect(server.url, autocommit=True) as connection:
            spark = started(jar, cores)
            try:
                tell(spark, connection, jar, cores)
                bench = Bench(spark, server, connection, root, scale, report, jar is not None)
                for part in PARTS:
                    if given.only is None or part in given.only:
                        getattr(bench, part)()
            finally:
                spark.stop()
    print(f"load {os.getloadavg()[0]:.1f} at the end")
    sys.exit(0 if report.kept else 1)


def tell(spark: SparkSession, connection: Connection, jar: Path | None, cores: int) -> None:
    [[postgres]] = connection.execute("show server_version").fetchall()
    java = spark.sparkContext._jvm.System.getProperty("java.version")  # type: ignore[union-attr]
    driver = jar.resolve().name if jar is not None else "none"
    print(f"conditions: {conditions()}; {platform.system()} {platform.release()}")
    print(
        f"Spark {pyspark.__version__} on {cores} cores, Java {java}, PostgreSQL {postgres}, "
        f"ADBC {adbc_driver_postgresql.__version__}, Arrow {pa.__version__}, JDBC {driver}; "
        f"payloads of about {PAYLOAD_BYTES} bytes",
        flush=True,
    )


if __name__ == "__main__":
    main()

"""A shop, its changes and clicks, and what the pipelines make of them, from nothing to insights in a minute or two.

    make demo-pipeline

Starts a PostgreSQL of its own in a folder that is thrown away, changes two tables, sends 200 000 events to a consumer
that fails now and then, works through a queue and some jobs, and runs `archive`, `cdc` and `insights` on Spark.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
from psycopg.rows import dict_row

from penstock.cli.output import print_rows
from penstock.config import Settings
from penstock.model import DEFAULT_TENANT
from penstock.model.jobs import Completion, Failure, LeaseRequest, NewJob
from penstock.queries import parse
from penstock.server.stores import database, opened
from penstock.spark.lake.upkeep import TableSummary
from penstock.spark.lake.upkeep import tables as lake_tables

SQL = {name: text.encode() for name, text in parse(Path(__file__).with_suffix(".sql").read_text("utf-8")).items()}

EVENTS = 200_000
JOBS = 2_000
MAILS = 1_000


@contextmanager
def step(title: str) -> Iterator[None]:
    print(f"\n== {title}", flush=True)
    started = time.monotonic()
    yield
    print(f"   {time.monotonic() - started:.1f} s", flush=True)


class Shop:
    def __init__(self, dsn: str) -> None:
        self._connection = psycopg.connect(dsn, autocommit=True)
        self.ask("tables")
        self.ask("first_rows")

    def ask(self, name: str, **values: Any) -> Any:
        cursor = self._connection.execute(SQL[name], values or None)
        return cursor.fetchone() if cursor.description else None

    def rows(self, name: str) -> list[dict[str, Any]]:
        with self._connection.cursor(row_factory=dict_row) as cursor:
            return cursor.execute(SQL[name]).fetchall()

    def close(self) -> None:
        self._connection.close()

    def click(self, events: int) -> None:
        self.ask("click_stream")
        for _ in range(10):
            self.ask("clicks", batches=10, size=events // 100)
            self.ask("tick")

    def consume(self) -> tuple[int, int]:
        """What a consumer saw and refused. What it refuses comes back, and after the third time is set aside."""
        seen = refused = 0
        for _ in range(4):
            while (found := self.ask("consume"))[0]:
                seen, refused = seen + found[0], refused + found[1]
                self.ask("acknowledge", batch=found[2])
            while self.ask("bring_back")[0]:
                pass
            self.ask("tick")
        return seen, refused

    def mail(self, mails: int) -> None:
        self.ask("mail_queue")
        self.ask("send_mail", count=mails)
        while self.ask("archive_mail")[0]:
            pass


async def work_on_jobs(settings: Settings, dsn: str, count: int) -> None:
    """A worker that gives up on every fortieth job, and stumbles over every tenth."""
    async with opened(settings, dsn) as engine:
        jobs = engine.jobs
        made = [
            NewJob(tenant=DEFAULT_TENANT, queue="invoices", payload=f'{{"order": {n}}}', max_retries=1)
            for n in range(count)
        ]
        for start in range(0, count, 500):
            await jobs.enqueue_batch(made[start : start + 500])
        request = LeaseRequest(tenant=DEFAULT_TENANT, queue="invoices", lease_s=60, workers=["clerk"] * 100)
        while leased := await jobs.lease(request):
            await asyncio.gather(*(_report(jobs, number, job) for number, job in enumerate(leased)))


async def _report(jobs: Any, number: int, job: Any) -> None:
    holder: dict[str, Any] = {"tenant": DEFAULT_TENANT, "id": job.id, "token": job.token}
    if number % 10:
        await jobs.complete(Completion(**holder, result="{}"))
    elif number % 40:
        await jobs.fail(Failure(**holder, error=f"printer {number} is out of paper", retry_after_s=0))
    else:
        await jobs.fail(Failure(**holder, error=f'no such template: "invoice-{number}"', retry=False))


def produce(settings: Settings, shop: Shop, dsn: str, events: int) -> None:
    with step(f"{events:,} events, and a consumer that refuses some"):
        shop.click(events)
        seen, refused = shop.consume()
        print(f"   {seen:,} seen, {refused:,} refused")
    with step(f"{MAILS:,} messages archived, {JOBS:,} jobs worked on"):
        shop.mail(MAILS)
        asyncio.run(work_on_jobs(settings, dsn, JOBS))


def run_pipelines(shop: Shop, dsn: str, lake: str, master: str) -> None:
    # Spark takes a second to import, and what goes before does not need it.
    from penstock.spark.pipelines.archive import Archive
    from penstock.spark.pipelines.change_data import ChangeData
    from penstock.spark.pipelines.insights import Insights
    from penstock.spark.pipelines.pipeline import Pipeline
    from penstock.spark.pipelines.run import run_pipeline
    from penstock.spark.running.session import session

    tables = ("shop.customers", "shop.orders")
    with step("Spark starts"):
        spark = session(
            "demo", master=master, settings={"spark.sql.shuffle.partitions": "4", "spark.log.level": "ERROR"}
        )

    def run(title: str, pipeline: Pipeline) -> None:
        with step(title):
            run_pipeline(pipeline, spark=spark, url=dsn, lake=lake)

    run("archive: events and messages into the lake", Archive(streams=("clicks",), messages=True))
    run("cdc: a copy of both tables", ChangeData(streams=("shop",), tables=tables, install=True))
    with step("both tables change: rows come, go, and get other keys and columns"):
        shop.ask("changes")
    run("cdc: the changes", ChangeData(streams=("shop",), tables=tables))
    run("insights: what went through, how fast, and what went wrong", Insights())
    spark.stop()


def show(shop: Shop, lake: str) -> None:
    print("\n== The lake")
    print_rows([_summary(found) for found in lake_tables(lake)], False, "It is empty.")
    print("\n== Insights, as /v1/insights gives them")
    print_rows(shop.rows("insights"), False, "There are none.")
    print("\n== What went wrong, by shape")
    print_rows(shop.rows("errors"), False, "Nothing.")
    print("\n== Runs")
    print_rows(shop.rows("runs"), False, "There are none.")


def check(shop: Shop, lake: str, events: int) -> None:
    """A demonstration that shows wrong numbers would be worse than none."""
    rows = {found.name: found.rows for found in lake_tables(lake)}
    expected = {
        "events": events,
        "messages": MAILS,
        "current/shop.customers": shop.ask("customers")[0],
        "current/shop.orders": shop.ask("orders")[0],
    }
    for table, count in expected.items():
        if rows.get(table) != count:
            raise SystemExit(f"{table} has {rows.get(table)} rows in the lake, and should have {count}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--events", type=int, default=EVENTS, help="how many, in hundreds")
    parser.add_argument("--master", default="local[*]")
    given = parser.parse_args()
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="penstock-demo-") as folder:
        settings = Settings.load({}, {}, {"data": Path(folder) / "data"})
        lake = str(Path(folder) / "lake")
        with database(settings) as found:
            assert found.dsn is not None
            asyncio.run(prepare(settings, found.dsn))
            with closing(Shop(found.dsn)) as shop:
                produce(settings, shop, found.dsn, given.events)
                run_pipelines(shop, found.dsn, lake, given.master)
                show(shop, lake)
                check(shop, lake, given.events)
    print(f"\nAll of it took {time.monotonic() - started:.0f} s.")


async def prepare(settings: Settings, dsn: str) -> None:
    """Opening the store brings the schema up to date."""
    async with opened(settings, dsn):
        pass


def _summary(found: TableSummary) -> dict[str, Any]:
    return {
        "table": found.name, "rows": found.rows, "files": found.files, "bytes": found.bytes, "version": found.version,
        "partitioned by": ", ".join(found.partition_by),
    }  # fmt: skip


if __name__ == "__main__":
    main()

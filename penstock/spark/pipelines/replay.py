"""The pipeline `replay`: rows of the lake back into a stream or a queue, once for each replay name.

All tasks write in one transaction, which records the replay's name in the ledger. A replay that is killed writes
nothing; a second run under the same name writes nothing either.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from penstock.queries import parse
from penstock.spark import lake
from penstock.spark.database import Database
from penstock.spark.lake.storage import below
from penstock.spark.lake.table import exists
from penstock.spark.pipelines.pipeline import Pipeline, PipelineError
from penstock.spark.pipelines.run import Run
from penstock.spark.streams import Stream
from penstock.spark.tenants import stream_prefix, tenant_id
from penstock.spark.writing.writer import TAKEN

TARGETS = ("stream", "queue")
ORDERS = ("time", "key", "none")
MOMENTS = ("timestamp", "archived_at")
ORDERED_BY = (*MOMENTS, "offset", "id")
SENT = {
    "value": ("value", "body"),
    "type": ("type",),
    "key": ("key", "group_id"),
    "priority": ("priority",),
    "headers": ("headers",),
}
"""Fields that are sent, and the columns of the lake that may hold them."""
GROUP = "replay"
"""Message group of rows without a key, in a FIFO queue."""

SQL = parse(Path(__file__).with_suffix(".sql").read_text("utf-8"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay(Pipeline):
    """A part of the lake back into a stream or a queue."""

    name: ClassVar[str] = "replay"

    id: str
    """Name of the replay. Rows are sent once for each name."""
    to: str
    target: str = "stream"
    table: str = "events"
    since: str | None = None
    until: str | None = None
    where: str | None = None
    """SQL condition on the columns of the table."""
    limit: int | None = None
    """Maximum number of rows; the earliest are sent."""
    order: str = "time"
    """Order to keep: `time` for all rows (one task sends them all), `key` for the rows of each key, or `none`."""
    dry_run: bool = False
    tenant: str = "default"
    """Tenant that owns the rows, and the stream or queue."""

    @property
    def owner(self) -> str:
        return self.tenant

    def check(self, follow: bool) -> None:
        if follow:
            raise PipelineError("replay sends what the lake has now and ends: omit --follow")
        if self.target not in TARGETS:
            raise PipelineError(f"unknown target {self.target!r}: use one of {', '.join(TARGETS)}")
        if self.order not in ORDERS:
            raise PipelineError(f"unknown order {self.order!r}: use one of {', '.join(ORDERS)}")
        for text in (self.since, self.until):
            if text is not None:
                _moment(text)

    def check_database(self, url: str) -> None:
        with closing(Database(url)) as database:
            if self.target == "stream":
                Stream(database, self.to, prefix=stream_prefix(database, self.tenant)).check()
            elif database.value(SQL["has_queue"], tenant_id(database, self.tenant), self.to) is None:
                raise PipelineError(f"there is no queue {self.to!r}")

    def check_files(self, url: str, lake: str) -> None:
        path = below(lake, self.table)
        if not exists(path):
            raise PipelineError(f"there is no table at {path}")

    def claims(self, lake: str) -> list[str]:
        """The name alone, as in the ledger: rows are sent once per name, from whichever lake."""
        return [] if self.dry_run else [f"replay {self.id!r}"]

    def run(self, run: Run) -> None:
        self.check(run.follow)
        app = f"replay-{self.id}"
        if not self.dry_run and _done(run.url, app):
            run.note(f"replay {self.id!r} was sent before: nothing is sent twice under one name")
            return
        chosen = self._chosen(lake.read(run.spark, run.path(self.table)))
        rows = chosen.count()
        if self.dry_run:
            run.note(f"{rows} rows would be sent")
            run.results.append({"would be sent": rows, "from": self.table, "to": self.to})
            return
        sent = self._spread(chosen).select(*_sent(chosen, self.target, is_fifo=self.to.endswith(".fifo")))
        self.check_database(run.url)
        sent.write.format("penstock").options(
            url=run.url, target=self.target, name=self.to, tenant=self.tenant, txnAppId=app, txnVersion="0"
        ).mode("append").save()
        run.count(rows)
        run.note(f"{rows} rows were sent to {self.target} {self.to}")

    def _spread(self, chosen: DataFrame) -> DataFrame:
        """Distribute the rows over tasks. A stream keeps the order within a task, and none between large tasks."""
        if self.order == "none":
            return chosen
        if self.order == "time":
            return chosen.orderBy(*_order(chosen)).coalesce(1)
        key = _source(chosen, "key")
        if key is None:
            raise PipelineError(f"table {self.table!r} has no column {' or '.join(SENT['key'])} to order by")
        return chosen.repartition(f.col(key)).sortWithinPartitions(*_order(chosen))

    def _chosen(self, frame: DataFrame) -> DataFrame:
        moment = next((name for name in MOMENTS if name in frame.columns), None)
        for text, is_since in ((self.since, True), (self.until, False)):
            if text is None:
                continue
            if moment is None:
                raise PipelineError(
                    f"table {self.table!r} has no column {' or '.join(MOMENTS)} for --since and --until"
                )
            at = _moment(text)
            column, bound = f.col(moment), f.lit(at)
            frame = frame.where(column >= bound if is_since else column < bound)
            if "date" in frame.columns:
                # The same condition on the partition column, so that Spark skips most folders.
                day = f.lit(at.date())
                frame = frame.where(f.col("date") >= day if is_since else f.col("date") <= day)
        if "tenant" in frame.columns:
            # Rows written before the column existed have null there; they belong to the default tenant.
            frame = frame.where(f.coalesce("tenant", f.lit("default")) == self.tenant)
        if self.where is not None:
            frame = frame.where(self.where)
        return frame if self.limit is None else frame.orderBy(*_order(frame)).limit(self.limit)


def _done(url: str, app: str) -> bool:
    with closing(Database(url)) as database:
        return database.value(SQL["last_batch"], app) is not None


def _sent(frame: DataFrame, target: str, *, is_fifo: bool) -> list[Column]:
    found: dict[str, Column] = {}
    for wanted, names in SENT.items():
        if wanted not in TAKEN[target]:
            continue
        name = _source(frame, wanted)
        if name is not None:
            found[wanted] = f.col(name)
        elif wanted == "value":
            raise PipelineError(f"the table has no column to send: one of {', '.join(names)} is needed")
    if "type" in found and "full_type" in frame.columns:
        found["type"] = f.coalesce("full_type", found["type"])
    if target == "queue" and "headers" in found:
        # Headers of an event may be any text; those of a message must be a JSON object.
        is_object = f.get_json_object(found["headers"], "$").startswith("{")
        found["headers"] = f.when(is_object, found["headers"])
    if is_fifo and target == "queue":
        # Rows with equal bodies are different messages. Rows without a group share one, so that they stay in order.
        found["dedup_id"] = f.expr("uuid()")
        found["key"] = f.coalesce(found["key"], f.lit(GROUP)) if "key" in found else f.lit(GROUP)
    return [column.alias(name) for name, column in found.items()]


def _source(frame: DataFrame, wanted: str) -> str | None:
    return next((name for name in SENT[wanted] if name in frame.columns), None)


def _order(frame: DataFrame) -> list[str]:
    found = [name for name in ORDERED_BY if name in frame.columns]
    if not found:
        raise PipelineError(f"the table has no column to order by (one of {', '.join(ORDERED_BY)}): use --order none")
    return found


def _moment(text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise PipelineError(f"{text!r} is not a timestamp like 2026-11-16T08:00:00Z") from None
    return found.astimezone(UTC) if found.tzinfo is not None else found.replace(tzinfo=UTC)

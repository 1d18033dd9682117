"""`replay`: a part of the lake back into a stream or a queue, once for each name of a replay.

The write is one transaction with the replay's name in the ledger, however many tasks bring the rows. A replay that was
killed left nothing; one that is run again after it was done writes nothing.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import ClassVar

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from penstock.spark import lake
from penstock.spark.database import Database
from penstock.spark.pipelines.run import PipelineError, Run
from penstock.spark.streams import Stream
from penstock.spark.tenants import stream_prefix, tenant_id
from penstock.spark.writer import TAKEN

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
"""What is sent, and which columns it may come from."""
GROUP = "replay"
"""Of rows without a key, in a FIFO queue."""

_QUEUE = "select true from penstock.queues as q where q.tenant_id = $1 and q.name = $2"
_DONE = "select l.batch from penstock.spark_ledger as l where l.query = $1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """A part of the lake back into a stream or a queue."""

    name: ClassVar[str] = "replay"

    id: str
    """What this replay is called: under one name rows are sent once."""
    to: str
    target: str = "stream"
    table: str = "events"
    since: str | None = None
    until: str | None = None
    where: str | None = None
    """An SQL condition on the columns of the table."""
    limit: int | None = None
    """The earliest of them."""
    order: str = "time"
    """What stays in order: all by their time, those of each key, or nothing. Only the first needs one task for all."""
    dry_run: bool = False
    tenant: str = "default"
    """Whose rows, and whose stream or queue."""

    def check(self, follow: bool) -> None:
        if follow:
            raise PipelineError("a replay ends by itself, with what the lake has now")
        if self.target not in TARGETS:
            raise PipelineError(f"a replay goes into a stream or a queue, not into {self.target!r}")
        if self.order not in ORDERS:
            raise PipelineError(f"the order {self.order!r} is none of {', '.join(ORDERS)}")
        for text in (self.since, self.until):
            if text is not None:
                _moment(text)

    def check_database(self, url: str) -> None:
        with closing(Database(url)) as database:
            if self.target == "stream":
                Stream(database, self.to, prefix=stream_prefix(database, self.tenant)).check()
            elif database.value(_QUEUE, tenant_id(database, self.tenant), self.to) is None:
                raise PipelineError(f"there is no queue {self.to!r}")

    def claims(self, lake: str) -> list[str]:
        """By its name alone, like what was sent: that is the same whichever lake it came from."""
        return [] if self.dry_run else [f"replay {self.id!r}"]

    def run(self, run: Run) -> None:
        self.check(run.follow)
        app = f"replay-{self.id}"
        if not self.dry_run and _done(run.url, app):
            run.note(f"replay {self.id!r} was done before; nothing is sent twice under one name")
            return
        chosen = self._chosen(lake.read(run.spark, run.place(self.table)))
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
        """Over the tasks that send: a stream keeps the order of each task, and knows none between large ones."""
        if self.order == "none":
            return chosen
        if self.order == "time":
            return chosen.orderBy(*_order(chosen)).coalesce(1)
        key = _source(chosen, "key")
        if key is None:
            raise PipelineError(f"the table {self.table!r} has no column {' or '.join(SENT['key'])} to go by")
        return chosen.repartition(f.col(key)).sortWithinPartitions(*_order(chosen))

    def _chosen(self, frame: DataFrame) -> DataFrame:
        moment = next((name for name in MOMENTS if name in frame.columns), None)
        for text, is_since in ((self.since, True), (self.until, False)):
            if text is None:
                continue
            if moment is None:
                raise PipelineError(f"the table {self.table!r} has no column {' or '.join(MOMENTS)} to go by")
            at = _moment(text)
            column, bound = f.col(moment), f.lit(at)
            frame = frame.where(column >= bound if is_since else column < bound)
            if "date" in frame.columns:
                # The same for the folders, so that Spark leaves most of them alone.
                day = f.lit(at.date())
                frame = frame.where(f.col("date") >= day if is_since else f.col("date") <= day)
        if "tenant" in frame.columns:
            # Null in rows that are older than the column. They count as the default tenant's: no other is sent them.
            frame = frame.where(f.coalesce("tenant", f.lit("default")) == self.tenant)
        if self.where is not None:
            frame = frame.where(self.where)
        return frame if self.limit is None else frame.orderBy(*_order(frame)).limit(self.limit)


def _done(url: str, app: str) -> bool:
    with closing(Database(url)) as database:
        return database.value(_DONE, app) is not None


def _sent(frame: DataFrame, target: str, *, is_fifo: bool) -> list[Column]:
    found: dict[str, Column] = {}
    for wanted, names in SENT.items():
        if wanted not in TAKEN[target]:
            continue
        name = _source(frame, wanted)
        if name is not None:
            found[wanted] = f.col(name)
        elif wanted == "value":
            raise PipelineError(f"the table has none of the columns {', '.join(names)} to send")
    if "type" in found and "full_type" in frame.columns:
        found["type"] = f.coalesce("full_type", found["type"])
    if target == "queue" and "headers" in found:
        # An event may have any text there, a message only an object.
        is_object = f.get_json_object(found["headers"], "$").startswith("{")
        found["headers"] = f.when(is_object, found["headers"])
    if is_fifo and target == "queue":
        # Rows of one body are several all the same; those without a group are one, so that they stay in order.
        found["dedup_id"] = f.expr("uuid()")
        found["key"] = f.coalesce(found["key"], f.lit(GROUP)) if "key" in found else f.lit(GROUP)
    return [column.alias(name) for name, column in found.items()]


def _source(frame: DataFrame, wanted: str) -> str | None:
    return next((name for name in SENT[wanted] if name in frame.columns), None)


def _order(frame: DataFrame) -> list[str]:
    found = [name for name in ORDERED_BY if name in frame.columns]
    if not found:
        raise PipelineError(
            f"the table has none of the columns {', '.join(ORDERED_BY)} to go by; order 'none' needs none"
        )
    return found


def _moment(text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise PipelineError(f"{text!r} is not a moment like 2026-11-16T08:00:00Z") from None
    return found.astimezone(UTC) if found.tzinfo is not None else found.replace(tzinfo=UTC)

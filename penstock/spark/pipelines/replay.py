"""`replay`: a part of the lake back into a stream or a queue, once for each name of a replay.

The write is one transaction with the replay's name in the ledger. A replay that was killed left nothing; one that is
run again after it was done writes nothing.
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

TARGETS = ("stream", "queue")
MOMENTS = ("timestamp", "archived_at")
SENT = {
    "value": ("value", "body"),
    "type": ("type",),
    "key": ("key", "group_id"),
    "priority": ("priority",),
    "headers": ("headers",),
}
"""What is sent, and which columns it may come from."""

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
    dry_run: bool = False
    tenant: str = "default"

    def run(self, run: Run) -> None:
        if self.target not in TARGETS:
            raise PipelineError(f"a replay goes into a stream or a queue, not into {self.target!r}")
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
        # In one task, since they are to be in order: rows of different tasks are published one task after another.
        ordered = chosen.orderBy(*_order(chosen)).coalesce(1)
        ordered.select(*_sent(chosen)).write.format("penstock").options(
            url=run.url, target=self.target, name=self.to, tenant=self.tenant, txnAppId=app, txnVersion="0"
        ).mode("append").save()
        run.count(rows)
        run.note(f"{rows} rows were sent to {self.target} {self.to}")

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
        if self.where is not None:
            frame = frame.where(self.where)
        return frame if self.limit is None else frame.orderBy(*_order(frame)).limit(self.limit)


def _done(url: str, app: str) -> bool:
    with closing(Database(url)) as database:
        return database.value(_DONE, app) is not None


def _sent(frame: DataFrame) -> list[Column]:
    found = []
    for wanted, names in SENT.items():
        name = next((each for each in names if each in frame.columns), None)
        if name is not None:
            found.append(f.col(f"`{name}`").alias(wanted))
        elif wanted == "value":
            raise PipelineError(f"the table has none of the columns {', '.join(names)} to send")
    return found


def _order(frame: DataFrame) -> list[str]:
    return [name for name in (*MOMENTS, "offset", "id") if name in frame.columns]


def _moment(text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise PipelineError(f"{text!r} is not a moment like 2026-11-16T08:00:00Z") from None
    return found.astimezone(UTC) if found.tzinfo is not None else found.replace(tzinfo=UTC)

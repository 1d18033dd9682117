"""Writes insights to tables of the lake, by date, and to PostgreSQL, where the API reads them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import Schema
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from penstock.queries import parse
from penstock.spark import lake
from penstock.spark.database import Database
from penstock.spark.lake.schemas import delta_schema, missing
from penstock.spark.lake.table import open_table

APP = "insights"
ROWS_PER_CALL = 1000
DATES_PER_WRITE = 7
"""Dates that are in the driver's memory at a time."""

FINDINGS = pa.schema(
    [
        *((name, pa.string()) for name in ("tenant", "question", "kind", "name")),
        *((name, pa.float64()) for name in ("before", "now")),
        ("detail", pa.string()),
        ("found_at", pa.timestamp("us", "UTC")),
        ("date", pa.date32()),
    ]
)

SQL = parse((Path(__file__).parent / "insights.sql").read_text("utf-8"))


@dataclass(frozen=True, slots=True)
class Tables:
    """The lake's tables of insights. A run replaces whole dates, so its frames have all rows of each date."""

    hourly: str
    daily: str
    errors: str

    def mark(self) -> datetime | None:
        """The time of the last completed run."""
        found = lake.version(self.hourly, APP)
        return None if found is None else datetime.fromtimestamp(found / 1_000_000, UTC)

    def fit(self, insights: DataFrame, errors: DataFrame) -> None:
        for path, frame in ((self.hourly, insights), (self.daily, insights), (self.errors, errors)):
            if lake.exists(path):
                fit(path, delta_schema(frame.schema))

    def write(
        self, dates: Sequence[date], hourly: DataFrame, daily: DataFrame, errors: DataFrame, moment: datetime
    ) -> None:
        """The last write records the mark: a run that was cut off before is repeated."""
        for path, frame in ((self.daily, daily), (self.errors, errors), (self.hourly, hourly)):
            for first in range(0, len(dates), DATES_PER_WRITE):
                some = dates[first : first + DATES_PER_WRITE]
                is_last = path == self.hourly and some[-1] == dates[-1]
                _replace(path, frame, some, moment if is_last else None)


def fit(path: str, wanted: Schema) -> None:
    """Add columns that a table of an earlier version lacks; they are null in its rows."""
    table = open_table(path)
    if found := missing(table, wanted):
        table.alter.add_columns(list(found))


def _replace(path: str, frame: DataFrame, dates: Sequence[date], mark: datetime | None) -> None:
    rows: pa.Table = frame.where(f.col("date").isin(*dates)).toArrow()
    among = ", ".join(f"'{each.isoformat()}'" for each in dates)
    version = None if mark is None else _micros(mark)
    lake.replace(path, rows, f"date in ({among})", partition_by=["date"], app=APP, version=version)


def write_findings(path: str, database: Database, moment: datetime) -> None:
    """What is remarkable now, in place of what an earlier run of the day found."""
    rows = [(*row, moment, moment.date()) for row in database.rows(SQL["findings"], _micros(moment))]
    columns = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in FINDINGS]
    table = pa.Table.from_arrays([pa.array(c, f.type) for c, f in zip(columns, FINDINGS, strict=True)], schema=FINDINGS)
    lake.replace(path, table, f"date = '{moment.date().isoformat()}'", partition_by=["date"])


class Recorder:
    """Writes rows in batches of a thousand. Rows have full values, so repeating a batch is safe."""

    def __init__(self, database: Database, moment: datetime) -> None:
        self._database = database
        self._moment = moment
        self.dates: set[date] = set()
        """Dates of all recorded rows."""

    def insights(self, frame: DataFrame, step: str) -> int:
        return self._record(SQL["record_insights"], frame.drop("sketch").withColumn("step", f.lit(step)))

    def errors(self, frame: DataFrame) -> int:
        return self._record(SQL["record_errors"], frame)

    def settle(self, since: datetime, hours_kept: timedelta, days_kept: timedelta) -> None:
        self._database.rows(SQL["settle"], _micros(since), _micros(self._moment), hours_kept.days, days_kept.days)

    def _record(self, call: str, frame: DataFrame) -> int:
        rows = _json_rows(frame)
        recorded = 0
        while batch := list(islice(rows, ROWS_PER_CALL)):
            self._database.rows(call, json.dumps(batch), _micros(self._moment))
            self.dates |= {datetime.fromisoformat(row["starts_at"]).date() for row in batch}
            recorded += len(batch)
        return recorded


def _json_rows(frame: DataFrame) -> Iterator[dict[str, Any]]:
    # One partition: each would be a separate Spark job, and there are few rows.
    plain = frame.drop("date").withColumn("starts_at", f.unix_micros("starts_at")).coalesce(1)
    for row in plain.toLocalIterator():
        values = row.asDict()
        yield values | {"starts_at": datetime.fromtimestamp(values["starts_at"] / 1_000_000, UTC).isoformat()}


def _micros(moment: datetime) -> int:
    return round(moment.timestamp() * 1_000_000)

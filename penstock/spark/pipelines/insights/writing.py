"""Where insights go: tables of the lake, a date at a time, and PostgreSQL, where the API reads them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import islice
from typing import Any

import pyarrow as pa
from deltalake import Schema
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from penstock.spark import lake
from penstock.spark.database import Database
from penstock.spark.lake.schemas import delta_schema, missing
from penstock.spark.lake.table import opened

APP = "insights"
ROWS_PER_CALL = 1000
DATES_PER_WRITE = 7
"""So much is in the driver's memory at a time."""

_RECORD = "select penstock.record_rollups($1::text::jsonb, to_timestamp($2 / 1000000.0))"
_RECORD_ERRORS = "select penstock.record_rollup_errors($1::text::jsonb, to_timestamp($2 / 1000000.0))"
_SETTLE = """
select penstock.settle_rollups(
  to_timestamp($1 / 1000000.0), to_timestamp($2 / 1000000.0), make_interval(days => $3::integer),
  make_interval(days => $4::integer)
)
"""


@dataclass(frozen=True, slots=True)
class Tables:
    """The lake's tables of insights. A run replaces whole dates, so its frames hold all of each date they touch."""

    hourly: str
    daily: str
    errors: str

    def mark(self) -> datetime | None:
        """The moment of the last run that came to its end."""
        found = lake.version(self.hourly, APP)
        return None if found is None else datetime.fromtimestamp(found / 1_000_000, UTC)

    def fit(self, rollups: DataFrame, errors: DataFrame) -> None:
        for path, frame in ((self.hourly, rollups), (self.daily, rollups), (self.errors, errors)):
            if lake.exists(path):
                fit(path, delta_schema(frame.schema))

    def write(
        self, dates: Sequence[date], hourly: DataFrame, daily: DataFrame, errors: DataFrame, moment: datetime
    ) -> None:
        """The mark comes with the last of all writes: whatever is cut off before is done again."""
        for path, frame in ((self.daily, daily), (self.errors, errors), (self.hourly, hourly)):
            for first in range(0, len(dates), DATES_PER_WRITE):
                some = dates[first : first + DATES_PER_WRITE]
                is_last = path == self.hourly and some[-1] == dates[-1]
                _replace(path, frame, some, moment if is_last else None)


def fit(path: str, wanted: Schema) -> None:
    """Add the columns that a table of an earlier version lacks: they are null in the rows that it has."""
    table = opened(path)
    if found := missing(table, wanted):
        table.alter.add_columns(list(found))


def _replace(path: str, frame: DataFrame, dates: Sequence[date], mark: datetime | None) -> None:
    rows: pa.Table = frame.where(f.col("date").isin(*dates)).toArrow()
    among = ", ".join(f"'{each.isoformat()}'" for each in dates)
    version = None if mark is None else _micros(mark)
    lake.replace(path, rows, f"date in ({among})", partition_by=["date"], app=APP, version=version)


class Recorder:
    """Rows by the thousand, each with its whole value: may be repeated, and needs no memory for all of them."""

    def __init__(self, database: Database, moment: datetime) -> None:
        self._database = database
        self._moment = moment
        self.dates: set[date] = set()
        """Of everything that was recorded."""

    def rollups(self, frame: DataFrame, step: str) -> int:
        return self._record(_RECORD, frame.drop("sketch").withColumn("step", f.lit(step)))

    def errors(self, frame: DataFrame) -> int:
        return self._record(_RECORD_ERRORS, frame)

    def settle(self, since: datetime, hours_kept: timedelta, days_kept: timedelta) -> None:
        self._database.rows(_SETTLE, _micros(since), _micros(self._moment), hours_kept.days, days_kept.days)

    def _record(self, call: str, frame: DataFrame) -> int:
        rows = _json_rows(frame)
        recorded = 0
        while batch := list(islice(rows, ROWS_PER_CALL)):
            self._database.rows(call, json.dumps(batch), _micros(self._moment))
            self.dates |= {datetime.fromisoformat(row["starts_at"]).date() for row in batch}
            recorded += len(batch)
        return recorded


def _json_rows(frame: DataFrame) -> Iterator[dict[str, Any]]:
    # One partition: each would be a job of its own, and the rows are few.
    plain = frame.drop("date").withColumn("starts_at", f.unix_micros("starts_at")).coalesce(1)
    for row in plain.toLocalIterator():
        values = row.asDict()
        yield values | {"starts_at": datetime.fromtimestamp(values["starts_at"] / 1_000_000, UTC).isoformat()}


def _micros(moment: datetime) -> int:
    return round(moment.timestamp() * 1_000_000)

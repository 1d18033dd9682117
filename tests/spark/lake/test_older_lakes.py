"""Lakes that an earlier version wrote, without the columns that have come since: pipelines go on, and add them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

from penstock.spark import lake
from penstock.spark.pipelines.archive import Archive
from penstock.spark.pipelines.insights import Insights, events
from penstock.spark.pipelines.run import run_pipeline
from tests.spark import streams

pytestmark = pytest.mark.timeout(300)

NOW = datetime.now(UTC).replace(microsecond=0)
MOMENT = pa.timestamp("us", tz="UTC")


def table(rows: list[dict[str, Any]], **columns: pa.DataType) -> pa.Table:
    return pa.Table.from_pylist(rows, pa.schema(list(columns.items())))


def test_an_archive_goes_on_and_its_old_rows_lack_what_is_new(
    spark: SparkSession, dsn: str, database: psycopg.Connection, tmp_path: Path
) -> None:
    old = {
        "key": None, "value": "old", "stream": "orders", "offset": 1, "timestamp": NOW, "type": "plain", "txid": 5,
        "retry": None, "date": NOW.date(),
    }  # fmt: skip
    columns = table(
        [old], key=pa.string(), value=pa.string(), stream=pa.string(), offset=pa.int64(), timestamp=MOMENT,
        type=pa.string(), txid=pa.int64(), retry=pa.int32(), date=pa.date32(),
    )  # fmt: skip
    write_deltalake(str(tmp_path / "events"), columns, partition_by=["date", "type"])
    streams.make(database, "orders")
    streams.send(database, "orders", ["new"])

    run_pipeline(Archive(streams=("orders",), compact=True), spark=spark, url=dsn, lake=str(tmp_path))

    rows = lake.read(spark, str(tmp_path / "events")).orderBy("value").collect()
    assert [(row["value"], row["tenant"], row["txid"] is None) for row in rows] == [
        ("new", "default", False), ("old", None, False),
    ]  # fmt: skip
    assert {"headers", "extra2", "extra3", "tenant", "full_type"} <= set(rows[0].asDict())


@pytest.mark.slow
def test_insights_go_on_and_keep_what_older_ones_have_counted(
    spark: SparkSession, dsn: str, database: psycopg.Connection, tmp_path: Path
) -> None:
    before = NOW - timedelta(hours=1)
    closed = (NOW - timedelta(hours=4)).replace(minute=0, second=0)
    key: dict[str, Any] = {"tenant": "default", "kind": "stream", "name": "orders", "starts_at": closed}
    told = {"tenant": pa.string(), "kind": pa.string(), "name": pa.string(), "starts_at": MOMENT, "date": pa.date32()}
    counts = dict.fromkeys(("sent", "done", "retried", "failed", "dead"), pa.int64())
    counted = table(
        [{**key, "date": closed.date(), **dict.fromkeys(counts, 7)}], **told, **counts, max_s=pa.float64(),
        sketch=pa.binary(),
    )  # fmt: skip
    errors = table([{**key, "date": closed.date(), "shape": "old"}], **told, shape=pa.string(), count=pa.int64())
    for name, rows in {"hourly": counted, "daily": counted, "errors": errors}.items():
        mark = round(before.timestamp() * 1_000_000) if name == "hourly" else None
        path = str(tmp_path / "insights" / name)
        lake.replace(path, rows, "true", partition_by=["date"], app="insights", version=mark)
    kept = pa.schema([field for field in events.SCHEMA if field.name not in ("added", "changed_at")])
    DeltaTable.create(str(tmp_path / "insights" / "events"), kept, partition_by=["date"])
    streams.make(database, "orders")
    streams.send(database, "orders", ["new"])

    run_pipeline(Insights(lateness_s=3600), spark=spark, url=dsn, lake=str(tmp_path))

    hours = lake.read(spark, str(tmp_path / "insights" / "hourly")).orderBy("starts_at").collect()
    assert [(row["sent"], row["per_second"] is None) for row in hours] == [(7, True), (1, False)]
    daily = lake.read(spark, str(tmp_path / "insights" / "daily")).collect()
    assert sum(row["sent"] for row in daily) == 8
    assert "example" in lake.read(spark, str(tmp_path / "insights" / "errors")).columns

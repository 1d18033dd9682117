"""Importing from files."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from penstock.spark.pipelines.run import PipelineError
from tests.spark.test_import import JOBS, MESSAGES, Importer

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def load(spark: SparkSession, dsn: str, database: psycopg.Connection, tmp_path: Path) -> Importer:
    return Importer(spark, dsn, database, tmp_path / "lake")


def test_lines_of_json_are_imported_once_and_bad_ones_are_told(load: Importer, tmp_path: Path) -> None:
    file = tmp_path / "lines.jsonl"
    large = json.dumps("x" * 1_048_577).encode()
    file.write_bytes(b'{"n": 1}\n\n  \n["\xc3\xa9"]\n{nope\n"\xff"\n"a\\u0000b"\n' + large + b"\n")

    results = load("jsonl", paths=(str(file),), target="jobs", into="work", skip_rejects=True)
    load("jsonl", paths=(str(file),), target="jobs", into="work")

    assert [json.loads(row[1]) for row in load.all(JOBS)] == [{"n": 1}, ["é"], "a\0b"]
    assert {row["rejected because"]: row["rows"] for row in results} == {
        "": 3,
        "not JSON": 1,
        "not UTF-8": 1,
        "larger than 1048576 bytes": 1,
    }

    file.write_bytes(b'{"n": 2}\n')
    load("jsonl", paths=(str(tmp_path / "*.jsonl"),), target="jobs", into="work")
    assert load.counts()[1] == 4


def test_a_column_of_a_csv_is_the_payload_and_others_say_where_and_when(load: Importer, tmp_path: Path) -> None:
    soon = datetime.now(UTC) + timedelta(hours=1)
    far = datetime.now(UTC) + timedelta(days=30)
    file = tmp_path / "rows.csv"
    file.write_bytes(
        f'name,body,priority,deliver_at\nmail,"two\nlines, ""quoted""",5,\nother,plain,,{soon.isoformat()}\n'
        f"mail,late,,{far.isoformat()}\nbad name,x,,\nmail,\xff,,\n".encode("latin-1")
    )

    with pytest.raises(PipelineError, match="2 rows imported; 3 rejected"):
        load("csv", paths=(str(file),), value="body", rename=("other=letters",))

    rows = load.all(MESSAGES)
    assert [(name, body, priority) for name, body, priority, _, _ in rows] == [
        ("letters", "plain", 100),
        ("mail", 'two\nlines, "quoted"', 105),
    ]
    assert abs(rows[0][4] - soon) < timedelta(seconds=2)
    assert [reason for _, _, reason in load.rejects()] == [
        "delayed by more than 43200 seconds",
        "name not allowed for a queue",
        "not UTF-8",
    ]


def test_rows_of_parquet_become_events(load: Importer, tmp_path: Path) -> None:
    folder = tmp_path / "parts"
    folder.mkdir()
    for number in (1, 2):
        table = pa.table({"n": [number], "name": [f"row {number}"], "type": ["made"]})
        pq.write_table(table, folder / f"{number}.parquet")

    load("parquet", paths=(str(folder),), target="stream", into="rows")
    load("parquet", paths=(str(folder),), target="stream", into="values", value="name")

    assert [(kind, json.loads(data)) for kind, data, _, _ in load.events("rows")] == [
        ("default", {"n": number, "name": f"row {number}", "type": "made"}) for number in (1, 2)
    ]
    assert load.events("values") == [("made", "row 1", None, None), ("made", "row 2", None, None)]


def test_files_that_are_not_there_or_lack_the_column_are_an_error(load: Importer, tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="there are no files"):
        load("csv", paths=(str(tmp_path / "none.csv"),), into="work")
    (tmp_path / "rows.csv").write_text("a,b\n1,2\n")
    with pytest.raises(PipelineError, match="no column 'body'; it has a, b"):
        load("csv", paths=(str(tmp_path / "rows.csv"),), value="body", into="work")
    with pytest.raises(PipelineError, match="files need paths"):
        load("csv", into="work")

"""Importing from files."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from penstock.spark.pipelines.importing import files, pipeline
from penstock.spark.pipelines.pipeline import PipelineError
from tests.spark.importing.test_import import JOBS, MESSAGES, Importer

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def load(spark: SparkSession, dsn: str, database: psycopg.Connection, tmp_path: Path) -> Importer:
    return Importer(spark, dsn, database, tmp_path / "lake")


def test_lines_of_json_are_imported_once_and_bad_ones_are_told(load: Importer, tmp_path: Path) -> None:
    file = tmp_path / "lines.jsonl"
    large = json.dumps("x" * 1_048_577).encode()
    file.write_bytes(
        b'{"n": 1}\n\n  \n["\xc3\xa9"]\n{nope\n{} {}\n{"a": 1, "a": 2}\n"\xff"\n"a\\u0000b"\n' + large + b"\n"
    )

    results = load("jsonl", paths=(str(file),), target="jobs", into="work", skip_rejects=True)
    load("jsonl", paths=(str(file),), target="jobs", into="work")

    assert [json.loads(row[1]) for row in load.all(JOBS)] == [{"n": 1}, ["é"], {"a": 2}, "a\0b"]
    assert {row["rejected because"]: row["rows"] for row in results} == {
        "": 4,
        "not JSON": 2,
        "not UTF-8": 1,
        "larger than 1048576 bytes": 1,
    }

    file.write_bytes(b'{"n": 2}\n')
    load("jsonl", paths=(str(tmp_path / "*.jsonl"),), target="jobs", into="work")
    assert load.counts()[1] == 5


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

    file = tmp_path / "odd.parquet"
    pq.write_table(pa.table({"n": [1, None, 3], "key": ["one", "two", "a\0b"]}), file)
    load("parquet", paths=(str(file),), target="stream", into="numbers", value="n", skip_rejects=True)

    assert load.events("numbers") == [("default", "1", None, "one")]
    assert [reason for _, _, reason in load.rejects()] == ["no payload", "key holds a zero character"]


def test_each_odd_row_is_rejected_by_itself(load: Importer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "odd.jsonl"
    odd: dict[str, dict[str, object]] = {
        "deliver_at not a moment": {"deliver_at": "soon"},
        "headers not a JSON object": {"headers": "{nope"},
        "priority not a whole number": {"priority": "high"},
    }
    rows: list[dict[str, object]] = [{"priority": 2**63 - 1}, {"priority": -(2**31)}, {"headers": {"h": 1}}]
    lines = [{"name": name, "body": f"for {name}", **row} for name in ("a", "b") for row in [*rows, *odd.values()]]
    lines += [{"name": name, "body": f"large for {name}"} for name in ("a", "b")]
    file.write_text("\n".join(json.dumps(line) for line in lines))
    load.database.execute("select penstock.create_queue('b', '{\"max_message_bytes\": 5}')")
    monkeypatch.setattr(pipeline, "MOST_NAMES", 2)

    results = load("jsonl", paths=(str(file),), value="body", rename=("a=b", "b=a"), skip_rejects=True)

    taken = [(1000, None), (0, None), (100, {"h": 1})]
    assert [row[:4] for row in load.all(MESSAGES)] == [
        *(("a", "for b", *row) for row in taken),
        ("a", "large for b", 100, None),
        *(("b", "for a", *row) for row in taken),
    ]
    assert [(row["to"], row["rejected because"], row["rows"]) for row in results] == [
        ("queue a", "", 4),
        *(("queue a", reason, 1) for reason in odd),
        ("queue b", "", 3),
        ("queue b", "deliver_at not a moment", 1),
        ("queue b", "headers not a JSON object", 1),
        ("queue b", "larger than 5 bytes", 1),
        ("queue b", "priority not a whole number", 1),
    ]
    assert len(load.rejects()) == 7


def test_a_file_is_found_by_its_own_name_and_known_in_every_zone(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["a?{b,c}*.jsonl", "x1.jsonl", "x[1].jsonl"]
    for name in names:
        (tmp_path / name).write_text(json.dumps(name))
    (tmp_path / "_hidden.jsonl").write_text("1")

    def label(zone: str) -> list[str]:
        monkeypatch.setenv("TZ", zone)
        time.tzset()
        return [file.label for file in files.find_files(spark, [str(tmp_path / "x[1].jsonl")])]

    found = files.find_files(spark, [str(tmp_path), str(tmp_path / names[2])])
    read = [row["value"] for file in found for row in files.read(spark, "jsonl", file.path, None).collect()]
    assert [json.loads(value) for value in read] == names

    try:
        assert label("Asia/Tokyo") == label("UTC") == [found[2].label]
    finally:
        monkeypatch.delenv("TZ")
        time.tzset()
    with pytest.raises(PipelineError, match=r"begin with _ or \. : rename .*/_hidden\.jsonl"):
        files.find_files(spark, [str(tmp_path / "x1.jsonl"), str(tmp_path / "_hidden.jsonl")])


def test_files_that_are_not_there_or_lack_the_column_are_an_error(load: Importer, tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="there are no files"):
        load("csv", paths=(str(tmp_path / "none.csv"),), into="work")
    (tmp_path / "rows.csv").write_text("a,b\n1,2\n")
    with pytest.raises(PipelineError, match="no column 'body'; it has a, b"):
        load("csv", paths=(str(tmp_path / "rows.csv"),), value="body", into="work")
    with pytest.raises(PipelineError, match="files need paths"):
        load("csv", into="work")

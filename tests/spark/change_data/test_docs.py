"""The page about change data: its examples run in their order, and its tables are those of the code."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.sql import SparkSession

from penstock.spark.pipelines.change_data import ChangeData
from penstock.spark.pipelines.change_data.tables import CURRENT, HISTORY
from tests.docs.pages import blocks, page, plain, rows, section
from tests.spark.change_data.mirrored import Mirrored

pytestmark = pytest.mark.timeout(300)

PAGE = "docs/change-data.md"


def test_the_examples_of_change_data_run(
    spark: SparkSession, dsn: str, database: psycopg.Connection[Any], tmp_path: Path
) -> None:
    mirrored = Mirrored(spark, dsn, database, tmp_path)
    mine = {"env:DATABASE_URL": dsn, "/var/lib/lake": str(tmp_path), "datetime(2026, 11, 1, 12, tzinfo=UTC)": "now"}
    known: dict[str, Any] = {}
    for language, text in blocks(page(PAGE)):
        if language == "sql":
            known["now"] = mirrored.now()
            database.execute(text.encode())
        elif language == "python":
            for written, meant in mine.items():
                text = text.replace(written, meant)
            exec(text, known)

    assert [row["name"] for row in known["products"].collect()] == ["Tea"]
    assert sorted(row["name"] for row in known["before"].collect()) == ["Milk", "Tea"]


def test_every_setting_of_change_data_is_documented() -> None:
    documented = {plain(row[0]): plain(row[1]) for row in rows(section(page(PAGE), "## Settings"))}
    assert documented.keys() == {field.name for field in fields(ChangeData)}
    for field in fields(ChangeData):
        if isinstance(field.default, int | str):
            assert documented[field.name] == str(field.default).lower()


def test_every_column_of_ours_is_documented() -> None:
    documented = [row for row in rows(section(page(PAGE), "## Columns")) if len(row) == 4]
    named = {(table, plain(row[1])) for row in documented for table in _tables(plain(row[0]))}
    types = {plain(row[1]): row[2] for row in documented}

    ours = {"current": CURRENT, "history": HISTORY}
    assert named == {(table, column.name) for table, columns in ours.items() for column in columns}
    assert types == {column.name: column.type.simpleString() for columns in ours.values() for column in columns}


def _tables(text: str) -> list[str]:
    return ["current", "history"] if text == "both" else [text]

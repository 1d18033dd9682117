"""docs/lake.md is true: its programs run one after the other, and its table of options is that of the code.

What it says of object stores is run where there is one, in `test_lake_object_store.py`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.sql import SparkSession

from penstock.spark.lake.options import KNOWN
from tests.docs.pages import blocks, page, quoted, rows, section
from tests.spark import streams

pytestmark = pytest.mark.timeout(300)


@pytest.mark.slow
def test_the_programs_of_the_page_run(
    spark: SparkSession, dsn: str, database: psycopg.Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    streams.make(database, "orders")
    streams.send(database, "orders", ['{"id": 1, "total": 2.5, "customer": {"name": "Ada"}}', "nonsense"], "made")
    monkeypatch.setattr("penstock.spark.running.session.session", lambda name: spark)
    # Tasks have the environment that Spark was started with, so the address itself takes the place of its name there.
    local = page("docs/lake.md").partition("\n## Object stores\n")[0]
    programs = [text for language, text in blocks(local) if language == "python"]
    names: dict[str, Any] = {}

    for program in programs:
        exec(program.replace("env:DATABASE_URL", dsn).replace("/var/lib/lake", str(tmp_path)), names)

    assert [tuple(row["customer"]) for row in names["good"].collect()] == [("Ada",)]
    assert [row["bad"] for row in names["bad"].collect()] == ["nonsense"]


def test_every_option_is_documented() -> None:
    sections = [section(page("docs/lake.md"), title) for title in ("## Write", "## Read as a stream")]
    documented = [name for text in sections for row in rows(text) for name in quoted(row[0])]

    # Two of them are Spark's own, which it hands on.
    assert sorted(documented) == sorted([*(set(KNOWN) - {"checkpointLocation", "queryName"}), "storage.*"])

"""The page about Spark: its examples run, its tables are those of the code, and the tests it names are there."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from pyspark.sql import SparkSession

from penstock.spark import options
from penstock.spark.reading import events
from tests.docs.pages import ROOT, blocks, page, plain, quoted, rows, section
from tests.spark import streams

pytestmark = pytest.mark.timeout(300)

PAGE = "docs/spark.md"
SPARKS_OWN = {"checkpointLocation", "path", "queryName"}
"""Options that Spark passes to the writer."""


def test_the_examples_of_the_page_about_spark_run(
    spark: SparkSession, dsn: str, database: psycopg.Connection[Any]
) -> None:
    streams.make(database, "orders")
    streams.send(database, "orders", ["a", "b"])
    database.execute("select penstock.create_queue('shipping')")
    known: dict[str, Any] = {}

    for language, text in blocks(page(PAGE)):
        # A server of Spark Connect has a test of its own. The processes of Spark have the environment they began with.
        if language == "python" and "sc://" not in text:
            exec(text.replace("env:DATABASE_URL", dsn), known)

    assert known["spark"].version == spark.version
    assert sorted(row[0] for row in database.execute("select body from penstock.messages")) == ["a", "b"]


def test_every_option_of_the_format_is_documented() -> None:
    text = page(PAGE)
    tables = section(text, "## Read as a stream") + section(text, "## Write")
    documented = {name for row in rows(tables) for name in quoted(row[0])}

    assert documented == set(options.KNOWN) - SPARKS_OWN


def test_every_column_of_an_event_is_documented() -> None:
    documented = [plain(row[0]) for row in rows(section(page(PAGE), "## Read"))]

    assert documented == [column.name for column in events.columns(headers=True)]


def test_the_failures_are_shown_by_tests_that_exist() -> None:
    shown = [name for row in rows(section(page(PAGE), "## When something fails")) for name in quoted(row[3])]

    assert len(shown) >= 5
    assert [name for name in shown if not (ROOT / name).is_file()] == []

"""The page about tables has every table, and every column with its type."""

from __future__ import annotations

import pytest

from penstock.spark.reading.tables import TABLES
from tests.docs.pages import page, plain, rows, section

PAGE = "docs/spark-tables.md"


def test_every_table_has_its_section() -> None:
    assert [line.removeprefix("## `").rstrip("`") for line in page(PAGE).splitlines() if line.startswith("## `")] == [
        *TABLES
    ]


@pytest.mark.parametrize("name", TABLES)
def test_every_column_is_documented_with_its_type(name: str) -> None:
    documented = [(plain(row[0]), row[1]) for row in rows(section(page(PAGE), f"## `{name}`"))]

    assert documented == [(column.name, column.type.simpleString()) for column in TABLES[name].columns]

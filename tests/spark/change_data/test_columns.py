"""Types of tracked columns in the lake: what they are, what they grow into, and which names are refused."""

from __future__ import annotations

import pytest
from pyspark.sql.types import (
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    TimestampType,
)

from penstock.spark.pipelines.change_data.columns import (
    ChangeDataError,
    Column,
    check_names,
    fits,
    lake_type,
    merged,
)
from penstock.spark.pipelines.change_data.source import TableName

INT, LONG, TEXT = IntegerType(), LongType(), StringType()


def numeric(precision: int, scale: int) -> int:
    """The type modifier of numeric(precision, scale)."""
    return (precision << 16 | scale & 0x7FF) + 4


@pytest.mark.parametrize(
    ("name", "modifier", "kind"),
    [
        ("int4", -1, INT),
        ("timestamptz", 7, TimestampType()),
        ("numeric", numeric(10, 2), DecimalType(10, 2)),
        ("numeric", numeric(38, 0), DecimalType(38, 0)),
        ("numeric", numeric(39, 0), TEXT),
        ("numeric", numeric(2, 5), TEXT),
        ("numeric", numeric(5, -2), TEXT),
        ("numeric", -1, TEXT),
        ("uuid", -1, TEXT),
        ("", -1, TEXT),
    ],
)
def test_a_type_of_postgresql_is_one_of_the_lake(name: str, modifier: int, kind: DataType) -> None:
    assert lake_type(name, modifier) == kind


@pytest.mark.parametrize(
    ("smaller", "larger"),
    [
        (ShortType(), INT),
        (INT, LONG),
        (INT, DoubleType()),
        (INT, DecimalType(12, 2)),
        (LONG, DecimalType(19, 0)),
        (FloatType(), DoubleType()),
        (DecimalType(6, 2), DecimalType(8, 4)),
        (DecimalType(6, 2), TEXT),
        (DateType(), TEXT),
    ],
)
def test_a_type_fits_into_a_larger_one_and_not_the_other_way(smaller: DataType, larger: DataType) -> None:
    assert fits(smaller, larger)
    assert not fits(larger, smaller)


@pytest.mark.parametrize(
    ("there", "wanted"),
    [
        (LONG, DoubleType()),
        (INT, DecimalType(10, 2)),
        (DecimalType(6, 2), DecimalType(7, 4)),
        (TimestampType(), TEXT),
        (DateType(), TimestampType()),
        (INT, TimestampType()),
    ],
)
def test_a_type_that_would_lose_values_does_not_fit(there: DataType, wanted: DataType) -> None:
    assert not fits(there, wanted)


def test_columns_are_those_of_the_lake_and_those_that_changes_tell_of() -> None:
    there = [Column("id", LONG), Column("gone", TEXT), Column("small", INT)]
    source: dict[str, DataType] = {"id": INT, "small": LONG, "new": INT, "untold": INT}

    found = merged("t", there, source, ["id", "small", "new", "unknown"])

    assert found == [
        Column("id", LONG), Column("gone", TEXT), Column("small", LONG), Column("new", INT), Column("unknown", TEXT),
    ]  # fmt: skip


@pytest.mark.parametrize("names", [["_valid_from"], ["_UNFIT"], ["__op"], ["a`b"], ["Name", "name"]])
def test_names_that_the_lake_cannot_have_are_refused(names: list[str]) -> None:
    with pytest.raises(ChangeDataError, match="table t: "):
        check_names("t", names, ("_unfit", "_valid_from"))


def test_no_name_of_a_table_leads_out_of_the_lake() -> None:
    assert TableName("public", "orders").folder == "public.orders"
    assert TableName("..", "../x y").folder == "~2e~~2e~.~2e~~2e~~2f~x~20~y"
    assert TableName("a.b", "c").folder != TableName("a", "b.c").folder

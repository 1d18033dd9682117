"""Payloads by a schema: what fits becomes columns, what does not is kept as it came."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import ArrayType, StringType, StructField, StructType

from penstock.spark import values

pytestmark = pytest.mark.timeout(300)

SCHEMA = "id bigint not null, name string, price double, tags array<int>, at struct<city: string, zip: int>"
GOOD: dict[str | None, tuple[object, ...]] = {
    '{"id": 1}': (1, None, None, None, None),
    ' {"id": 2, "name": "a", "price": 1.5, "tags": [1, null]} ': (2, "a", 1.5, [1, None], None),
    '{"id": 3, "at": {"city": "x", "zip": 7}, "other": {"y": []}}': (3, None, None, None, ("x", 7)),
    '{"id": 4, "name": null, "at": {"city": null}}': (4, None, None, None, (None, None)),
    '{"id": 5, "name": "", "price": 2}': (5, "", 2.0, None, None),
    None: (None, None, None, None, None),
}
BAD = [
    "",
    " ",
    "null",
    "nonsense",
    '{"id": 1',
    '{"id": 1} and more',
    '{"id": 1} {"id": 2}',
    '{"id": 1}, {"id": 2}',
    '{"id": 1}, null',
    '[{"id": 1}]',
    "17",
    '{"name": "a"}',
    '{"id": null}',
    '{"id": "1"}',
    '{"id": 1.5}',
    '{"id": 99999999999999999999}',
    '{"id": 1, "name": 2}',
    '{"id": 1, "name": {"a": 1}}',
    '{"id": 1, "price": "high"}',
    '{"id": 1, "tags": ["a"]}',
    '{"id": 1, "tags": 1}',
    '{"id": 1, "at": "x"}',
    '{"id": 1, "at": {"zip": true}}',
    '{"id": 1, "at": {"city": 5}}',
]


def test_every_row_is_either_columns_or_its_own_text(spark: SparkSession) -> None:
    texts = [*GOOD, *BAD]
    frame = spark.createDataFrame(list(enumerate(texts)), "offset int, value string").coalesce(1)

    rows = {row["offset"]: row for row in values.parsed(frame, SCHEMA).collect()}

    assert values.parsed(frame, SCHEMA).columns == ["offset", "id", "name", "price", "tags", "at", "bad"]
    for number, (text, expected) in enumerate(GOOD.items()):
        found = tuple(tuple(each) if hasattr(each, "asDict") else each for each in rows[number][1:6])
        assert (found, rows[number]["bad"]) == (expected, None), text
    for number, text in enumerate(BAD, len(GOOD)):
        assert (tuple(rows[number][1:6]), rows[number]["bad"]) == ((None,) * 5, text), text


NESTED = """
    tags array<string>, notes map<string, array<string>>, at struct<zip: int not null, lines: array<struct<a: string>>>,
    price double, cost decimal(8, 2)
"""
DEEP = {
    '{"tags": ["a", null], "notes": {"a": ["b"]}, "at": {"zip": 1, "lines": [{"a": "x"}, {}]}, "cost": 1.5}': True,
    '{"tags": null, "notes": null, "at": null, "price": 1e3, "cost": 2}': True,
    '{"tags": []}': True,
    '{"tags": ["a", 1]}': False,
    '{"notes": {"a": ["b"], "c": [true]}}': False,
    '{"at": {"lines": []}}': False,
    '{"at": {"zip": null}}': False,
    '{"at": {"zip": 1, "lines": [{"a": "x"}, {"a": 5}]}}': False,
    '{"price": "NaN"}': False,
    '{"price": NaN}': False,
    '{"cost": "1.5"}': False,
}


def test_what_lies_deeper_fits_as_strictly(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(text, text) for text in DEEP], "text string, value string")

    assert {row["text"]: row["bad"] for row in values.parsed(frame, NESTED).collect()} == {
        text: None if fits else text for text, fits in DEEP.items()
    }


def test_elements_that_must_not_be_null_are_not(spark: SparkSession) -> None:
    schema = StructType([StructField("tags", ArrayType(StringType(), containsNull=False))])
    frame = spark.createDataFrame([('{"tags": ["a"]}',), ('{"tags": ["a", null]}',)], "value string")

    assert [row["bad"] for row in values.parsed(frame, schema).collect()] == [None, '{"tags": ["a", null]}']


def test_good_and_bad_rows_part(spark: SparkSession) -> None:
    frame = spark.createDataFrame([('{"id": 1}',), ("x",)], "value string")

    good, bad = values.split(values.parsed(frame, "id bigint"))

    assert [row.asDict() for row in good.collect()] == [{"id": 1}]
    assert [row["bad"] for row in bad.collect()] == ["x"]


def test_a_name_that_is_taken_is_refused(spark: SparkSession) -> None:
    frame = spark.createDataFrame([("a", "{}")], "type string, value string")

    with pytest.raises(ValueError, match="names already: type"):
        values.parsed(frame, "Type string")

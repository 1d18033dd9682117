"""Payloads as columns, decided from samples and strict about types; and the tasks that write them. No Spark."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from pyspark.sql.types import StructType

from penstock.spark.lake.schemas import arrow_schema
from penstock.spark.pipelines.pipeline import PipelineError
from penstock.spark.pipelines.tables import shapes
from penstock.spark.pipelines.tables.ddl import parse_columns
from penstock.spark.pipelines.tables.settings import read_settings, table_name
from penstock.spark.pipelines.tables.shapes import Decoder, Misfit, Samples, Shape, evolved, joined, unknown_reason
from penstock.spark.pipelines.tables.tasks import Outcome, Plan, TablesWriter, take_outcomes

pytestmark = pytest.mark.timeout(60)
EMPTY = Shape(StructType([]))


def looked(*payloads: object) -> Samples:
    samples = Samples()
    for payload in payloads:
        samples.look(json.dumps(payload))
    return samples


def columns(shape: Shape, *texts: str) -> list[dict[str, Any]]:
    decoder, schema = Decoder(shape), arrow_schema(shape.schema)
    arrays = decoder.columns([decoder.decode(text) for text in texts], schema)
    found: list[dict[str, Any]] = pa.RecordBatch.from_arrays(arrays, schema=schema).to_pylist()
    return found


def declared(ddl: str, **more: Any) -> Shape:
    return Shape(parse_columns(ddl), **more)


def test_samples_decide_about_columns() -> None:
    shape = evolved(EMPTY, looked({"id": 1, "name": "a", "ok": True, "tags": ["x"], "of": {"a": 1}, "gone": None}))

    assert shape.schema.simpleString() == "struct<id:bigint,name:string,of:string,ok:boolean,tags:array<string>>"
    assert shape.json == {"of"}
    assert columns(shape, '{"id": 2, "of": {"b": [1, null]}, "tags": ["y", null]}') == [
        {"id": 2, "name": None, "of": '{"b": [1, null]}', "ok": None, "tags": ["y", None]}
    ]


def test_a_few_bad_payloads_do_not_decide() -> None:
    samples = looked(*({"id": n} for n in range(9)), {"id": "oops"})

    assert evolved(EMPTY, samples).schema.simpleString() == "struct<id:bigint>"
    cases = looked({"ID": 1, "b": 1, "B": None}, {"id": 2}, {"id": 3})
    assert evolved(EMPTY, cases).schema.simpleString() == "struct<b:bigint,id:bigint>"


def test_a_shape_grows_and_deciding_again_changes_nothing() -> None:
    before = evolved(EMPTY, looked({"id": 1, "total": 3}))
    samples = looked({"id": 2, "total": 3.5, "note": "new"}, {"ID": 1, "_offset": 7, "total": "no number"})

    after = evolved(before, samples)

    assert after.schema.simpleString() == "struct<id:bigint,total:double,note:string>"
    assert evolved(after, samples) == after


def test_whole_numbers_that_a_double_cannot_hold_stay_whole() -> None:
    large = 2**53 + 1

    mixed = evolved(EMPTY, looked({"id": large}, {"id": 2}, {"id": 1.5}))

    assert mixed.schema.simpleString() == "struct<id:bigint>"
    exact = declared("id bigint", exact=frozenset({"id"}))
    assert evolved(exact, looked({"id": 1.5})) == exact
    assert joined(exact, [declared("id double")]).schema.simpleString() == "struct<id:bigint>"


def test_names_that_no_column_can_have_are_left_out() -> None:
    odd = {'a"b': 1, "a\\b": 1, "a\nb": 1, "a`b": 1, "": 1, "a b.c": 1}

    shape = evolved(EMPTY, looked(odd))

    assert shape.schema.names == ["a b.c"]
    assert Decoder(shape).decode('{"a b.c": 1}')
    assert unknown_reason(json.dumps(odd), shape) == "field 'a\"b' cannot be the name of a column"


def test_a_table_has_a_maximum_of_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shapes, "MOST_COLUMNS", 3)

    shape = evolved(EMPTY, looked({f"user {number}": 1 for number in range(9)}))

    assert shape.schema.names == ["user 0", "user 1", "user 2"]
    assert joined(shape, [evolved(EMPTY, looked({"user 7": 1}))]) == shape
    assert unknown_reason('{"user 7": 1}', shape) == "field 'user 7' has no column: the table has 3, the maximum"


def test_declared_types_are_decoded() -> None:
    shape = declared("d decimal(6,2), at timestamp, day date, raw binary, one struct<a: int>, m map<string, bigint>")
    text = (
        '{"d": "12.50", "at": "2026-11-18T03:00:00+01:00", "day": "2026-11-18", "raw": "aGk=", "one": {"a": 1, "b": 2},'
        ' "m": {"x": 1}}'
    )

    [row] = columns(shape, text)

    assert row == {
        "d": Decimal("12.50"), "at": datetime(2026, 11, 18, 2, tzinfo=UTC), "day": date(2026, 11, 18), "raw": b"hi",
        "one": {"a": 1}, "m": [("x", 1)],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("nonsense", "malformed"),
        ("[1]", "Expected `object`, got `array`"),
        ('{"id": 1} x', "trailing characters"),
        ('{"id": "1"}', r"Expected `int`, got `str` - at `\$.id`"),
        ('{"id": 9223372036854775808}', r"\$.id"),
        ('{"name": "a"}', "missing required field `id`"),
        ('{"id": 1, "more": 2}', "unknown field `more`"),
        (None, "the payload is null"),
    ],
)
def test_a_payload_that_does_not_fit_says_why(text: str | None, reason: str) -> None:
    with pytest.raises(Misfit, match=reason):
        Decoder(declared("id bigint not null, name string")).decode(text)


def test_columns_are_read_without_spark() -> None:
    text = "`a b` int, n: decimal(8,2) not null, l array<map<string, struct<x: date>>>"

    assert parse_columns(text).simpleString() == ("struct<a b:int,n:decimal(8,2),l:array<map<string,struct<x:date>>>>")
    for wrong in (
        "",
        "a",
        "a int b",
        "a decimal(50)",
        "a array<int",
        "a int, A int",
        "a map<int, int>",
        "a int not",
        '`"` int',
    ):
        with pytest.raises(ValueError, match=r"\w"):
            parse_columns(wrong)


def events(*rows: tuple[str, str | None]) -> pa.RecordBatch:
    size = len(rows)
    moment = datetime(2026, 11, 18, 3, tzinfo=UTC)
    return pa.RecordBatch.from_pydict({
        "stream": ["orders"] * size, "offset": pa.array(range(1, size + 1), pa.int64()),
        "timestamp": pa.array([moment] * size, pa.timestamp("us", "UTC")), "type": [kind for kind, _ in rows],
        "key": pa.array([None] * size, pa.string()), "value": [text for _, text in rows],
    })  # fmt: skip


def written(task: TablesWriter, batch: pa.RecordBatch, outcomes: Path) -> dict[str, Outcome]:
    task.commit([task.write(iter([batch]))])
    found = take_outcomes(str(outcomes))
    assert not outcomes.exists()
    return {kind or "": outcome for kind, outcome in found}


def test_a_task_writes_good_rows_to_their_table_and_bad_ones_to_the_quarantine(tmp_path: Path) -> None:
    shape = declared("id bigint not null, total decimal(4,2)", open=False)
    plan = Plan("made", str(tmp_path / "made"), shape, ("_date",), evolve=False)
    task = TablesWriter({"made": plan}, str(tmp_path / "_quarantine"), "not declared", str(tmp_path / "found.json"))

    made = ('{"id": 1, "total": 2.5, "x": 0}', '{"id": "1"}', '{"id": 2, "total": 123}')
    batch = events(*(("made", text) for text in made), ("other", "{}"), ("made", '{"id": 3}'))
    found = written(task, batch, tmp_path / "found.json")

    [good] = found["made"].files
    assert good.values == {"_date": "2026-11-18"}
    rows = parquet.read_table(tmp_path / "made" / good.path, partitioning=None).to_pylist()
    assert [(row["id"], row["total"], row["_offset"]) for row in rows] == [(1, Decimal("2.50"), 1), (3, None, 5)]
    files = (*found["made"].bad, *found["other"].bad)
    rows = [row for each in files for row in parquet.read_table(tmp_path / "_quarantine" / each.path).to_pylist()]
    bad = sorted(rows, key=lambda row: int(row["offset"]))
    assert [(row["offset"], row["table"], row["value"]) for row in bad] == [
        (2, "made", '{"id": "1"}'), (3, "made", '{"id": 2, "total": 123}'), (4, None, "{}"),
    ]  # fmt: skip
    assert bad[2]["reason"] == "not declared"
    assert all(row["reason"] for row in bad)


def test_types_without_a_table_are_skipped_and_new_fields_become_columns(tmp_path: Path) -> None:
    plan = Plan("made", str(tmp_path / "made"), declared("id bigint"))
    task = TablesWriter({"made": plan}, str(tmp_path / "_quarantine"), None, str(tmp_path / "found.json"))

    first = events(("made", '{"id": 1}'), ("other", "{}"))
    second = events(("made", '{"id": 2, "new": 1.5}'), ("made", '{"id": "x", "new": 1}'))
    task.commit([task.write(iter([first, second]))])
    [(kind, found)] = take_outcomes(str(tmp_path / "found.json"))

    assert (kind, found.rows, found.bad_rows) == ("made", 2, 1)
    shapes = [Shape.decode(each).schema.simpleString() for each in found.shapes]
    assert shapes == ["struct<id:bigint>", *["struct<id:bigint,new:double>"] * 2]
    tables = [parquet.read_table(tmp_path / "made" / each.path).to_pylist() for each in found.files]
    assert [[(row["id"], row.get("new")) for row in rows] for rows in tables] == [[(1, None)], [(2, 1.5)]]


def test_types_that_are_new_get_columns_by_most_of_their_payloads(tmp_path: Path) -> None:
    task = TablesWriter(
        {}, str(tmp_path / "_quarantine"), None, str(tmp_path / "found.json"), others=str(tmp_path / "tables")
    )

    batch = events(("a/b", '{"x": "odd"}'), ("a/b", '{"x": 1}'), ("broken", "nonsense"), ("a/b", '{"x": 2}'))
    found = written(task, batch, tmp_path / "found.json")

    assert {kind: (each.rows, each.bad_rows) for kind, each in found.items()} == {"a/b": (2, 1), "broken": (0, 1)}
    [added] = found["a/b"].files
    assert parquet.read_table(tmp_path / "tables" / "a~2f~b" / added.path)["x"].to_pylist() == [1, 2]


def test_what_tasks_came_to_is_joined() -> None:
    base = declared("id bigint, l array<bigint>")
    first = evolved(base, looked({"id": 1, "x": 1, "y": {"a": 1}, "z": [1]}))
    second = evolved(base, looked({"id": 1.5, "X": "s", "y": "s", "z": [1.5]}))
    found = joined(base, [first, second])

    assert found.schema.simpleString() == (
        "struct<id:double,l:array<bigint>,x:bigint,y:string,z:array<double>>"
    )  # fmt: skip
    assert found.json == {"y"}
    assert (found.holds(base), found.holds(first), found.holds(second)) == (False, False, False)
    assert joined(base, [base, evolved(base, looked({"q": 1}))]).holds(base)
    assert joined(found, [found]) == found


def test_a_plan_survives_the_way_to_the_tasks(tmp_path: Path) -> None:
    plan = Plan(
        "made", "/x", declared("id bigint not null, l array<int>", json=frozenset({"l"})), ("_date",), False, ("id",)
    )

    assert Plan.decode(json.loads(json.dumps(plan.encode()))) == plan


def settings(tmp_path: Path, text: str) -> str:
    path = tmp_path / "tables.toml"
    path.write_text(text)
    return str(path)


def test_a_file_declares_tables(tmp_path: Path) -> None:
    found = read_settings(
        settings(tmp_path, '[types."order.made"]\ntable = "orders"\nschema = "id bigint"\nkey = ["id"]')
    )

    made = found.of("order.made")
    assert made is not None
    assert (made.table, made.key, made.evolve) == ("orders", ("id",), False)
    assert found.of("other") is None
    every = read_settings(None).of("a/b")
    assert every is not None
    assert every.table == table_name("a/b") == "a~2f~b"


def test_a_long_type_gets_a_table_that_a_file_system_can_name() -> None:
    names = [table_name("x" * 254 + last) for last in ("a", "b", "ab", "é")]

    assert [len(name) for name in names] == [255] * 4
    assert names[0] == "x" * 254 + "a"
    assert len(set(names)) == 4


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("x =", "is not TOML"),
        ("streams = 1", "unknown setting: streams"),
        ("[types.a]\ncolumns = 1", "unknown setting of type 'a': columns"),
        ('[types.a]\nschema = "id nonsense"', "the schema 'id nonsense' is not valid"),
        ('[types.a]\ntable = "../x"', "cannot be the name of a table"),
        ('[types.a]\ntable = "x"\n[types.b]\ntable = "x"', "named by two types"),
        ("[types.a]\nevolve = false", "needs a schema"),
        ('others = "all"', "must be one of tables, skip, quarantine"),
        ('[types.a]\nkey = "id"', "key must be a list of columns"),
    ],
)
def test_a_wrong_declaration_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(PipelineError, match=problem):
        read_settings(settings(tmp_path, text))

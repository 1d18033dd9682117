"""The lake's sink and readers: every reader sees each row once."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import polars
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from penstock.spark import lake
from penstock.spark.lake.errors import LakeError
from penstock.spark.lake.files import TaskFiles
from penstock.spark.lake.schemas import arrow_schema, nullable
from penstock.spark.lake.storage import filesystem

pytestmark = pytest.mark.timeout(300)


def write(frame: DataFrame, path: Path, mode: str = "append", **options: str) -> None:
    frame.write.format("penstock_lake").options(path=str(path), **options).mode(mode).save()


def numbers(spark: SparkSession, path: Path) -> list[int]:
    """The column `n` as every reader sees it."""
    native = sorted(row["n"] for row in lake.read(spark, str(path)).collect())
    python = spark.read.format("penstock_lake").load(str(path))
    assert sorted(row["n"] for row in python.collect()) == native
    assert sorted(polars.scan_delta(str(path)).collect()["n"].to_list()) == native
    assert sorted(DeltaTable(str(path)).to_pyarrow_table()["n"].to_pylist()) == native
    return native


def test_every_reader_sees_the_rows(spark: SparkSession, tmp_path: Path) -> None:
    write(spark.range(5).withColumnRenamed("id", "n"), tmp_path / "t")
    write(spark.range(5, 7).withColumnRenamed("id", "n"), tmp_path / "t")

    assert numbers(spark, tmp_path / "t") == [0, 1, 2, 3, 4, 5, 6]


TEXTS = [
    "plain",
    "a/b",
    "50%",
    "a b",
    "ünï 🚰",
    None,
    "x=y",
    "{q}[1]*?",
    "a%2Fb",
    "q'\"#:^\\",
    "01",
    "line\nbreak",
]


@pytest.mark.parametrize("compacted", [False, True])
def test_partitions_of_any_text_come_back(spark: SparkSession, tmp_path: Path, compacted: bool) -> None:
    rows = [(number, text) for number, text in enumerate(TEXTS)]
    path = str(tmp_path / "t")
    for _ in range(1 + compacted):
        lake.append(spark.createDataFrame(rows, "n bigint, k string"), path, partition_by=["k"])
    if compacted:
        assert lake.compact(path).removed > 0
    expected = sorted(rows * (1 + compacted))

    assert sorted(tuple(row) for row in lake.read(spark, path).collect()) == expected
    assert sorted(tuple(row) for row in spark.read.format("penstock_lake").load(path).collect()) == expected
    assert sorted(polars.scan_delta(path).select("n", "k").collect().rows()) == expected
    table = DeltaTable(path).to_pyarrow_table()
    assert sorted(zip(table["n"].to_pylist(), table["k"].to_pylist(), strict=True)) == expected


def test_folders_that_tell_their_partitions_are_read_by_spark_itself(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    lake.append(spark.createDataFrame([(1, "a/b"), (2, "50%")], "n bigint, k string"), path, partition_by=["k"])
    frame = lake.read(spark, path)
    shutil.rmtree(tmp_path / "t" / "k=50%25")

    assert "Parquet" in frame._jdf.queryExecution().toString()
    assert [tuple(row) for row in frame.where("k = 'a/b'").collect()] == [(1, "a/b")]


def test_a_text_too_long_for_a_folder_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.createDataFrame([(1, "l" * 300)], "n bigint, k string")

    with pytest.raises(PySparkException, match="cannot be a partition"):
        lake.append(frame, str(tmp_path / "t"), partition_by=["k"])


def test_an_empty_text_is_no_partition(spark: SparkSession, tmp_path: Path) -> None:
    """Delta's protocol has one form for both."""
    lake.append(spark.createDataFrame([(1, "")], "n bigint, k string"), str(tmp_path / "t"), partition_by=["k"])

    assert polars.read_delta(str(tmp_path / "t"))["k"].to_list() == [None]
    assert [row["k"] for row in lake.read(spark, str(tmp_path / "t")).collect()] == [None]


def test_a_filter_on_a_partition_leaves_files_out(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    write(spark.createDataFrame([(1, "a"), (2, "b"), (3, None)], "n bigint, k string"), path, partitionBy="k")
    frame = spark.read.format("penstock_lake").options(path=str(path), pushDownFilters="true").load()
    for folder in path.glob("k=b"):
        for file in folder.iterdir():
            file.unlink()

    assert [row["n"] for row in frame.where("k = 'a'").collect()] == [1]
    assert [row["n"] for row in frame.where("k is null").collect()] == [3]
    assert [row["n"] for row in frame.where("k in ('a', 'c')").collect()] == [1]
    assert [row["n"] for row in frame.where("k < 'b'").collect()] == [1]


def test_a_write_with_a_version_happens_once(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    for version in (1, 1, 2):
        lake.append(spark.range(version, version + 1).withColumnRenamed("id", "n"), str(path), app="a", version=version)

    assert numbers(spark, path) == [1, 2]
    assert lake.version(str(path), "a") == 2
    assert lake.version(str(path), "b") is None
    assert len(list(path.glob("*.parquet"))) == 2, "the files of the write that came again are removed"


def test_a_new_column_needs_to_be_allowed(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    write(spark.createDataFrame([(1,)], "n bigint"), path)
    wider = spark.createDataFrame([(2, "x")], "n bigint, k string")

    with pytest.raises(PySparkException, match="has no column k; option mergeSchema adds"):
        write(wider, path)
    write(wider, path, mergeSchema="true")
    write(spark.createDataFrame([(3,)], "n bigint"), path)

    assert numbers(spark, path) == [1, 2, 3]
    assert sorted(tuple(row) for row in lake.read(spark, str(path)).collect()) == [(1, None), (2, "x"), (3, None)]


@pytest.mark.parametrize(
    ("schema", "row", "problem"),
    [("n string", ("1",), "'n' is string, but long in the table"), ("N bigint", (1,), "'N' is 'n' in the table")],
    ids=["type", "case"],
)
def test_a_column_that_does_not_fit_is_named(
    spark: SparkSession, tmp_path: Path, schema: str, row: tuple[object], problem: str
) -> None:
    write(spark.createDataFrame([(1,)], "n bigint"), tmp_path / "t")

    with pytest.raises(PySparkException, match=problem):
        write(spark.createDataFrame([row], schema), tmp_path / "t", mergeSchema="true")


def test_overwriting_replaces_the_rows(spark: SparkSession, tmp_path: Path) -> None:
    write(spark.createDataFrame([(1,)], "n bigint"), tmp_path / "t")
    write(spark.createDataFrame([(2,)], "n bigint"), tmp_path / "t", mode="overwrite")

    assert numbers(spark, tmp_path / "t") == [2]


def test_every_type_comes_back(spark: SparkSession, tmp_path: Path) -> None:
    query = """
        select 1Y as byte, 2S as short, 3 as n, 4L as long, 1.5F as float, 2.5D as double, 1.25BD as decimal,
          true as flag, 'text' as text, X'0102' as bytes, date'2026-02-03' as day,
          timestamp'2026-02-03 04:05:06.789123+02:00' as moment, timestamp_ntz'2026-02-03 04:05:06.789123' as local,
          array(1, null) as list, map('a', 1, 'b', null) as map, named_struct('x', 1, 'y', array('z')) as struct
    """
    frame = spark.sql(query).union(
        spark.sql(query).selectExpr(*(f"null as {name}" for name in spark.sql(query).columns))
    )
    write(frame.coalesce(1), tmp_path / "t")

    back = lake.read(spark, str(tmp_path / "t"))
    assert [field.dataType for field in back.schema] == [field.dataType for field in nullable(frame.schema)]
    assert sorted(map(str, back.collect())) == sorted(map(str, frame.collect()))
    python = spark.read.format("penstock_lake").load(str(tmp_path / "t"))
    assert sorted(map(str, python.collect())) == sorted(map(str, frame.collect()))
    assert polars.scan_delta(str(tmp_path / "t")).collect().height == 2


@pytest.mark.parametrize(
    ("ddl", "problem"),
    [
        ("a interval day to second", "column 'a' is interval day to second"),
        ("a array<interval year>", "column 'a.element' is interval year"),
        ("a struct<b: time>", "column 'a.b' is time"),
        ("a map<string, void>", "column 'a.value' is void"),
    ],
)
def test_a_type_that_delta_does_not_have_is_named(spark: SparkSession, ddl: str, problem: str) -> None:
    schema = StructType.fromDDL(ddl)
    assert isinstance(schema, StructType)

    with pytest.raises(LakeError, match=problem):
        arrow_schema(schema)


def test_the_log_tells_the_bounds_of_a_file(spark: SparkSession, tmp_path: Path) -> None:
    schema = "n bigint, t string, long string, moment timestamp"
    rows = [(5, "b", "x" * 100, None), (2, "c", "y", None), (None, "ä", "z", None)]
    write(spark.createDataFrame(rows, schema).coalesce(1), tmp_path / "t")

    [told] = pa.table(DeltaTable(str(tmp_path / "t")).get_add_actions(flatten=True)).to_pylist()
    assert (told["num_records"], told["null_count.n"], told["null_count.moment"]) == (3, 1, 3)
    assert (told["min.n"], told["max.n"], told["min.t"], told["max.t"]) == (2, 5, "b", "ä")
    assert told.get("max.long") is None
    assert DeltaTable(str(tmp_path / "t")).file_uris(file_pruning_predicate="n > 5") == []


@pytest.mark.parametrize("kind", [pa.date32(), pa.timestamp("us", "UTC")], ids=str)
def test_years_that_python_has_no_date_for_have_no_bounds(tmp_path: Path, kind: pa.DataType) -> None:
    days = pa.array([3_673_000], pa.int32())
    far = days.cast(kind) if kind == pa.date32() else days.cast(pa.date32()).cast(kind)
    rows = pa.record_batch({"far": far, "n": pa.array([1])})
    files = TaskFiles(filesystem(str(tmp_path), {}), rows.schema, (), "", "0")
    files.add(rows)
    [written] = files.close()

    assert json.loads(written.statistics)["maxValues"] == {"n": 1}


def test_an_empty_write_makes_the_table(spark: SparkSession, tmp_path: Path) -> None:
    write(spark.createDataFrame([], "n bigint"), tmp_path / "t")
    write(spark.createDataFrame([], "n bigint"), tmp_path / "t")

    assert numbers(spark, tmp_path / "t") == []
    assert DeltaTable(str(tmp_path / "t")).version() == 0
    assert lake.read(spark, str(tmp_path / "t")).columns == ["n"]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"partitionBy": "x"}, "there is no column 'x'"),
        ({"partitionBy": "n"}, "at least one column must not be a partition column"),
        ({"tableFormat": "orc"}, "not one of delta, parquet"),
        ({"txnAppId": "a"}, "txnAppId and txnVersion together"),
        ({"pth": "a"}, "option pth: unknown"),
        ({"path": "a/b"}, "path: must be absolute"),
    ],
    ids=["column", "all", "format", "transaction", "unknown", "relative"],
)
def test_an_option_that_cannot_be_used_is_named(
    spark: SparkSession, tmp_path: Path, options: dict[str, str], problem: str
) -> None:
    given = {"path": str(tmp_path / "t")} | options
    writer = spark.createDataFrame([(1,)], "n bigint").write.format("penstock_lake").options(**given).mode("append")

    with pytest.raises(PySparkException, match=problem):
        writer.save()


def test_tables_of_a_lake_are_in_the_catalog_and_stay_up_to_date(spark: SparkSession, tmp_path: Path) -> None:
    root = tmp_path / "it's a lake"
    orders = str(root / "shop" / "orders.eu")
    lake.append(spark.sql("select 1L as id, 'a' as `a kind`, struct(2 as `x y`) as s"), orders, partition_by=["a kind"])
    try:
        views = lake.register(spark, str(root), database="catalogued")
        before = spark.sql("select id, `a kind`, s.`x y` from catalogued.shop_orders_eu").collect()
        later = spark.sql("select 2L as id, 'b' as `a kind`, struct(3 as `x y`) as s, 'new' as more")
        lake.append(later, orders, merge_schema=True)
        after = spark.sql("select id from catalogued.shop_orders_eu order by id").collect()
        lake.register(spark, str(root), database="catalogued")
        more = spark.sql("select more from catalogued.shop_orders_eu where `a kind` = 'b'").collect()
        with pytest.raises(PySparkException, match="Spark does not pass that of a catalog table"):
            spark.sql("select * from catalogued.shop_orders_eu__table").collect()
    finally:
        spark.sql("drop database if exists catalogued cascade")

    assert views == ["catalogued.shop_orders_eu"]
    assert [tuple(row) for row in before] == [(1, "a", 2)]
    assert [row["id"] for row in after] == [1, 2]
    assert [row["more"] for row in more] == ["new"]
    assert lake.exists(orders)

"""Tables of a lake in Spark's catalog, by SQL that any Spark with this package can run.

Spark passes neither the location nor the options of a catalog table to a source in Python, but it does pass options
that stand in a query. So each table of the lake becomes a catalog table, which has the columns, and a view of it, whose
query has the location. The view reads the newest version of the table each time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from pyspark.sql import SparkSession
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from penstock.spark.lake.errors import LakeError
from penstock.spark.lake.schemas import spark_schema
from penstock.spark.lake.storage import Storage, folder
from penstock.spark.lake.table import open_table
from penstock.spark.lake.upkeep import tables

DATABASE = "lake"
SUFFIX = "__table"


def register(
    spark: SparkSession, root: str, *, database: str = DATABASE, storage: Storage | None = None
) -> list[str]:  # fmt: skip
    """Make the tables of a lake known to the catalog of a session; returns the names of their views."""
    found: dict[str, None] = {}
    for name, text in statements(root, database=database, storage=storage):
        spark.sql(text)
        found[name] = None
    return [f"{database}.{name}" for name in found if name]


def statements(
    root: str, *, database: str = DATABASE, storage: Storage | None = None
) -> Iterator[tuple[str, str]]:  # fmt: skip
    """SQL to run one after the other, each with the name of the table it is for. Running it again adds new columns."""
    yield "", f"create database if not exists {_quoted(database)}"
    names: dict[str, str] = {}
    for table in tables(root, storage):
        name = re.sub(r"\W+", "_", table.name or table.path.rstrip("/").rpartition("/")[2])
        if name.lower() in names:
            raise LakeError(f"{table.path} and {names[name.lower()]} would both be {name}: register them one by one")
        names[name.lower()] = table.path
        columns = spark_schema(open_table(table.path, storage))
        for text in _statements(f"{_quoted(database)}.", name, folder(table.path), columns, storage or {}):
            yield name, text


def _statements(prefix: str, name: str, path: str, columns: StructType, storage: Storage) -> Iterator[str]:
    table = f"{prefix}{_quoted(name + SUFFIX)}"
    options = {"path": path, **{f"storage.{key}": value for key, value in storage.items()}}
    given = ", ".join(f"{_literal(key)} = {_literal(value)}" for key, value in options.items())
    # External: dropping it leaves the files alone.
    yield f"drop table if exists {table}"
    yield f"create table {table} ({_fields(columns, ' ')}) using penstock_lake location {_literal(path)}"
    yield f"create or replace view {prefix}{_quoted(name)} as select * from {table} with ({given})"  # noqa: S608


def _fields(columns: StructType, between: str) -> str:
    return ", ".join(f"{_quoted(each.name)}{between}{_type(each.dataType)}" for each in columns.fields)


def _type(kind: DataType) -> str:
    match kind:
        case StructType():
            return f"struct<{_fields(kind, ': ')}>"
        case ArrayType():
            return f"array<{_type(kind.elementType)}>"
        case MapType():
            return f"map<{_type(kind.keyType)}, {_type(kind.valueType)}>"
    return kind.simpleString()


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _literal(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"

"""Tracked tables as PostgreSQL knows them: who is tracked, by which key, with which columns."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql.types import DataType

from penstock.queries import parse
from penstock.spark.database import Database
from penstock.spark.pipelines.change_data.columns import ChangeDataError, Column, lake_type

SQL = parse((Path(__file__).parent / "change_data.sql").read_text("utf-8"))


def identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@dataclass(frozen=True, slots=True)
class TableName:
    schema: str
    table: str

    def __str__(self) -> str:
        return f"{self.schema}.{self.table}"

    @property
    def folder(self) -> str:
        """Its name in the lake, whatever an event calls its table: no two share it, and none leads elsewhere."""
        parts = (re.sub("[^A-Za-z0-9_-]", lambda odd: f"~{ord(odd[0]):x}~", part) for part in (self.schema, self.table))
        return ".".join(parts)

    @property
    def quoted(self) -> str:
        return f"{identifier(self.schema)}.{identifier(self.table)}"


@dataclass(frozen=True, slots=True)
class Tracked:
    """A table whose row trigger feeds a stream, and what the trigger was told."""

    name: TableName
    arguments: tuple[str, ...]
    plain: bool
    """Not a partition's parent, whose rows are those of its partitions."""

    def option(self, name: str) -> tuple[str, ...] | None:
        for argument in self.arguments:
            if argument.startswith(f"{name}="):
                return tuple(argument.removeprefix(f"{name}=").split(","))
        return None


def tracked(database: Database, stream: str, tables: Sequence[str] = ()) -> Iterator[Tracked]:
    """Those of a stream, or of these those that are named."""
    for schema, table, arguments, kind in database.rows(SQL["tracked"]):
        queue, *rest = bytes(arguments).decode().split("\0")[:-1]
        name = TableName(schema, table)
        if queue == stream and (not tables or str(name) in tables):
            yield Tracked(name, tuple(rest), kind == "r")


def catalog_types(database: Database, name: TableName) -> dict[str, DataType]:
    """Columns that the table has now, in their order; nothing when it is gone."""
    return {row[0]: lake_type(row[1], row[2]) for row in database.rows(SQL["columns"], name.schema, name.table)}


def copied_columns(database: Database, table: Tracked) -> tuple[tuple[str, ...], list[Column]]:
    """The key and the columns of a first copy: those that the trigger tells of."""
    for told in ("when", "ev_type", "ev_data"):
        if table.option(told) is not None:
            raise ChangeDataError(
                f"table {table.name}: its trigger has {told}=, so its events are not its rows and no copy can be made"
                " of it. Track it without, or run without a snapshot."
            )
    key = table.option("pkey") or tuple(
        row[0] for row in database.rows(SQL["key"], table.name.schema, table.name.table)
    )
    ignored = table.option("ignore") or ()
    columns = [
        Column(name, kind)
        for name, kind in catalog_types(database, table.name).items()
        if name not in ignored and not name.startswith("_pgq_ev_")
    ]
    check_key(table.name, key, [column.name for column in columns])
    return key, columns


def check_key(name: TableName, key: Sequence[str], columns: Sequence[str]) -> None:
    if not key:
        raise ChangeDataError(f"table {name} has no key: give it a primary key, or track it with pkey=")
    if missing := [column for column in key if column not in columns]:
        raise ChangeDataError(f"table {name}: its changes do not tell the key column {', '.join(missing)}")


def check_values(name: TableName, key: Sequence[str], nulls: Callable[[str], int]) -> None:
    """A row whose key is null in the lake could not be found there again."""
    if lost := [column for column in key if nulls(column)]:
        raise ChangeDataError(
            f"table {name}: a value of the key column {lost[0]} cannot be in the lake, such as infinity or null. Track"
            " the table with pkey= and a key whose values can."
        )

"""Tracked tables in PostgreSQL: their keys, columns and defaults."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql.types import DataType

from penstock.queries import parse
from penstock.spark.database import Database
from penstock.spark.pipelines.change_data.columns import ChangeDataError, Column, lake_type
from penstock.spark.pipelines.change_data.pieces import TextDatabase

SQL = parse((Path(__file__).parent / "change_data.sql").read_text("utf-8"))


NOT_ROWS = ("when", "ev_type", "ev_data")
"""Options of the trigger that make its events something else than the rows of the table."""


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
        """Name of its folder in the lake: unique, and without characters that lead to another folder."""
        parts = (re.sub("[^A-Za-z0-9_-]", lambda odd: f"~{ord(odd[0]):x}~", part) for part in (self.schema, self.table))
        return ".".join(parts)

    @property
    def quoted(self) -> str:
        return f"{identifier(self.schema)}.{identifier(self.table)}"


@dataclass(frozen=True, slots=True)
class Tracked:
    """A table whose row trigger feeds a stream, and the arguments of the trigger."""

    name: TableName
    arguments: tuple[str, ...]
    plain: bool
    """Whether it is an ordinary table. The rows of a partitioned table are those of its partitions."""

    def option(self, name: str) -> tuple[str, ...] | None:
        for argument in self.arguments:
            if argument.startswith(f"{name}="):
                return tuple(argument.removeprefix(f"{name}=").split(","))
        return None


def tracked(database: Database, stream: str, tables: Sequence[str] = ()) -> Iterator[Tracked]:
    """The tracked tables of a stream; with `tables`, only those that are named."""
    for schema, table, arguments, kind in database.rows(SQL["tracked"]):
        queue, *rest = bytes(arguments).decode().split("\0")[:-1]
        name = TableName(schema, table)
        if queue == stream and (not tables or str(name) in tables):
            yield Tracked(name, tuple(rest), kind == "r")


def catalog_types(database: Database, name: TableName) -> dict[str, DataType]:
    """The columns that the table has now, in order; empty when the table was dropped."""
    return {row[0]: lake_type(row[1], row[2]) for row in database.rows(SQL["columns"], name.schema, name.table)}


def catalog_defaults(database: TextDatabase, name: TableName) -> dict[str, str | None]:
    """Columns with a default, and the text that rows have which are older than the column; None when it is unknown."""
    return dict(database.rows(SQL["defaults"], name.schema, name.table))


def mirrored_columns(database: Database, table: Tracked) -> list[Column]:
    """The columns that changes of the table report, as the catalog has them now."""
    if any(table.option(name) is not None for name in NOT_ROWS):
        return []
    ignored = table.option("ignore") or ()
    return [
        Column(name, kind)
        for name, kind in catalog_types(database, table.name).items()
        if name not in ignored and not name.startswith("_pgq_ev_")
    ]


def copied_columns(database: Database, table: Tracked) -> tuple[tuple[str, ...], list[Column]]:
    """The key and the columns of a first copy: those that changes report."""
    for name in NOT_ROWS:
        if table.option(name) is not None:
            raise ChangeDataError(
                f"table {table.name}: its trigger has {name}=, so its events are not its rows and it cannot be copied."
                f" Track it without {name}=, or run with --no-snapshot."
            )
    key = table.option("pkey") or tuple(
        row[0] for row in database.rows(SQL["key"], table.name.schema, table.name.table)
    )
    columns = mirrored_columns(database, table)
    check_key(table.name, key, [column.name for column in columns])
    return key, columns


def check_key(name: TableName, key: Sequence[str], columns: Sequence[str]) -> None:
    if not key:
        raise ChangeDataError(f"table {name} has no key: give it a primary key, or track it with pkey=")
    if missing := [column for column in key if column not in columns]:
        raise ChangeDataError(f"table {name}: its changes lack the key column {', '.join(missing)}")


def check_values(name: TableName, key: Sequence[str], nulls: Callable[[str], int]) -> None:
    """Raises for key values that the lake cannot hold: their rows could not be found there again."""
    if lost := [column for column in key if nulls(column)]:
        raise ChangeDataError(
            f"table {name}: a value of the key column {lost[0]} cannot be stored in the lake, such as infinity or null."
            " Track the table with pkey= and another key."
        )

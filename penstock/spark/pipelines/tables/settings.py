"""The file that declares tables: TOML, with a section for each event type."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from pyspark.sql.types import StructType

from penstock.spark.pipelines.pipeline import PipelineError
from penstock.spark.pipelines.tables.ddl import parse_columns

OTHERS = ("tables", "skip", "quarantine")
_TYPE_KEYS = ("table", "schema", "key", "partition_by", "evolve")
LONGEST = 255
"""Maximum length of a table name: file systems accept no longer name of a folder."""
_TABLE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeSettings:
    """What one event type becomes."""

    table: str
    schema: StructType | None = None
    """None means that samples decide."""
    key: tuple[str, ...] = ()
    """Columns that identify a row: the newest event of a key replaces the others. Empty means that rows are added."""
    partition_by: tuple[str, ...] = ()
    evolve: bool = True
    """Whether new fields become columns, and whole numbers become doubles when fractions come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TablesSettings:
    types: Mapping[str, TypeSettings]
    others: str = "tables"
    """What becomes of other types: tables of their own, nothing, or rows of the quarantine."""

    def of(self, event_type: str) -> TypeSettings | None:
        """None for a type that gets no table."""
        if event_type in self.types:
            return self.types[event_type]
        return TypeSettings(table=table_name(event_type)) if self.others == "tables" else None


def read_settings(path: str | None) -> TablesSettings:
    """The settings in a file; without one, every type becomes a table."""
    if path is None:
        return TablesSettings(types={})
    try:
        given = tomllib.loads(Path(path).read_text("utf-8"))
    except OSError as error:
        raise PipelineError(f"{path} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise PipelineError(f"{path} is not TOML: {error}") from None
    try:
        return _settings(given)
    except ValueError as error:
        raise PipelineError(f"{path}: {error}") from None


def table_name(event_type: str) -> str:
    """A folder name for any type: unique, and without characters that lead to another folder."""
    found = re.sub("[^A-Za-z0-9_.-]", lambda odd: f"~{ord(odd[0]):x}~", event_type)
    if not found or found.startswith((".", "_")):
        found = f"~{found}"
    if len(found) <= LONGEST:
        return found
    return f"{found[: LONGEST - 17]}~{sha256(event_type.encode()).hexdigest()[:16]}"


def _settings(given: dict[str, Any]) -> TablesSettings:
    _refuse_unknown(given, ("types", "others"), "setting")
    sections = given.get("types", {})
    if not isinstance(sections, dict):
        raise ValueError("types must be sections, such as [types.made]")
    types = {name: _type(name, section) for name, section in sections.items()}
    tables = [each.table for each in types.values()]
    if twice := sorted({table for table in tables if tables.count(table) > 1}):
        raise ValueError(f"table {twice[0]!r} is named by two types")
    others = given.get("others", "skip" if types else "tables")
    if others not in OTHERS:
        raise ValueError(f"others is {others!r}; it must be one of {', '.join(OTHERS)}")
    return TablesSettings(types=types, others=others)


def _type(name: str, section: Any) -> TypeSettings:
    if not isinstance(section, dict):
        raise ValueError(f"type {name!r} must be a section, such as [types.{name}]")
    _refuse_unknown(section, _TYPE_KEYS, f"setting of type {name!r}")
    table = section.get("table", table_name(name))
    if not isinstance(table, str) or (table != table_name(name) and not _TABLE.fullmatch(table)):
        raise ValueError(f"type {name!r}: {table!r} cannot be the name of a table")
    schema = _schema(name, section["schema"]) if "schema" in section else None
    evolve = section.get("evolve", schema is None)
    if not isinstance(evolve, bool):
        raise ValueError(f"type {name!r}: evolve must be true or false")
    if not evolve and schema is None:
        raise ValueError(f"type {name!r}: evolve = false needs a schema")
    return TypeSettings(
        table=table,
        schema=schema,
        key=_names(name, section, "key"),
        partition_by=_names(name, section, "partition_by"),
        evolve=evolve,
    )


def _schema(name: str, text: Any) -> StructType:
    if not isinstance(text, str):
        raise ValueError(f"type {name!r}: schema must be a text such as 'id bigint not null, total double'")
    try:
        return parse_columns(text)
    except ValueError as error:
        raise ValueError(f"type {name!r}: the schema {text!r} is not valid: {error}") from None


def _names(name: str, section: dict[str, Any], setting: str) -> tuple[str, ...]:
    found = section.get(setting, [])
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise ValueError(f"type {name!r}: {setting} must be a list of columns")
    return tuple(found)


def _refuse_unknown(given: Mapping[str, Any], known: tuple[str, ...], what: str) -> None:
    if unknown := [name for name in given if name not in known]:
        raise ValueError(f"unknown {what}: {unknown[0]}; known are {', '.join(known)}")

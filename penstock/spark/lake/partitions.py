"""Partitions: rows split by the values of columns, and the folder names for these values.

A Delta reader takes the values from the log, a Hive reader such as Spark's own from the folder name. Names are escaped
as Spark does it, so that both agree. An object store has no folders, only keys with common prefixes, and readers differ
in how they encode keys in URLs: there all special characters are percent-encoded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from urllib.parse import quote

import pyarrow as pa

from penstock.spark.lake.errors import LakeError
from penstock.spark.options import OptionError

Values = tuple[str | None, ...]

NULL = "__HIVE_DEFAULT_PARTITION__"
LONGEST = 200
"""Maximum length of a folder name in bytes: file systems accept 255."""

_ESCAPED = frozenset("\"#%'*/:=?\\{}[]^\x7f") | {chr(number) for number in range(32)}
ESCAPED = "[" + "".join(f"\\x{ord(letter):02x}" for letter in sorted(_ESCAPED)) + "]"
"""The same characters as a regular expression."""
_TYPES = (pa.types.is_string, pa.types.is_integer, pa.types.is_date, pa.types.is_boolean)


def check(schema: pa.Schema, names: Sequence[str]) -> None:
    """Raises `OptionError` for columns that do not exist, or whose values have no unique text."""
    for name in names:
        if name not in schema.names:
            raise OptionError("partitionBy", f"there is no column {name!r}")
        if not any(fits(schema.field(name).type) for fits in _TYPES):
            kind = schema.field(name).type
            raise OptionError(
                "partitionBy", f"{name!r} is {kind}; it must be a string, an integer, a date or a boolean"
            )
    if names and len(set(names)) >= len(schema.names):
        raise OptionError("partitionBy", "at least one column must not be a partition column")


def split(batch: pa.RecordBatch, names: Sequence[str]) -> Iterator[tuple[Values, pa.RecordBatch]]:
    """The rows of each combination of partition values, without the partition columns."""
    rest = batch.drop_columns(list(names)) if names else batch
    if not names:
        yield (), rest
        return
    keys = {name: batch.column(name) for name in names}
    rows = pa.array(range(batch.num_rows), pa.int64())
    groups = pa.table({**keys, "": rows}).group_by(list(names), use_threads=False).aggregate([("", "list")])
    columns = [groups.column(name).to_pylist() for name in names]
    for number, values in enumerate(zip(*columns, strict=True)):
        chosen = rest if groups.num_rows == 1 else rest.take(groups.column("_list")[number].values)
        yield tuple(map(text, values)), chosen


def text(value: object) -> str | None:
    """The value as text in the log of a Delta table. By Delta's protocol an empty string is null."""
    if value is None or value == "":
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.isoformat() if isinstance(value, date) else str(value)


def folder_name(names: Sequence[str], values: Values) -> str:
    return "".join(f"{_escaped(name)}={_escaped(value)}/" for name, value in zip(names, values, strict=True))


def key_name(names: Sequence[str], values: Values) -> str:
    """Key prefix in an object store."""
    folder_name(names, values)  # Refuse what no folder can be named: a lake may be moved to a file system.
    pairs = zip(names, values, strict=True)
    return "".join(
        f"{quote(name, safe='')}={NULL if value is None else quote(value, safe='')}/" for name, value in pairs
    )


def path_matches(path: str, values: Mapping[str, str | None]) -> bool:
    """Whether Spark reads the same values from a path as the log has. After deltalake's compaction it may not."""
    found = [part.partition("=") for part in path.split("/")[:-1]]
    parts = {_unescaped(name): None if value == NULL else _unescaped(value) for name, sign, value in found if sign}
    return len(found) == len(values) and parts == values


def _escaped(value: str | None) -> str:
    if value is None:
        return NULL
    escaped = "".join(f"%{ord(letter):02X}" if letter in _ESCAPED else letter for letter in value)
    if len(escaped.encode()) > LONGEST or value == NULL:
        # Some Delta readers take the value from the folder name.
        raise LakeError(
            f"{value[:40]!r}… cannot be a partition value: it is too long or reserved for the name of a folder"
        )
    return escaped


def _unescaped(text: str) -> str:
    """The reverse of Spark's escaping."""
    return re.sub("%([0-9A-Fa-f]{2})", lambda found: chr(int(found[1], 16)), text)

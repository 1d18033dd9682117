"""Partitions: rows apart by the values of some columns, and the folders these values give.

A Delta reader takes the values from the log, a Hive reader such as Spark's own from the folder's name. The names are
escaped as Spark does it, so that both say the same. An object store has no folders, only names that begin alike, and
readers differ in how they write those as addresses: there names are escaped until there is nothing to differ in.
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
"""In bytes: file systems take names of 255."""

_ESCAPED = frozenset("\"#%'*/:=?\\{}[]^\x7f") | {chr(number) for number in range(32)}
ESCAPED = "[" + "".join(f"\\x{ord(letter):02x}" for letter in sorted(_ESCAPED)) + "]"
"""The same letters as a regular expression."""
_TYPES = (pa.types.is_string, pa.types.is_integer, pa.types.is_date, pa.types.is_boolean)


def check(schema: pa.Schema, names: Sequence[str]) -> None:
    """Raises `OptionError` for columns that are not there, or whose values have more than one text."""
    for name in names:
        if name not in schema.names:
            raise OptionError("partitionBy", f"there is no column {name!r}")
        if not any(fits(schema.field(name).type) for fits in _TYPES):
            kind = schema.field(name).type
            raise OptionError(
                "partitionBy", f"{name!r} is {kind}; a partition is a text, a whole number, a date or a flag"
            )
    if names and len(set(names)) >= len(schema.names):
        raise OptionError("partitionBy", "at least one column must be left for the files")


def split(batch: pa.RecordBatch, names: Sequence[str]) -> Iterator[tuple[Values, pa.RecordBatch]]:
    """The rows of each combination of values, without the columns that hold them."""
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
    """As the log of a Delta table has it. There an empty text is no value: so says its protocol."""
    if value is None or value == "":
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.isoformat() if isinstance(value, date) else str(value)


def folder_name(names: Sequence[str], values: Values) -> str:
    return "".join(f"{_escaped(name)}={_escaped(value)}/" for name, value in zip(names, values, strict=True))


def key_name(names: Sequence[str], values: Values) -> str:
    """The same for an object store."""
    folder_name(names, values)  # What no folder can be named by is refused here too: a lake may be moved.
    pairs = zip(names, values, strict=True)
    return "".join(
        f"{quote(name, safe='')}={NULL if value is None else quote(value, safe='')}/" for name, value in pairs
    )


def tells(path: str, values: Mapping[str, str | None]) -> bool:
    """Whether Spark would find the same values in a path as the log gives. After deltalake's compaction it may not."""
    found = [part.partition("=") for part in path.split("/")[:-1]]
    parts = {_unescaped(name): None if value == NULL else _unescaped(value) for name, sign, value in found if sign}
    return len(found) == len(values) and parts == values


def _escaped(value: str | None) -> str:
    if value is None:
        return NULL
    escaped = "".join(f"%{ord(letter):02X}" if letter in _ESCAPED else letter for letter in value)
    if len(escaped.encode()) > LONGEST or value == NULL:
        # Some readers of Delta take the value from the folder after all, so it must be there.
        raise LakeError(f"{value[:40]!r}… cannot be a partition: no folder can be named so")
    return escaped


def _unescaped(text: str) -> str:
    """As Spark does it: a letter for each pair of digits."""
    return re.sub("%([0-9A-Fa-f]{2})", lambda found: chr(int(found[1], 16)), text)

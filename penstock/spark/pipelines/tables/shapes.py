"""Payloads of one type: how they are decoded, the columns they need, and how columns grow.

Decoding is strict: a string is no number, and text after the object is an error. A row that does not fit names the
field and the reason.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from operator import attrgetter
from typing import Annotated, Any

import msgspec
import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

OWN = ("_stream", "_offset", "_timestamp", "_key", "_date")
"""Columns that every table has besides the fields of the payload."""
MOST_COLUMNS = 1000
"""Columns that payloads may add to a table: fields named by ids would make columns without end."""
EXACT = 2**53
"""Larger whole numbers lose digits as doubles."""
JSON = "json"
"""Kind of a field that holds objects, or lists of them: their JSON is kept as text."""

_NO_COLUMN = re.compile(r'[`"\\\x00-\x1f]')
"""Characters that the name of a column cannot have: msgspec refuses them, or SQL cannot quote them."""
_NULL = msgspec.Raw(b"null")
_RAW = msgspec.json.Decoder(dict[str, msgspec.Raw])
_BITS: dict[type[DataType], int] = {ByteType: 8, ShortType: 16, IntegerType: 32, LongType: 64}
_KINDS: dict[str, DataType] = {
    "long": LongType(), "large": LongType(), "double": DoubleType(), "string": StringType(), "boolean": BooleanType(),
    JSON: StringType(),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Shape:
    """The columns of the payload, and which of them hold JSON."""

    schema: StructType
    json: frozenset[str] = frozenset()
    open: bool = True
    """Whether a field without a column does not fit; otherwise it is ignored."""
    exact: frozenset[str] = frozenset()
    """Whole numbers that stay so when fractions come: as doubles they would lose digits."""

    def encode(self) -> dict[str, Any]:
        return {
            "schema": self.schema.jsonValue(), "json": sorted(self.json), "open": self.open,
            "exact": sorted(self.exact),
        }  # fmt: skip

    @classmethod
    def decode(cls, found: Mapping[str, Any]) -> Shape:
        schema = StructType.fromJson(found["schema"])
        return cls(schema, frozenset(found["json"]), found["open"], frozenset(found["exact"]))

    def keyed(self, key: Sequence[str]) -> Shape:
        """A row without its key does not fit."""
        fields = [StructField(each.name, each.dataType, each.nullable and each.name not in key) for each in self.schema]
        return replace(self, schema=StructType(fields))

    def holds(self, other: Shape) -> bool:
        """Whether rows that were written with the other shape can be read with this one."""
        return all(self.kind(each.name) == other.kind(each.name) for each in other.schema.fields)

    def kind(self, name: str) -> tuple[DataType, bool] | None:
        """The type of a column, and whether it holds JSON; None when there is no such column."""
        found = [each.dataType for each in self.schema.fields if each.name == name]
        return (found[0], name in self.json) if found else None


class Misfit(ValueError):
    """A payload that does not fit; the text is the reason."""


class Decoder:
    """Decodes payloads into the columns of a shape."""

    def __init__(self, shape: Shape) -> None:
        self._schema = shape.schema
        self._known = set(shape.schema.names)
        self._names = [f"f{number}" for number in range(len(shape.schema.fields))]
        struct = _struct(shape.schema, shape.json, forbid=shape.open)
        self._decode: Callable[[Any], Any] = msgspec.json.Decoder(struct).decode
        self._builders = [_builder(each.dataType, each.name in shape.json) for each in shape.schema.fields]

    def decode(self, text: str | None) -> Any:
        try:
            return self._decode(text)
        except (msgspec.DecodeError, RecursionError, ValueError) as error:
            raise Misfit(str(error)) from None
        except TypeError:
            raise Misfit("the payload is null") from None

    def decode_known(self, text: str | None) -> Any | None:
        """A payload without its fields that have no column and say nothing, null or an empty list; else None."""
        try:
            found = _RAW.decode(text or "")
            known = {name: raw for name, raw in found.items() if name in self._known or not _says_nothing(raw)}
            return self._decode(msgspec.json.encode(known)) if len(known) < len(found) else None
        except (msgspec.DecodeError, RecursionError, ValueError):
            return None

    def columns(self, rows: Sequence[Any], schema: pa.Schema) -> list[pa.Array]:
        """The decoded rows as columns; raises for a value that its type cannot hold, such as too many digits."""
        if len(self._names) == 1:
            values: Iterable[Sequence[Any]] = [[getattr(row, self._names[0]) for row in rows]]
        elif self._names:
            values = zip(*map(attrgetter(*self._names), rows), strict=True) if rows else [()] * len(self._names)
        else:
            values = []
        return [
            pa.array(map(build, column) if build else column, schema.field(each.name).type)
            for build, column, each in zip(self._builders, values, self._schema.fields, strict=True)
        ]


def _says_nothing(raw: msgspec.Raw) -> bool:
    return len(raw) < 5 and msgspec.json.decode(raw) in (None, [])


def _struct(schema: StructType, json: frozenset[str] = frozenset(), *, forbid: bool = False) -> type[Any]:
    fields: list[Any] = []
    renamed: dict[str, str] = {}
    for number, each in enumerate(schema.fields):
        renamed[f"f{number}"] = each.name
        if each.name in json:
            fields.append((f"f{number}", msgspec.Raw, _NULL))
            continue
        kind: Any = _decoded(each.dataType)
        fields.append((f"f{number}", kind) if not each.nullable else (f"f{number}", kind | None, None))
    return msgspec.defstruct(
        "Payload", fields, kw_only=True, rename=renamed, forbid_unknown_fields=forbid, gc=False
    )  # fmt: skip


def _decoded(kind: DataType) -> Any:
    if type(kind) in _BITS:
        most = 2 ** (_BITS[type(kind)] - 1)
        return Annotated[int, msgspec.Meta(ge=-most, le=most - 1)]
    match kind:
        case DoubleType() | FloatType():
            return float
        case StringType():
            return str
        case BooleanType():
            return bool
        case DecimalType():
            return Decimal
        case TimestampType():
            return datetime
        case DateType():
            return date
        case BinaryType():
            return bytes
        case ArrayType():
            inner = _decoded(kind.elementType)
            return list[inner | None] if kind.containsNull else list[inner]  # type: ignore[valid-type]
        case MapType() if isinstance(kind.keyType, StringType):
            inner = _decoded(kind.valueType)
            return dict[str, inner | None] if kind.valueContainsNull else dict[str, inner]  # type: ignore[valid-type]
        case StructType():
            return _struct(kind)
    raise ValueError(f"a payload cannot have a column of type {kind.simpleString()}")


def _builder(kind: DataType, json: bool) -> Callable[[Any], Any] | None:
    """Turns a decoded value into what Arrow takes; None when it is that already."""
    if json:
        return lambda value: None if bytes(value) == b"null" else bytes(value).decode()
    if isinstance(kind, TimestampType):
        return lambda value: value if value is None or value.tzinfo is not None else value.replace(tzinfo=UTC)
    if isinstance(kind, StructType):
        inner = [(f"f{number}", each.name, _builder(each.dataType, False)) for number, each in enumerate(kind.fields)]
        return lambda value: (
            None
            if value is None
            else {name: build(got) if build else got for at, name, build in inner for got in [getattr(value, at)]}
        )
    if isinstance(kind, ArrayType) and (element := _builder(kind.elementType, False)) is not None:
        return lambda value: None if value is None else [element(each) for each in value]
    if isinstance(kind, MapType):
        item = _builder(kind.valueType, False)
        return lambda value: (
            None if value is None else [(name, item(each) if item else each) for name, each in value.items()]
        )
    return None


@dataclass(slots=True)
class Samples:
    """What fields payloads have, counted by kind."""

    kinds: dict[str, dict[str, int]] = field(default_factory=dict)

    def look(self, text: str | None) -> bool:
        """Count the fields of one payload; whether it is an object."""
        try:
            found = msgspec.json.decode(text or "")
        except (msgspec.DecodeError, RecursionError, ValueError):
            return False
        if not isinstance(found, dict):
            return False
        for name, value in found.items():
            if (kind := _kind(value)) is not None:
                counts = self.kinds.setdefault(name, {})
                counts[kind] = counts.get(kind, 0) + 1
        return True

    def count(self, name: str) -> int:
        return sum(self.kinds[name].values())


def _kind(value: Any) -> str | None:
    """None when the value does not say what it is."""
    match value:
        case None:
            return None
        case bool():
            return "boolean"
        case int():
            if not -(2**63) <= value < 2**63:
                return "double"
            return "long" if abs(value) <= EXACT else "large"
        case float():
            return "double"
        case str():
            return "string"
        case list():
            kinds = {"long" if (kind := _kind(each)) == "large" else kind for each in value} - {None}
            if kinds == {"long", "double"}:
                kinds = {"double"}
            if not kinds:
                return None if not value else JSON
            [kind] = kinds if len(kinds) == 1 else [JSON]
            return f"array<{kind}>" if kind in ("long", "double", "string", "boolean") else JSON
    return JSON


def evolved(shape: Shape, samples: Samples) -> Shape:
    """The shape with columns for new fields, and with doubles where fractions came. Never removes anything.

    Of a new field with several kinds, the most frequent one decides, so that a few bad rows do not. A repeated batch
    finds the column there and decides the same.
    """
    fields = {each.name: each for each in shape.schema.fields}
    lower = {name.lower() for name in [*fields, *OWN]}
    json = set(shape.json)
    # Of names that differ only in case, the most frequent one becomes the column.
    frequent = {name.lower(): name for name in sorted(samples.kinds, key=samples.count)}
    for name in sorted(samples.kinds):
        counts = _numbers_together(samples.kinds[name])
        if name in fields:
            whole = isinstance(fields[name].dataType, LongType | IntegerType)
            if whole and "double" in counts and "large" not in samples.kinds[name] and name not in shape.exact:
                fields[name] = StructField(name, DoubleType(), fields[name].nullable)
            continue
        if frequent[name.lower()] != name or name.lower() in lower or not is_column_name(name):
            continue
        if len(fields) >= MOST_COLUMNS:
            continue
        kind = max(sorted(counts), key=lambda each: counts[each])
        fields[name] = StructField(name, _type_of(kind))
        lower.add(name.lower())
        if kind == JSON:
            json.add(name)
    return replace(shape, schema=StructType(list(fields.values())), json=frozenset(json))


def joined(shape: Shape, others: Sequence[Shape]) -> Shape:
    """The shape with the columns that others have added to it. Where these differ, the first of them decides."""
    fields = {each.name: each for each in shape.schema.fields}
    given = set(fields)
    lower = {name.lower() for name in fields}
    json = set(shape.json)
    for other in others:
        for each in other.schema.fields:
            there = fields.get(each.name)
            if each.name in shape.exact and isinstance(each.dataType, DoubleType):
                each = StructField(each.name, LongType(), each.nullable)
            if there is None and each.name.lower() not in lower and len(fields) < MOST_COLUMNS:
                fields[each.name] = each
                lower.add(each.name.lower())
                json |= {each.name} & other.json
            elif there is not None and _is_wider(each.dataType, there.dataType, new=each.name not in given):
                fields[each.name] = StructField(each.name, each.dataType, there.nullable)
    return replace(shape, schema=StructType(list(fields.values())), json=frozenset(json))


def _is_wider(kind: DataType, than: DataType, *, new: bool) -> bool:
    if isinstance(kind, ArrayType) and isinstance(than, ArrayType):
        # An array of a table does not grow.
        return new and _is_wider(kind.elementType, than.elementType, new=new)
    return isinstance(kind, DoubleType) and isinstance(than, LongType | IntegerType)


def _numbers_together(counts: Mapping[str, int]) -> dict[str, int]:
    """Whole numbers count as fractions where there are any, unless a double could not hold them."""
    found = dict(counts)
    if "large" in found:
        found["long"] = found.get("long", 0) + found.pop("large")
        return found
    for whole, fraction in (("long", "double"), ("array<long>", "array<double>")):
        if fraction in found:
            found[fraction] += found.pop(whole, 0)
    return found


def _type_of(kind: str) -> DataType:
    if kind.startswith("array<"):
        return ArrayType(_KINDS[kind[6:-1]])
    return _KINDS[kind]


def is_column_name(name: str) -> bool:
    return bool(name.strip()) and _NO_COLUMN.search(name) is None


def unknown_reason(text: str, shape: Shape) -> str | None:
    """Why a field of the payload can never be a column; None when that is not the problem."""
    names = {each.name.lower(): each.name for each in shape.schema.fields}
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return None
    for name in found if isinstance(found, dict) else ():
        if not is_column_name(name):
            return f"field {name!r} cannot be the name of a column"
        if name.lower() in OWN:
            return f"field {name!r} has the name of a column that every table has"
        if name.lower() in names and name != names[name.lower()]:
            return f"field {name!r} differs from column {names[name.lower()]!r} only in case"
        if name not in shape.schema.names and len(shape.schema) >= MOST_COLUMNS:
            return f"field {name!r} has no column: the table has {MOST_COLUMNS}, the maximum"
    return None

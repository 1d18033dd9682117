"""Reads column lists such as `id bigint not null, tags array<string>`. Spark's own parser needs a running session."""

from __future__ import annotations

import re

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

from penstock.spark.pipelines.tables.shapes import is_column_name

_SIMPLE: dict[str, DataType] = {
    "tinyint": ByteType(), "smallint": ShortType(), "int": IntegerType(), "integer": IntegerType(),
    "bigint": LongType(), "long": LongType(), "float": FloatType(), "real": FloatType(), "double": DoubleType(),
    "string": StringType(), "boolean": BooleanType(), "date": DateType(), "timestamp": TimestampType(),
    "binary": BinaryType(),
}  # fmt: skip
_TOKEN = re.compile(r"\s*(?:(`[^`]+`)|([\w.-]+)|([<>(),:]))")


def parse_columns(text: str) -> StructType:
    """Raises `ValueError` for a text that is no list of columns."""
    parser = _Parser(text)
    fields = parser.fields(end="")
    if not fields:
        raise ValueError("it names no column")
    return StructType(fields)


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens: list[str] = []
        place, text = 0, text.rstrip()
        while place < len(text):
            if (found := _TOKEN.match(text, place)) is None:
                raise ValueError(f"{text[place:][:20].strip()!r} is unexpected")
            self._tokens.append(found[0].strip())
            place = found.end()

    def fields(self, end: str) -> list[StructField]:
        found: list[StructField] = []
        while self._peek() != end:
            if found:
                self._take(",")
            name = self._word().strip("`")
            if not is_column_name(name):
                raise ValueError(f"{name!r} cannot be the name of a column")
            if self._peek() == ":":
                self._take(":")
            kind, nullable = self._type(), True
            if self._peek().lower() == "not":
                self._word()
                if self._word().lower() != "null":
                    raise ValueError(f"column {name!r}: `not` must be followed by `null`")
                nullable = False
            if any(each.name.lower() == name.lower() for each in found):
                raise ValueError(f"column {name!r} is there twice")
            found.append(StructField(name, kind, nullable))
        return found

    def _type(self) -> DataType:
        name = self._word().lower()
        match name:
            case "decimal":
                return self._decimal()
            case "array":
                [element] = self._inner(1)
                return ArrayType(element)
            case "map":
                key, value = self._inner(2)
                if not isinstance(key, StringType):
                    raise ValueError("the keys of a map in JSON are strings")
                return MapType(key, value)
            case "struct":
                self._take("<")
                fields = self.fields(end=">")
                self._take(">")
                return StructType(fields)
        if name not in _SIMPLE:
            raise ValueError(f"there is no type {name!r}")
        return _SIMPLE[name]

    def _decimal(self) -> DataType:
        self._take("(")
        precision = int(self._word())
        scale = 0
        if self._peek() == ",":
            self._take(",")
            scale = int(self._word())
        self._take(")")
        if not 0 <= scale <= precision <= 38 or precision == 0:
            raise ValueError(f"decimal({precision}, {scale}) is not possible; there are at most 38 digits")
        return DecimalType(precision, scale)

    def _inner(self, count: int) -> list[DataType]:
        self._take("<")
        found = [self._type()]
        for _ in range(count - 1):
            self._take(",")
            found.append(self._type())
        self._take(">")
        return found

    def _peek(self) -> str:
        return self._tokens[0] if self._tokens else ""

    def _take(self, wanted: str) -> None:
        if self._peek() != wanted:
            raise ValueError(f"{wanted!r} is missing before {self._peek() or 'the end'!r}")
        self._tokens.pop(0)

    def _word(self) -> str:
        if not self._tokens or self._peek() in "<>(),:":
            raise ValueError(f"a name or type is missing before {self._peek() or 'the end'!r}")
        return self._tokens.pop(0)

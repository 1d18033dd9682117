"""What commands print: data to standard output, as a table or as JSON, and words to standard error."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from penstock.errors import Invalid

Row = Mapping[str, Any]


def say(text: str) -> None:
    """Words for the person at the terminal, never data."""
    print(text, file=sys.stderr, flush=True)


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


class Output:
    """The format that the options of a command ask for."""

    def __init__(self, as_json: bool = False, columns: str | None = None) -> None:
        self.as_json = as_json
        self.columns = [name.strip() for name in columns.split(",")] if columns else None

    def rows(self, rows: Sequence[Row], columns: Sequence[str], none: str) -> None:
        """A table of these columns, unless others are asked for; `none` is said when there is nothing to show."""
        if self.as_json:
            print(json.dumps([_picked(row, self.columns) for row in rows]))
        elif rows:
            names = self.columns or list(columns)
            print_table(names, [[_field(row, name) for name in names] for row in rows])
        else:
            say(none)

    def picked(self, row: Row) -> dict[str, Any]:
        """The fields that are asked for."""
        return _picked(row, self.columns)

    def done(self, text: str, **what: Any) -> None:
        """There is nothing to show: say what was done, or print it as JSON."""
        if self.as_json:
            print(json.dumps(what))
        else:
            say(text)

    def record(self, record: Row) -> None:
        """One thing: a line for each field."""
        if self.as_json:
            print(json.dumps(_picked(record, self.columns)))
            return
        shown = _picked(record, self.columns) if self.columns else dict(_flat(record))
        width = max(map(len, shown), default=0)
        for name, value in shown.items():
            print(f"{name.ljust(width)}  {text(value)}".rstrip())


def _picked(row: Row, columns: Sequence[str] | None) -> dict[str, Any]:
    return dict(row) if columns is None else {name: _field(row, name) for name in columns}


def _field(row: Row, name: str) -> Any:
    """`settings.delay` is the field `delay` of `settings`."""
    value: Any = row
    for part in name.split("."):
        if not isinstance(value, Mapping) or part not in value:
            raise Invalid(f"there is no column '{name}'; the columns are: {', '.join(dict(_flat(row)))}")
        value = value[part]
    return value


def _flat(row: Row, prefix: str = "") -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for name, value in row.items():
        found += _flat(value, f"{prefix}{name}.") if name == "settings" else [(prefix + name, value)]
    return found


def print_rows(rows: Sequence[Row], as_json: bool, none: str) -> None:
    Output(as_json).rows(rows, list(rows[0]) if rows else (), none)


def print_table(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    cells = [[text(value) for value in row] for row in rows]
    numeric = [all(isinstance(row[place], int | float | None) for row in rows) for place in range(len(names))]
    widths = [max(len(name), *(len(row[place]) for row in cells)) for place, name in enumerate(names)]
    for line in (names, *cells):
        parts = zip(line, widths, numeric, strict=True)
        print("  ".join(part.rjust(width) if right else part.ljust(width) for part, width, right in parts).rstrip())


def text(value: Any) -> str:
    """A value on one line, without characters that would act on the terminal."""
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:.1f}"
        case list() if all(isinstance(part, str | int) for part in value):
            return _safe(",".join(map(str, value)))
        case list() | dict():
            return _safe(json.dumps(value, ensure_ascii=False))
        case str() if "\nTraceback (most recent call last)" in value:
            # On one line it helps nobody; --json has all of it.
            return _safe(value.partition("\n")[0]) + " …"
        case _:
            return _safe(str(value))


def _safe(shown: str) -> str:
    if shown.isprintable():
        return shown
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in shown)

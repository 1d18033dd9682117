"""Rows, for people as a table and for programs as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from datetime import datetime
from typing import Any


def moment(moment: datetime | None) -> str | None:
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z") if moment is not None else None


def print_rows(rows: Sequence[dict[str, Any]], as_json: bool, none: str) -> None:
    if as_json:
        print(json.dumps(list(rows)))
        return
    if not rows:
        print(none)
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for name, value in rows[0].items():
        table.add_column(name, justify="right" if isinstance(value, int) else "left", overflow="fold")
    for row in rows:
        table.add_row(*("" if value is None else str(value) for value in row.values()))
    # A pipe has no width to fold to.
    Console(width=None if sys.stdout.isatty() else 240, markup=False, highlight=False, emoji=False).print(table)

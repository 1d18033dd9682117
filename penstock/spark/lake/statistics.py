"""Statistics of a file in the log, by which readers skip it: number of rows, nulls and bounds of columns."""

from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime
from typing import Any

import pyarrow.parquet as parquet

LONGEST = 64
"""Bounds of longer texts, such as payloads, would bloat the log."""


def statistics(metadata: parquet.FileMetaData) -> str:
    """The statistics of a Delta file from those of its Parquet row groups; nested columns have none."""
    nulls: dict[str, int] = {}
    bounds: dict[str, tuple[Any, Any] | None] = {}
    for group in range(metadata.num_row_groups):
        for number in range(metadata.num_columns):
            column = metadata.row_group(group).column(number)
            if "." not in column.path_in_schema and metadata.schema.column(number).max_repetition_level == 0:
                found = column.statistics if column.is_stats_set else None
                _count(nulls, column.path_in_schema, found)
                _widen(bounds, column.path_in_schema, found, column.num_values)
    known = {name: bound for name, bound in bounds.items() if bound is not None}
    found = {
        "numRecords": metadata.num_rows,
        "minValues": {name: low for name, (low, _) in known.items()},
        "maxValues": {name: high for name, (_, high) in known.items()},
        "nullCount": {name: count for name, count in nulls.items() if count >= 0},
    }
    return json.dumps(found, ensure_ascii=False)


def _count(nulls: dict[str, int], name: str, found: Any) -> None:
    unknown = found is None or not found.has_null_count or nulls.get(name, 0) < 0
    nulls[name] = -1 if unknown else nulls.get(name, 0) + found.null_count


def _widen(bounds: dict[str, tuple[Any, Any] | None], name: str, found: Any, values: int) -> None:
    if name in bounds and bounds[name] is None:
        return
    if found is not None and found.has_null_count and found.null_count == values:
        return  # only nulls: they have no bounds, and widen none
    low, high = _bounds(found)
    if low is None or high is None:
        bounds[name] = None
        return
    before = bounds.get(name)
    bounds[name] = (low, high) if before is None else (min(before[0], low), max(before[1], high))


def _bounds(found: Any) -> tuple[Any, Any]:
    if found is None or not found.has_min_max:
        return None, None
    try:
        return _json_value(found.min), _json_value(found.max)
    except OverflowError:  # a year that Python has no date for
        return None, None


def _json_value(value: Any) -> Any:
    """The value as JSON that sorts like the value; None when there is no such form."""
    match value:
        case bool():
            return None
        case int():
            return value
        case float():
            return value if math.isfinite(value) else None
        case str():
            return value if len(value) <= LONGEST else None
        case datetime():
            if value.tzinfo is None:
                return value.isoformat(timespec="microseconds")
            return value.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        case date():
            return value.isoformat()
    return None

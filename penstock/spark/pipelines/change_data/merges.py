"""The two merges of a batch: rows of `versions` into `current` and into `history`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as compute
from deltalake.table import TableMerger

from penstock.spark import lake
from penstock.spark.pipelines.change_data.columns import UNFIT, quoted
from penstock.spark.pipelines.change_data.events import TruncateRange
from penstock.spark.pipelines.change_data.tables import MARK, LakeTable, moment_literal, same_key

_ENDED = {"INSERT": "update", "UPDATE": "update", "DELETE": "delete", "TRUNCATE": "truncate"}


def merge_current(
    table: LakeTable,
    rows: pa.Table,
    key: Sequence[str],
    columns: Sequence[str],
    truncates: TruncateRange | None,
    done: tuple[str, int],
) -> None:
    """`done` is what the commit records: the query and the number of its batch."""
    last = rows.filter(rows["__last"])
    source = _renamed(last, [*columns, UNFIT], {"__offset": "_offset", "__moment": "_changed_at", "__gone": "__gone"})
    written = _same([*columns, UNFIT, "_offset", "_changed_at"])
    newer = "source.`_offset` > target.`_offset`"

    def clauses(merger: TableMerger) -> TableMerger:
        merger = (
            merger.when_matched_delete(f"source.`__gone` and {newer}")
            .when_matched_update(written, f"not source.`__gone` and {newer}")
            .when_not_matched_insert(written, "not source.`__gone`")
        )
        if truncates is not None:
            merger = merger.when_not_matched_by_source_delete(f"target.`_offset` < {truncates.last_offset}")
        return merger

    _merge(table, source, same_key(key), clauses, done)


def merge_history(
    table: LakeTable,
    rows: pa.Table,
    key: Sequence[str],
    columns: Sequence[str],
    truncates: TruncateRange | None,
    done: tuple[str, int],
    floor: int | None,
) -> None:
    """End versions that match, and insert versions that do not, in one commit.

    `floor` is the latest time in the table before the batch.
    """
    begun = _begun(rows, [*columns, UNFIT])
    source = pa.concat_tables([_ended(rows, key), begun], promote_options="default")
    open_one = f"{same_key(key)} and source.`__ends` and target.`_is_current` = true"
    ended = {
        "`_valid_to`": "source.`_valid_to`",
        "`_last_offset`": "source.`_last_offset`",
        "`_ended_by`": "source.`_ended_by`",
        "`_is_current`": "false",
    }
    written = _same([name for name in begun.column_names if name != "__ends"])

    def clauses(merger: TableMerger) -> TableMerger:
        merger = merger.when_matched_update(ended).when_not_matched_insert(written, "not source.`__ends`")
        if truncates is not None:
            emptied = {
                "`_valid_to`": moment_literal(truncates.first_moment),
                "`_last_offset`": str(truncates.first_offset),
                "`_ended_by`": "'truncate'",
                "`_is_current`": "false",
            }
            merger = merger.when_not_matched_by_source_update(emptied, "target.`_is_current` = true")
        return merger

    _merge(table, source, open_one, clauses, done, {MARK: _latest(rows, truncates, floor)})


def _merge(
    table: LakeTable,
    source: pa.Table,
    predicate: str,
    clauses: Callable[[TableMerger], TableMerger],
    done: tuple[str, int],
    marks: Mapping[str, int] | None = None,
) -> None:
    # Another run may apply the same batch: the loser finds it recorded.
    query, batch = done
    lake.merge(table.path, source, predicate, clauses, app=query, version=batch, marks=marks)
    table.changed()


def _ended(rows: pa.Table, key: Sequence[str]) -> pa.Table:
    """For each key, what ended the version that was open before the batch."""
    first = rows.filter(rows["__first"])
    source = _renamed(first, key, {"__before_moment": "_valid_to", "__before_offset": "_last_offset"})
    source = source.append_column("_ended_by", _how(first["__before_op"]))
    return source.append_column("__ends", pa.array([True] * first.num_rows, pa.bool_()))


def _begun(rows: pa.Table, columns: Sequence[str]) -> pa.Table:
    found = rows.filter(compute.not_equal(rows["__op"], "DELETE"))
    source = _renamed(
        found, columns,
        {
            "__moment": "_valid_from", "__end_moment": "_valid_to",
            "__offset": "_first_offset", "__end_offset": "_last_offset",
        },
    )  # fmt: skip
    source = source.append_column("_op", compute.utf8_lower(found["__op"]))
    source = source.append_column("_ended_by", _how(found["__end_op"]))
    source = source.append_column("_is_current", compute.is_null(found["__end_op"]))
    return source.append_column("__ends", pa.array([False] * found.num_rows, pa.bool_()))


def _how(operations: pa.ChunkedArray) -> pa.Array:
    return pa.array([None if each is None else _ENDED[each] for each in operations.to_pylist()], pa.string())


def _latest(rows: pa.Table, truncates: TruncateRange | None, before: int | None) -> int:
    """The latest time in the table, in microseconds."""
    moments = [
        moment for moment in (before, None if truncates is None else truncates.first_moment) if moment is not None
    ]
    for name in ("__moment", "__end_moment"):
        found = compute.max(rows[name].cast(pa.timestamp("us", "UTC")).cast(pa.int64())).as_py()
        moments += [] if found is None else [found]
    return max(moments, default=0)


def _renamed(rows: pa.Table, same: Sequence[str], others: dict[str, str]) -> pa.Table:
    names = [*same, *others.values()]
    return rows.select([*same, *others]).rename_columns(names)


def _same(names: Sequence[str]) -> dict[str, str]:
    return {quoted(name): f"source.{quoted(name)}" for name in names}

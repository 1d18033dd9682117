"""Rewrites a table with wider types: a Delta table keeps the types of its files."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as compute
from deltalake import DeltaTable, write_deltalake


def rewrite(table: DeltaTable, schema: pa.Schema, grown: set[str]) -> None:
    """Rewrite the table, file by file, with the types of the schema for columns that have grown.

    Readers see the old version until the new one is committed.
    """
    there = table.to_pyarrow_dataset()
    names = there.schema.names
    wanted = pa.schema([schema.field(name) if name in grown else there.schema.field(name) for name in names])
    batches = (
        pa.RecordBatch.from_arrays([_cast(batch.column(each.name), each.type) for each in wanted], schema=wanted)
        for batch in there.to_batches()
    )
    write_deltalake(
        table, pa.RecordBatchReader.from_batches(wanted, batches), mode="overwrite", schema_mode="overwrite",
        partition_by=table.metadata().partition_columns or None,
    )  # fmt: skip


def _cast(values: pa.Array, kind: pa.DataType) -> pa.Array:
    if values.type == kind:
        return values
    found = values.cast(kind)
    if pa.types.is_decimal(values.type) and pa.types.is_string(kind):
        # Arrow writes 0E-8 where PostgreSQL writes 0.00000000.
        short = compute.match_substring(found, "E")
        written = [format(value, "f") for value in values.filter(short).to_pylist()]
        found = compute.replace_with_mask(found, short, pa.array(written, kind))
    return found

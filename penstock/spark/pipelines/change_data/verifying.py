"""Compares tables of the lake with their source, and repairs rows that differ.

Both sides are read as of one moment: the source within an exported snapshot, the lake after all changes up to a tick.
First each chunk of keys is reduced to its row count and the sum of its row hashes. Only chunks that differ are compared
row by row. A key with changes that the lake has not applied yet cannot be judged, and is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass

import pyarrow as pa
from deltalake.table import TableMerger
from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from penstock.spark import lake
from penstock.spark.pipelines.change_data.columns import UNFIT, Column, quoted, values
from penstock.spark.pipelines.change_data.copy import Mirror, exported, source_texts
from penstock.spark.pipelines.change_data.events import changes, in_order, of_table
from penstock.spark.pipelines.change_data.pieces import TextDatabase
from penstock.spark.pipelines.change_data.source import Tracked, copied_columns
from penstock.spark.pipelines.change_data.tables import HISTORY, MARK, LakeTable, moment_literal, same_key

CHUNKS = 1024
EXAMPLES = 3
MOST_REPAIRED = 100_000
"""Rows repaired at once: they pass through the driver's memory."""
_SIDES = ("wanted", "found")


@dataclass(frozen=True, slots=True)
class Difference:
    """What one table of the lake has else than its source."""

    table: str
    path: str
    rows: int
    """Rows of the source."""
    chunks: int
    """Chunks that differ, of `CHUNKS`."""
    missing: int = 0
    extra: int = 0
    different: int = 0
    repeated: int = 0
    """Keys that the lake has several times."""
    examples: tuple[str, ...] = ()
    unjudged: bool = False
    """Whether the table was truncated after the last change that the lake has."""

    @property
    def total(self) -> int:
        return self.missing + self.extra + self.different + self.repeated

    def described(self, repaired: bool) -> dict[str, object]:
        return {
            "table": self.table, "in": self.path, "rows": self.rows, "missing": self.missing, "extra": self.extra,
            "different": self.different, "repeated": self.repeated, "such as": "; ".join(self.examples),
            "remark": "truncated since the last batch: run again" if self.unjudged
            else "repaired" if repaired and self.total else "",
        }  # fmt: skip


def verify(
    spark: SparkSession, url: str, mirror: Mirror, table: Tracked, *, stream: str, tick: int, repair: bool
) -> list[Difference]:
    """Compare `current`, and the open versions of `history`, with the source. `tick` is how far changes are applied."""
    with closing(TextDatabase(url)) as database, exported(database, [mirror]) as snapshot:
        key, columns = copied_columns(database, table)
        known = {column.name for column in columns}
        # The lake's own types, in its order: a wider type there is no difference.
        columns = [column for column in mirror.current.columns() if column.name in known]
        texts = source_texts(spark, url, database, snapshot, mirror.name, columns)
        wanted = texts.select(*values(columns)).persist()
        try:
            events = _pending(spark, url, stream, tick, mirror, columns)
            side = _Comparison(mirror, key, [column.name for column in columns], wanted, events)
            found = [side.compare(spark, each) for each in mirror.tables]
            if repair:
                found = [
                    side.repair(each, table, snapshot.moment) for each, table in zip(found, mirror.tables, strict=True)
                ]
            return [difference for difference, _ in found]
        finally:
            wanted.unpersist()


def _pending(
    spark: SparkSession, url: str, stream: str, tick: int, mirror: Mirror, columns: Sequence[Column]
) -> DataFrame:
    """Changes of the table after the tick. The read ends with a new tick, so it includes all that the snapshot sees."""
    events = spark.read.format("penstock").options(
        url=url, subscribe=stream, columns="type,value,offset,timestamp,txid",
        startingOffsets=f'{{"{stream}": {tick}}}',
    )  # fmt: skip
    rows = of_table(changes(events.load()), mirror.name, mirror.seen)
    return in_order(rows, columns, None, truncated=False, defaults={})


class _Comparison:
    def __init__(
        self, mirror: Mirror, key: Sequence[str], names: Sequence[str], wanted: DataFrame, pending: DataFrame
    ) -> None:
        self._mirror, self._key, self._names = mirror, list(key), list(names)
        self._wanted = self._hashed(wanted)
        self._pending = pending

    def compare(self, spark: SparkSession, table: LakeTable) -> tuple[Difference, pa.Table]:
        rows = lake.read(spark, table.path)
        if table.own is HISTORY:
            rows = rows.where("_is_current")
        found = self._hashed(rows)
        wrong = self._wrong_chunks(found)
        empty = Difference(str(self._mirror.name), table.path, sum(each["rows"] for each in wrong), 0)
        chunks = [each["chunk"] for each in wrong if each["differs"]]
        if not chunks:
            return empty, pa.table({})
        in_chunks = f.col("chunk").isin(chunks)
        differing = self._differing(found.where(in_chunks), self._wanted.where(in_chunks)).persist()
        try:
            return self._described(empty, len(chunks), differing)
        finally:
            differing.unpersist()

    def _described(self, empty: Difference, chunks: int, differing: DataFrame) -> tuple[Difference, pa.Table]:
        counts = {row["kind"]: row["count"] for row in differing.groupBy("kind").count().collect()}
        named = f.concat_ws(
            ", ", *(f.concat(f.lit(f"{name}="), f.col(f"key.{quoted(name)}").cast("string")) for name in self._key)
        )
        examples = [row[0] for row in differing.select(f.concat_ws(" ", named, "kind")).sort("kind").head(EXAMPLES)]
        # The rows as the source has them; those that it does not have keep their key only.
        rows = differing.limit(MOST_REPAIRED).select(
            "kind", *(f.coalesce(f.col(f"wanted.{quoted(n)}"), f.col(f"key.{quoted(n)}")).alias(n) for n in self._key),
            *(f.col(f"wanted.{quoted(name)}") for name in [*self._names, UNFIT] if name not in self._key),
        )  # fmt: skip
        unjudged = bool(self._pending.where(f.col("__op") == "TRUNCATE").limit(1).count())
        return Difference(
            empty.table, empty.path, empty.rows, chunks, unjudged=unjudged, examples=tuple(examples),
            **{kind: int(counts.get(kind, 0)) for kind in ("missing", "extra", "different", "repeated")},
        ), rows.toArrow()  # fmt: skip

    def repair(
        self, compared: tuple[Difference, pa.Table], table: LakeTable, moment: int
    ) -> tuple[Difference, pa.Table]:
        difference, rows = compared
        if difference.total and not difference.unjudged:
            _repair(table, self._mirror, rows, self._key, [*self._names, UNFIT], moment)
        return compared

    def _hashed(self, rows: DataFrame) -> DataFrame:
        """The rows as one column, with the number of their chunk and their hash."""
        # Of columns that were dropped in the source, the lake may still have values that do not fit.
        kept = f.map_filter(f.from_json(UNFIT, "map<string, string>"), lambda name, _: name.isin(self._names))
        unfit = f.nullif(f.to_json(kept), f.lit("{}"))
        row = f.struct(*(f.col(quoted(name)) for name in self._names), unfit.alias(UNFIT))
        chunk = f.pmod(f.xxhash64(*self._keys()), f.lit(CHUNKS))
        return rows.select(
            f.struct(*self._keys()).alias("key"), row.alias("row"), chunk.alias("chunk"),
            f.xxhash64(*(f.col(quoted(name)) for name in self._names), unfit).alias("hash"),
        )  # fmt: skip

    def _keys(self) -> list[Expression]:
        return [f.col(quoted(name)) for name in self._key]

    def _wrong_chunks(self, found: DataFrame) -> list[dict[str, int]]:
        """For each chunk of the source or the lake: its rows in the source, and whether it differs."""
        sums = [
            side.groupBy("chunk").agg(
                f.count("*").alias(f"{name}_rows"), f.sum(f.col("hash").cast("decimal(20,0)")).alias(f"{name}_sum")
            )
            for side, name in zip((self._wanted, found), _SIDES, strict=True)
        ]
        both = sums[0].join(sums[1], "chunk", "full")
        same = f.col("wanted_rows").eqNullSafe(f.col("found_rows")) & f.col("wanted_sum").eqNullSafe(f.col("found_sum"))
        rows = both.select("chunk", f.coalesce("wanted_rows", f.lit(0)).alias("rows"), (~same).alias("differs"))
        return [row.asDict() for row in rows.collect()]

    def _differing(self, found: DataFrame, wanted: DataFrame) -> DataFrame:
        there = found.groupBy("key").agg(f.count("*").alias("times"), f.first("row").alias("found"))
        here = wanted.select("key", f.col("row").alias("wanted"))
        both = there.join(here, "key", "full")
        kind = (
            f.when(f.col("found").isNull(), "missing")
            .when(f.col("wanted").isNull(), "extra")
            .when(f.col("times") > 1, "repeated")
            .when(~f.col("found").eqNullSafe(f.col("wanted")), "different")
        )
        changed = self._pending.select(f.struct(*self._keys()).alias("key")).distinct()
        return both.select("key", "wanted", kind.alias("kind")).where("kind is not null").join(changed, "key", "anti")


def _repair(
    table: LakeTable, mirror: Mirror, rows: pa.Table, key: Sequence[str], columns: Sequence[str], moment: int
) -> None:
    """Remove or end the rows that differ, and add those of the source, in one commit.

    A repaired row has the offset 0, like those of the first copy: every later change is newer.
    """
    is_history = table.own is HISTORY
    floor = table.open().transaction_version(MARK) if is_history else None
    moment = max(moment, floor or 0)
    at = pa.scalar(moment, pa.timestamp("us", "UTC"))
    gone = rows.select(list(key)).append_column("__old", pa.array([True] * rows.num_rows, pa.bool_()))
    new = rows.filter(pa.compute.not_equal(rows["kind"], "extra")).select([*columns])
    size = new.num_rows
    own: dict[str, pa.Array] = (
        {
            "_op": pa.array(["repair"] * size, pa.string()),
            "_valid_from": pa.repeat(at, size),
            "_first_offset": pa.array([0] * size, pa.int64()),
            "_is_current": pa.array([True] * size, pa.bool_()),
        }
        if is_history
        else {"_offset": pa.array([0] * size, pa.int64()), "_changed_at": pa.repeat(at, size)}
    )
    for name, values_ in own.items():
        new = new.append_column(name, values_)
    written = {quoted(name): f"source.{quoted(name)}" for name in new.column_names}
    source = pa.concat_tables(
        [gone, new.append_column("__old", pa.array([False] * size, pa.bool_()))], promote_options="default"
    )
    ended = {
        "`_valid_to`": moment_literal(moment),
        "`_ended_by`": "'repair'",
        "`_is_current`": "false",
    }

    def clauses(merger: TableMerger) -> TableMerger:
        merger = merger.when_matched_update(ended) if is_history else merger.when_matched_delete()
        return merger.when_not_matched_insert(written, "not source.`__old`")

    predicate = f"{same_key(key)} and source.`__old`" + (" and target.`_is_current` = true" if is_history else "")
    lake.merge(table.path, source, predicate, clauses, marks={MARK: moment} if is_history else None)
    table.changed()

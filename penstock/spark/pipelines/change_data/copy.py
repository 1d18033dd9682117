"""The first copy of tracked tables: all rows in one snapshot, so that changes continue exactly where it ends.

The consumer is registered at a tick before the snapshot is taken, so rotation keeps everything that the snapshot does
not see. Events whose transactions the snapshot sees are in the copy and are skipped later; all others are applied. The
snapshot is recorded as a property of the lake's tables. A copy without it was interrupted, and is repeated.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StringType, StructField, StructType

from penstock.spark import lake
from penstock.spark.connection import Connection
from penstock.spark.database import FAILURES, Database
from penstock.spark.database import SQL as DATABASE_SQL
from penstock.spark.pipelines.change_data.columns import ChangeDataError, Column, check_names, values
from penstock.spark.pipelines.change_data.pieces import PiecesSource, TextDatabase
from penstock.spark.pipelines.change_data.source import (
    SQL,
    TableName,
    Tracked,
    check_values,
    copied_columns,
    identifier,
)
from penstock.spark.pipelines.change_data.tables import CURRENT, HISTORY, MARK, OWN, SNAPSHOT, LakeTable
from penstock.spark.pipelines.claims import in_lake
from penstock.spark.reading.events import SnapshotParts, snapshot_parts

NO_COPY = "none"
PAGES_PER_PIECE = 8192
"""64 MB of table for a task."""
MOST_PIECES = 256
TRIES = 3


@dataclass(frozen=True, slots=True)
class Snapshot:
    name: str
    """The name by which other sessions import it."""
    seen: str
    moment: int
    """Microseconds since 1970."""
    session: Connection

    def check(self) -> None:
        """Raises when the session has ended, and with it the lock that keeps other runs from copying."""
        if not _alive(self.session):
            raise SnapshotLostError("the database connection failed during the copy")


@dataclass(frozen=True, slots=True)
class Mirror:
    """The lake's tables for one source table."""

    name: TableName
    current: LakeTable
    history: LakeTable | None

    @property
    def tables(self) -> list[LakeTable]:
        return [self.current] if self.history is None else [self.current, self.history]

    @property
    def copied(self) -> bool:
        """Whether its tables are there, with one snapshot that both go on from."""
        found = {table.setting(SNAPSHOT) for table in self.tables}
        if self.history is not None and len(found) > 1 and self.history.setting(SNAPSHOT) is not None:
            raise ChangeDataError(
                f"table {self.name}: {self.current.path} is not what {self.history.path} belongs to. Remove both from"
                " the lake for a new copy, or put back what is missing."
            )
        return len(found) == 1 and None not in found

    @property
    def seen(self) -> SnapshotParts | None:
        text = self.current.setting(SNAPSHOT)
        return None if text in (None, NO_COPY) else snapshot_parts(str(text))


def mirror_of(current: str, history: str | None, name: TableName) -> Mirror:
    return Mirror(
        name,
        LakeTable(f"{current}/{name.folder}", CURRENT),
        None if history is None else LakeTable(f"{history}/{name.folder}", HISTORY),
    )


class SnapshotLostError(RuntimeError):
    """The session ended, and the snapshot with it."""


@contextmanager
def exported(database: Database, mirrors: Sequence[Mirror]) -> Iterator[Snapshot]:
    """A snapshot for all tasks, and locks against TRUNCATE, which takes effect in all snapshots.

    The transaction also locks each table against other copies: a run claims its streams, but a table may be in several
    streams, and after a restart of the database another run may be faster.
    """
    # Waits for a database that is unavailable.
    database.rows(DATABASE_SQL["ping"])
    connection = database.connect_without_timeouts()
    try:
        connection.rows(DATABASE_SQL["begin_snapshot"])
        # The first query takes the snapshot; these statements do not.
        for table in sorted((mirror.name for mirror in mirrors), key=str):
            connection.rows(f"lock table only {table.quoted} in access share mode")
        [(name, seen, moment)] = connection.rows(SQL["export_snapshot"])
        for mirror in mirrors:
            if connection.rows(SQL["lock_copy"], in_lake("the copy", mirror.current.path)) != [(True,)]:
                raise ChangeDataError(f"table {mirror.name}: another run is copying it into {mirror.current.path}")
        database.flush_commits()
        try:
            yield Snapshot(name, seen, moment, connection)
        except Exception as error:
            if not _alive(connection):
                raise SnapshotLostError(f"the database connection failed during the copy: {error}") from error
            raise
    finally:
        # The copy is done or has failed; the state of this connection does not matter.
        with suppress(*FAILURES):
            connection.close()


def copy(spark: SparkSession, url: str, mirrors: Sequence[tuple[Mirror, Tracked]]) -> int:
    """Fill the lake's tables from the source; returns the number of rows."""
    for attempt in range(TRIES):
        try:
            return _copy(spark, url, mirrors)
        except SnapshotLostError:
            if attempt == TRIES - 1:
                raise
    return 0


def _copy(spark: SparkSession, url: str, mirrors: Sequence[tuple[Mirror, Tracked]]) -> int:
    rows = 0
    wanted = [mirror for mirror, _ in mirrors]
    with closing(TextDatabase(url)) as database, exported(database, wanted) as snapshot:
        for mirror, table in mirrors:
            if not table.plain:
                raise ChangeDataError(f"table {table.name} is partitioned: track its partitions instead")
            key, columns = copied_columns(database, table)
            check_names(str(table.name), [column.name for column in columns], OWN)
            texts = source_texts(spark, url, database, snapshot, mirror.name, columns)
            for each in mirror.tables:
                each.clear_unless(columns)
            _fill(spark, mirror, texts, columns, key, snapshot.moment)
            rows += mirror.current.open().count()
            snapshot.check()
            for each in mirror.tables:
                each.set(key=json.dumps(key), snapshot=snapshot.seen)
    return rows


def begin(mirror: Mirror, key: Sequence[str], columns: Sequence[Column]) -> None:
    """Create empty tables, for changes without a copy."""
    for each in mirror.tables:
        if not each.exists:
            each.make(columns)
        each.set(key=json.dumps(key), snapshot=NO_COPY)


def _fill(
    spark: SparkSession,
    mirror: Mirror,
    texts: DataFrame,
    columns: Sequence[Column],
    key: Sequence[str],
    moment: int,
) -> None:
    began = f.timestamp_micros(f.lit(moment))
    rows = texts.select(*values(columns), f.lit(0).cast("bigint").alias("_offset"), began.alias("_changed_at"))
    for each in mirror.tables:
        each.changed()
    _write(rows, mirror.current.path)
    check_values(mirror.name, key, mirror.current.nulls)
    if mirror.history is None:
        return
    there = lake.read(spark, mirror.current.path)
    begun = {
        "_op": f.lit("copy"), "_valid_from": began, "_valid_to": f.lit(None), "_first_offset": f.lit(0),
        "_last_offset": f.lit(None), "_ended_by": f.lit(None), "_is_current": f.lit(True),
    }  # fmt: skip
    own = [begun[column.name].cast(column.type).alias(column.name) for column in HISTORY if column.name in begun]
    rows = there.drop("_offset", "_changed_at").select("*", *own)
    _write(rows, mirror.history.path, partitionBy="_is_current", txnAppId=MARK, txnVersion=str(moment))


def _write(rows: DataFrame, path: str, **options: str) -> None:
    rows.write.format("penstock_lake").options(path=path, mergeSchema="true", **options).mode("overwrite").save()


def source_texts(
    spark: SparkSession,
    url: str,
    database: Database,
    snapshot: Snapshot,
    name: TableName,
    columns: Sequence[Column],
) -> DataFrame:
    """The rows of a source table within the snapshot, as texts."""
    pages = int(database.value(SQL["pages"], name.schema, name.table))
    spark.dataSource.register(PiecesSource)
    schema = StructType([StructField(column.name, StringType(), True) for column in columns])
    reader = spark.read.format(PiecesSource.name()).schema(schema)
    queries = json.dumps([*_queries(name, columns, pages)])
    return reader.options(url=url, snapshot=snapshot.name, queries=queries).load()


def _queries(name: TableName, columns: Sequence[Column], pages: int) -> Iterator[str]:
    """One query per piece: a range of pages. The last is open-ended, since the table may have grown."""
    # Not a cast to text, which trims char(n), unlike the trigger.
    wanted = ", ".join(
        f"case when {column} is distinct from null then format('%s', {column}) end as {column}"
        for column in (identifier(each.name) for each in columns)
    )
    pieces = max(min(-(-pages // PAGES_PER_PIECE), MOST_PIECES), 1)
    borders = [pages * number // pieces for number in range(1, pieces)]
    for first, below in zip([0, *borders], [*borders, None], strict=True):
        until = "" if below is None else f" and ctid < '({below},0)'"
        yield f"select {wanted} from only {name.quoted} where ctid >= '({first},0)'{until}"  # noqa: S608


def _alive(connection: Connection) -> bool:
    try:
        return bool(connection.rows(DATABASE_SQL["ping"]))
    except FAILURES:
        return False

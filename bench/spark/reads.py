"""Reading into Parquet, beside Spark's JDBC source, and draining a stream as Spark streams do.

JDBC reads what the stream's event table holds: the seven columns that ours are made of, of the same rows, by a query
in place of a table. It gets the bounds of the ids, as many partitions as ours makes, and statistics for its plans.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from bench.spark.setting import Connection, Server, Way

COLUMNS = "key,value,offset,timestamp,type,txid,retry"

_SAME = """(
  select e.ev_extra4 as "key", e.ev_data as value, e.ev_id as "offset", e.ev_time as "timestamp", e.ev_type as type,
    e.ev_txid::text::bigint as txid, coalesce(e.ev_retry, 0) as retry
  from {table} as e
  where e.ev_owner is null
) as e"""

_FILL = """
insert into {table} (ev_type, ev_data, ev_extra4)
select
  'order.created',
  json_build_object(
    'order', g, 'customer', md5((g * 7)::text), 'amount', g %% 1000 / 10.0,
    'note', md5(g::text) || md5((g + 1)::text) || left(md5((g + 2)::text), 20)
  )::text,
  'customer-' || g %% 1000
from generate_series(%s::bigint, %s::bigint) as g
"""
PER_TRANSACTION = 10_000


def fill(connection: Connection, stream: str, events: int) -> str:
    """The name of the table that holds them. They come in transactions with a tick after each."""
    connection.execute("select pgque.create_queue(%s)", [stream])
    table = ""
    for first in range(1, events + 1, PER_TRANSACTION):
        with connection.transaction():
            [[table]] = connection.execute("select pgque.current_event_table(%s)", [stream]).fetchall()
            last = min(first + PER_TRANSACTION - 1, events)
            connection.execute(_FILL.format(table=table).encode(), [first, last])
        connection.execute("select pgque.tick_if_waiting(%s)", [stream])
    connection.execute(f"analyze {table}".encode())
    return table


class Reads:
    """One stream, read in several ways into the same place."""

    def __init__(self, spark: SparkSession, server: Server, folder: Path, stream: str, table: str, events: int) -> None:
        self._spark = spark
        self._server = server
        self._folder = folder
        self._stream = stream
        self._table = table
        self._events = events

    def ours(self, partitions: int | None) -> Way:
        options = {"url": self._server.url, "subscribe": self._stream, "columns": COLUMNS}
        if partitions is not None:
            options["minPartitions"] = str(partitions)
        return Way(lambda: self._write(self._spark.read.format("penstock").options(**options).load()))

    def jdbc(self, partitions: int | None) -> Way:
        options = {**self._server.jdbc, "fetchsize": "10000", "dbtable": _SAME.format(table=self._table)}
        if partitions is not None:
            bounds = {"lowerBound": "1", "upperBound": str(self._events + 1)}
            options |= {"partitionColumn": "offset", **bounds, "numPartitions": str(partitions)}
        return Way(lambda: self._write(self._spark.read.format("jdbc").options(**options).load()))

    def partitions(self) -> int:
        """How many ours makes by itself."""
        options = {"url": self._server.url, "subscribe": self._stream, "columns": COLUMNS}
        return self._spark.read.format("penstock").options(**options).load().rdd.getNumPartitions()

    def check(self) -> None:
        """Both read the same rows."""
        place = str(self._folder / "read")
        told = []
        for read in (self.ours(None), self.jdbc(None)):
            read.work()
            sums = "count(*), sum(offset), sum(txid), sum(length(value)), count(distinct key), sum(retry)"
            told.append(self._spark.sql(f"select {sums} from parquet.`{place}`").collect())
        if told[0] != told[1]:
            raise SystemExit(f"not the same was read: {told}")

    def _write(self, frame: DataFrame) -> None:
        frame.write.mode("overwrite").parquet(str(self._folder / "read"))


def drain(spark: SparkSession, server: Server, stream: str, folder: Path) -> tuple[int, float, int]:
    """Events, seconds of all triggers together, and how many triggers there were."""
    options = {"url": server.url, "subscribe": stream, "startingOffsets": "earliest", "columns": COLUMNS}
    query = (
        spark.readStream.format("penstock").options(**options, consumer=folder.name).load()
        .writeStream.format("parquet")
        .options(path=str(folder / "drained"), checkpointLocation=str(folder / "checkpoint"))
        .trigger(availableNow=True).start()
    )  # fmt: skip
    query.awaitTermination()
    triggers: list[Any] = [told for told in query.recentProgress if told.numInputRows > 0]
    seconds = sum(told.durationMs["triggerExecution"] for told in triggers) / 1000
    return sum(told.numInputRows for told in triggers), seconds, len(triggers)

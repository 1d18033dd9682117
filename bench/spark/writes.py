"""Bulk writes into a stream, beside Spark's JDBC sink with its best setting.

JDBC writes into a table like the stream's event table, with the same columns, defaults and indexes: the same rows to
store, and to be found again by id and by batch. Ours makes loads of them, which need one index and build it at the end.
Both of our writes are judged beside it. JDBC promises what our direct write promises, that a task that runs again
writes again; exactly once is more.

Two more are shown. A plain table, with three columns and no index, is less work than a stream. The door is more: a
table whose trigger passes what each statement inserts on to the stream, through the function that every sender calls,
since a stream's current table changes and JDBC cannot follow it.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from bench.spark.setting import Connection, Server, Way

DOOR, LIKE_EVENTS, PLAIN = "public.door", "public.like_events", "public.plain"

_DOOR = """
create unlogged table public.door (type text, key text, value text);
create function public.pass_on() returns trigger language plpgsql as $$
begin
  perform pgque.insert_events('pattern', array_agg(n.type), array_agg(n.value), null, null, null, array_agg(n.key))
  from new_rows as n;
  return null;
end;
$$;
create trigger pass_on after insert on public.door referencing new table as new_rows
for each statement execute function public.pass_on();
"""

# Where what was written to a stream may be: in its current table, or in loads.
_TABLES = """
select pgque.current_event_table(%s)
union all
select pgque.load_table(l.load_queue, l.load_id)
from pgque.load as l
join pgque.queue as q on q.queue_id = l.load_queue
where q.queue_name = %s
  and l.load_txid is not null
"""


class Writes:
    def __init__(self, spark: SparkSession, server: Server, connection: Connection, rows: int) -> None:
        self._server = server
        self._connection = connection
        self._rows = rows
        self._source = _source(spark, rows)
        connection.execute("select pgque.create_queue('pattern')")
        [[pattern]] = connection.execute("select pgque.current_event_table('pattern')").fetchall()
        copy = f"create table {LIKE_EVENTS} (like {pattern} including defaults including indexes)"
        connection.execute(copy.encode())
        connection.execute(f"create table {PLAIN} (type text, key text, value text)".encode())
        connection.execute(_DOOR.encode())

    def ours(self, *, exactly_once: bool) -> Way:
        stream = "exactly-once" if exactly_once else "direct"
        options = {"url": self._server.url, "name": stream, "exactlyOnce": str(exactly_once).lower()}

        def before() -> None:
            self._connection.execute("select pgque.create_queue(%s)", [stream])
            self._settle()

        def after() -> None:
            tables = self._connection.execute(_TABLES, [stream, stream]).fetchall()
            self._expect(*(table for [table] in tables))
            self._connection.execute("select pgque.drop_queue(%s)", [stream])
            # As autovacuum would, when it gets to it.
            self._connection.execute("vacuum penstock.spark_staging")

        write = self._source.write.format("penstock").options(**options).mode("append")
        return Way(write.save, before, after)

    def jdbc(self, table: str) -> Way:
        frame = self._source
        if table == LIKE_EVENTS:
            frame = frame.toDF("ev_type", "ev_extra4", "ev_data")

        def after() -> None:
            if table == DOOR:
                self._expect(pattern)
                self._connection.execute(f"truncate {pattern}".encode())
            self._expect(table)
            self._connection.execute(f"truncate {table}".encode())

        [[pattern]] = self._connection.execute("select pgque.current_event_table('pattern')").fetchall()
        options = {**self._server.jdbc, "dbtable": table, "batchsize": "10000"}
        write = frame.write.format("jdbc").options(**options).mode("append")
        return Way(write.save, self._settle, after)

    def _settle(self) -> None:
        """So that nobody pays for what was written before."""
        self._connection.execute("checkpoint")

    def _expect(self, *tables: str) -> None:
        everything = " union all ".join(f"select from {table}" for table in tables)
        [[count]] = self._connection.execute(f"select count(*) from ({everything}) as e".encode()).fetchall()
        if count != self._rows:
            raise SystemExit(f"{', '.join(tables)}: {count} rows, not {self._rows}")


def _source(spark: SparkSession, rows: int) -> DataFrame:
    """In Spark's memory, so that it is the sink that is measured; a task for each core."""
    cores = spark.sparkContext.defaultParallelism
    made = spark.range(0, rows, 1, cores).selectExpr(
        "'order.created' as type",
        "concat('customer-', id % 1000) as key",
        """to_json(named_struct(
          'order', id, 'customer', md5(cast(id * 7 as string)), 'amount', id % 1000 / 10,
          'note', concat(md5(cast(id as string)), md5(cast(id + 1 as string)), md5(cast(id + 2 as string)))
        )) as value""",
    )
    made.cache().count()
    return made

"""`penstock pipeline run`: one command per pipeline, with its settings as options."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from penstock.cli.options import parse_duration
from penstock.cli.spark import Start, on_spark

app = typer.Typer(help="Run a pipeline.", no_args_is_help=True)

Streams = Annotated[list[str] | None, typer.Option("--stream", help="Stream to read; repeatable.")]
MaxEvents = Annotated[int | None, typer.Option(min=1, help="Maximum number of events in a batch; a tick is not split.")]
Tenant = Annotated[str, typer.Option(help="Tenant that owns the streams and queues.")]
Consumer = Annotated[str, typer.Option(help="Consumer name. Use a different one for each lake.")]
SkipLost = Annotated[bool, typer.Option("--skip-lost", help="Continue when a stream has lost events.")]


class Origin(StrEnum):
    pgmq = "pgmq"
    pgq = "pgq"
    river = "river"
    boss = "pg-boss"
    graphile = "graphile-worker"
    jsonl = "jsonl"
    csv = "csv"
    parquet = "parquet"


class Target(StrEnum):
    queue = "queue"
    stream = "stream"
    jobs = "jobs"


class ReplayTarget(StrEnum):
    stream = "stream"
    queue = "queue"


class ReplayOrder(StrEnum):
    time = "time"
    key = "key"
    none = "none"


@app.command("archive")
@on_spark
def run_archive(
    start: Start,
    stream: Streams = None,
    messages: Annotated[bool, typer.Option("--messages", help="Include the archive of messages.")] = False,
    queue: Annotated[list[str] | None, typer.Option(help="Archive messages of this queue only; repeatable.")] = None,
    partition_by: Annotated[
        str, typer.Option(metavar="COLUMNS", help="Partition columns of events, comma-separated.")
    ] = "date,type",
    consumer: Consumer = "archive",
    skip_lost: SkipLost = False,
    max_events: MaxEvents = None,
    compact: Annotated[bool, typer.Option("--compact", help="Merge small files at the end.")] = False,
    tenant: Tenant = "default",
) -> None:
    """Streams, or the message archive, into the lake."""
    from penstock.spark.pipelines.archive import Archive

    start(
        Archive(
            streams=tuple(stream or ()),
            messages=messages,
            queues=tuple(queue or ()),
            partition_by=tuple(column.strip() for column in partition_by.split(",") if column.strip()),
            consumer=consumer,
            skip_lost=skip_lost,
            max_events=max_events,
            compact=compact,
            tenant=tenant,
        )
    )


@app.command("replay")
@on_spark
def run_replay(
    start: Start,
    name: Annotated[str, typer.Argument(help="Name of the replay. Rows are sent once for each name.")],
    to: Annotated[str, typer.Option(metavar="NAME", help="Stream or queue to send to.")],
    target: Annotated[ReplayTarget, typer.Option(help="Kind of the target.")] = ReplayTarget.stream,
    table: Annotated[str, typer.Option(help="Table of the lake.")] = "events",
    since: Annotated[str | None, typer.Option(metavar="MOMENT", help="Start time, inclusive, in ISO 8601.")] = None,
    until: Annotated[str | None, typer.Option(metavar="MOMENT", help="End time, exclusive.")] = None,
    where: Annotated[str | None, typer.Option(metavar="SQL", help="Condition on the columns of the table.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Maximum number of rows; the earliest are sent.")] = None,
    order: Annotated[
        ReplayOrder, typer.Option(help="Order to keep: of all rows, of the rows of each key, or none.")
    ] = ReplayOrder.time,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count the rows.")] = False,
    tenant: Tenant = "default",
) -> None:
    """A part of the lake back into a stream or a queue."""
    from penstock.spark.pipelines.replay import Replay

    start(
        Replay(
            id=name,
            to=to,
            target=target.value,
            table=table,
            since=since,
            until=until,
            where=where,
            limit=limit,
            order=order.value,
            dry_run=dry_run,
            tenant=tenant,
        )
    )


@app.command("cdc")
@on_spark
def run_cdc(
    start: Start,
    stream: Streams = None,
    table: Annotated[list[str] | None, typer.Option(help="Table, as schema.table; repeatable.")] = None,
    install: Annotated[bool, typer.Option("--install", help="Create change triggers on the tables first.")] = False,
    snapshot: Annotated[bool, typer.Option("--snapshot/--no-snapshot", help="Start with a copy of each table.")] = True,
    history: Annotated[bool, typer.Option("--history/--no-history", help="Keep every version of each row.")] = True,
    consumer: Annotated[
        str, typer.Option(help="Prefix of the consumer names. Use a different one for each lake.")
    ] = "cdc",
    skip_lost: SkipLost = False,
    max_events: MaxEvents = None,
    compact_every: Annotated[
        int | None, typer.Option(min=0, help="Merge small files after this many batches; 0 means never.")
    ] = None,
    verify: Annotated[bool, typer.Option("--verify", help="Compare the lake with the tables at the end.")] = False,
    repair: Annotated[bool, typer.Option("--repair", help="Verify, and replace rows that differ.")] = False,
) -> None:
    """Tables of PostgreSQL into the lake: their current rows, and the history of every row."""
    from penstock.spark.pipelines.change_data import ChangeData
    from penstock.spark.pipelines.change_data.pipeline import COMPACT_EVERY, EVENTS_PER_BATCH

    start(
        ChangeData(
            streams=tuple(stream or ()),
            tables=tuple(table or ()),
            install=install,
            snapshot=snapshot,
            history=history,
            consumer=consumer,
            skip_lost=skip_lost,
            max_events=EVENTS_PER_BATCH if max_events is None else max_events,
            compact_every=COMPACT_EVERY if compact_every is None else compact_every,
            verify=verify,
            repair=repair,
        )
    )


@app.command("tables")
@on_spark
def run_tables(
    start: Start,
    stream: Annotated[
        list[str] | None, typer.Option(help="Stream to read; repeatable. Default: the archive in the lake.")
    ] = None,
    file: Annotated[
        str | None, typer.Option(metavar="FILE", help="TOML file that declares tables. Default: one for every type.")
    ] = None,
    consumer: Consumer = "tables",
    skip_lost: SkipLost = False,
    max_events: MaxEvents = None,
    compact: Annotated[bool, typer.Option("--compact", help="Merge small files at the end.")] = False,
    tenant: Tenant = "default",
) -> None:
    """Events into typed tables, one for each event type; those that do not fit into a quarantine."""
    from penstock.spark.pipelines.tables import Tables

    start(
        Tables(
            streams=tuple(stream or ()),
            file=file,
            consumer=consumer,
            skip_lost=skip_lost,
            max_events=max_events,
            compact=compact,
            tenant=tenant,
        )
    )


@app.command("insights")
@on_spark
def run_insights(
    start: Start,
    stream: Streams = None,
    lateness: Annotated[str, typer.Option(metavar="2h", help="How late an event may be and still be counted.")] = "2h",
    consumer: Consumer = "insights",
    skip_lost: SkipLost = False,
) -> None:
    """Throughput, latencies, retries, dead letters and errors, per name and hour."""
    from penstock.spark.pipelines.insights import Insights

    start(
        Insights(
            streams=tuple(stream or ()),
            lateness_s=int(parse_duration(lateness).total_seconds()),
            consumer=consumer,
            skip_lost=skip_lost,
        )
    )


@app.command("import")
@on_spark
def run_import(
    start: Start,
    source: Annotated[Origin, typer.Argument(help="Kind of the source.")],
    paths: Annotated[list[str] | None, typer.Argument(help="Files to import.")] = None,
    to: Annotated[Target, typer.Option(help="Kind of the target.")] = Target.queue,
    into: Annotated[str | None, typer.Option(metavar="NAME", help="Queue or stream for all rows.")] = None,
    rename: Annotated[list[str] | None, typer.Option(metavar="OLD=NEW", help="New name; repeatable.")] = None,
    from_url: Annotated[str | None, typer.Option(metavar="URL", help="Source database. Default: Penstock's.")] = None,
    source_name: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Identity of the source database. Default: from the database."),
    ] = None,
    schema: Annotated[str | None, typer.Option(help="Schema of the source. Default: the usual one.")] = None,
    queue: Annotated[list[str] | None, typer.Option(help="Import this queue only; repeatable.")] = None,
    consumer: Annotated[str | None, typer.Option(help="PgQ: import only what this consumer has not read.")] = None,
    value: Annotated[str | None, typer.Option(metavar="COLUMN", help="Files: column that holds the payload.")] = None,
    finished: Annotated[bool, typer.Option("--finished", help="Include finished work.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count rows, and list those to reject.")] = False,
    skip_rejects: Annotated[bool, typer.Option("--skip-rejects", help="Do not fail when rows are rejected.")] = False,
    again: Annotated[
        str, typer.Option(metavar="WORD", help="Label of a repeated import: rows are imported once for each label.")
    ] = "",
    chunk: Annotated[int, typer.Option(min=1, help="Rows per transaction.")] = 100_000,
    tenant: Tenant = "default",
) -> None:
    """Work of other queues, or files, into queues, streams or jobs."""
    from penstock.spark.pipelines.importing import Import

    start(
        Import(
            source=source.value,
            target=to.value,
            into=into,
            rename=tuple(rename or ()),
            from_url=from_url,
            source_name=source_name,
            schema=schema,
            queues=tuple(queue or ()),
            consumer=consumer,
            paths=tuple(paths or ()),
            value=value,
            finished=finished,
            dry_run=dry_run,
            skip_rejects=skip_rejects,
            again=again,
            tenant=tenant,
            chunk=chunk,
        )
    )

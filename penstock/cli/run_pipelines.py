"""`penstock pipeline run`: a command for each pipeline, with its settings as options."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from penstock.cli.spark import Start, on_spark
from penstock.cli.tokens import parse_duration

app = typer.Typer(help="Run a pipeline.", no_args_is_help=True)

Streams = Annotated[list[str] | None, typer.Option("--stream", help="A stream; repeat for more.")]
MaxEvents = Annotated[int | None, typer.Option(min=1, help="Events in a batch, about.")]
Tenant = Annotated[str, typer.Option(help="Whose.")]
Consumer = Annotated[str, typer.Option(help="Who it is to the streams; a second lake of the same needs another.")]
SkipLost = Annotated[bool, typer.Option("--skip-lost", help="Go on when events of a stream are lost.")]


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
    messages: Annotated[bool, typer.Option("--messages", help="The archive of messages.")] = False,
    queue: Annotated[list[str] | None, typer.Option(help="Messages of this queue only; repeat for more.")] = None,
    partition_by: Annotated[
        str, typer.Option(metavar="COLUMNS", help="How events are laid down, with commas between.")
    ] = "date,type",
    consumer: Consumer = "archive",
    skip_lost: SkipLost = False,
    max_events: MaxEvents = None,
    compact: Annotated[bool, typer.Option("--compact", help="Put small files together at the end.")] = False,
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
    name: Annotated[str, typer.Argument(help="What this replay is called: under one name rows are sent once.")],
    to: Annotated[str, typer.Option(metavar="NAME", help="The stream or queue to send to.")],
    target: Annotated[ReplayTarget, typer.Option(help="What that is.")] = ReplayTarget.stream,
    table: Annotated[str, typer.Option(help="The table of the lake.")] = "events",
    since: Annotated[str | None, typer.Option(metavar="MOMENT", help="From this moment on, in ISO 8601.")] = None,
    until: Annotated[str | None, typer.Option(metavar="MOMENT", help="Before this moment.")] = None,
    where: Annotated[str | None, typer.Option(metavar="SQL", help="A condition on the table's columns.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Rows at most.")] = None,
    order: Annotated[
        ReplayOrder, typer.Option(help="What stays in order: all rows, those of each key, or nothing.")
    ] = ReplayOrder.time,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count.")] = False,
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
    table: Annotated[list[str] | None, typer.Option(help="A table, as schema.table; repeat for more.")] = None,
    install: Annotated[bool, typer.Option("--install", help="Put the change triggers on the tables first.")] = False,
    snapshot: Annotated[
        bool, typer.Option("--snapshot/--no-snapshot", help="Begin with a copy of each table; default: yes.")
    ] = True,
    history: Annotated[
        bool, typer.Option("--history/--no-history", help="Keep every version of a row too; default: yes.")
    ] = True,
    consumer: Annotated[
        str, typer.Option(help="How its consumers' names begin; a second lake of the same stream needs another.")
    ] = "cdc",
    skip_lost: SkipLost = False,
    max_events: MaxEvents = None,
    compact_every: Annotated[
        int | None, typer.Option(min=0, help="Put small files together after so many batches; 0 for never.")
    ] = None,
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
        )
    )


@app.command("insights")
@on_spark
def run_insights(
    start: Start,
    stream: Streams = None,
    lateness: Annotated[str, typer.Option(metavar="2h", help="How late something may come to be counted.")] = "2h",
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
    source: Annotated[Origin, typer.Argument(help="What to import from.")],
    paths: Annotated[list[str] | None, typer.Argument(help="Files, when it is files.")] = None,
    to: Annotated[Target, typer.Option(help="What it becomes.")] = Target.queue,
    into: Annotated[str | None, typer.Option(metavar="NAME", help="One queue or stream for all of it.")] = None,
    rename: Annotated[list[str] | None, typer.Option(metavar="OLD=NEW", help="Another name; repeat for more.")] = None,
    from_url: Annotated[str | None, typer.Option(metavar="URL", help="The database it is in; default: ours.")] = None,
    source_name: Annotated[
        str | None, typer.Option(metavar="NAME", help="What that database is known by; default: what it says itself.")
    ] = None,
    schema: Annotated[str | None, typer.Option(help="The schema it is in, when it is not the usual one.")] = None,
    queue: Annotated[list[str] | None, typer.Option(help="Only this queue; repeat for more.")] = None,
    consumer: Annotated[str | None, typer.Option(help="PgQ: only what this consumer has yet to read.")] = None,
    value: Annotated[str | None, typer.Option(metavar="COLUMN", help="Files: the column with the payload.")] = None,
    finished: Annotated[bool, typer.Option("--finished", help="Finished work too.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count, and say what would be rejected.")] = False,
    skip_rejects: Annotated[bool, typer.Option("--skip-rejects", help="Rejected rows are no failure.")] = False,
    again: Annotated[str, typer.Option(metavar="WORD", help="Import once more what was imported before.")] = "",
    chunk: Annotated[int, typer.Option(min=1, help="Rows written in one transaction.")] = 100_000,
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

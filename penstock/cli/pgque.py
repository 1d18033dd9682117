"""The program `pgque`: administers streams in any PostgreSQL, by the command names of PgQ's successor.

It needs no server. `penstock pgque` is the same.
"""

from __future__ import annotations

import functools
import inspect
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer

from penstock.cli import depths
from penstock.cli.options import Columns, DryRun, Json, seconds
from penstock.cli.output import Output, counted, print_table
from penstock.errors import Invalid, NotFound

if TYPE_CHECKING:
    import asyncio

Dsn = Annotated[str | None, typer.Option("--dsn", "-d", metavar="DSN", help="PostgreSQL. Default: PGQUE_DSN.")]
DatabaseName = Annotated[
    str | None, typer.Option("--database", metavar="NAME", help="Database. Default: PGDATABASE, or that of the DSN.")
]
QueueName = Annotated[str, typer.Argument(metavar="QUEUE", help="Name of the queue.")]
AnyQueue = Annotated[str | None, typer.Argument(metavar="QUEUE", help="Only this queue.")]

QUEUE_COLUMNS = ("name", "depth", "rate", "rotation_s", "consumers", "dlq", "health")
CONSUMER_COLUMNS = ("queue", "consumer", "lag_s", "pending", "status")
DEAD_COLUMNS = ("id", "consumer", "reason", "died_at", "event")
MOST = 10_000

app = typer.Typer(
    name="pgque",
    help="Administer the streams of a PostgreSQL database, with or without a Penstock server.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
    pretty_exceptions_enable=False,
)


class Administration(Protocol):
    """A connection to the database."""

    async def rows(self, name: str, *arguments: Any) -> Sequence[Mapping[str, Any]]: ...

    async def install(self) -> str: ...


class Database:
    """Runs statements one after the other, on one connection."""

    def __init__(self, runner: asyncio.Runner, administration: Administration) -> None:
        self._runner = runner
        self._administration = administration

    def rows(self, name: str, *arguments: Any) -> list[dict[str, Any]]:
        return [dict(row) for row in self._runner.run(self._administration.rows(f"pgque_{name}", *arguments))]

    def row(self, name: str, *arguments: Any) -> dict[str, Any]:
        [row] = self.rows(name, *arguments)
        return row

    def queue(self, name: str) -> dict[str, Any]:
        found = self.rows("queues", name)
        if not found:
            raise NotFound(f"queue '{name}' does not exist")
        return found[0]

    def install(self) -> str:
        return self._runner.run(self._administration.install())


@contextmanager
def opened(dsn: str | None, name: str | None = None) -> Iterator[Database]:
    import asyncio

    from penstock.server.stores import administration

    with asyncio.Runner() as runner:
        connected = runner.run(administration(dsn, name))
        try:
            yield Database(runner, connected)
        finally:
            runner.run(connected.close())


def command(name: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add a command with the options of the connection and of the output; it receives `database` and `out`."""

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        def run(
            *,
            dsn: Dsn = None,
            database_name: DatabaseName = None,
            columns: Columns = None,
            as_json: Json = False,
            **others: Any,
        ) -> None:
            address = dsn or os.environ.get("PGQUE_DSN") or os.environ.get("DATABASE_URL")
            if address is None and database_name is None and not {"PGHOST", "PGDATABASE"} & os.environ.keys():
                raise Invalid("name the database with --dsn or PGQUE_DSN, such as postgresql://localhost/mydb")
            with opened(address, database_name) as database:
                function(database, Output(as_json, columns), **others)

        own = inspect.signature(function, eval_str=True).parameters.values()
        shared = inspect.signature(run, eval_str=True).parameters.values()
        parameters = [found.replace(kind=found.KEYWORD_ONLY) for found in own if found.name not in ("database", "out")]
        parameters += [found for found in shared if found.kind is not found.VAR_KEYWORD]
        functools.update_wrapper(run, function)
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {found.name: found.annotation for found in parameters}
        app.command(name)(run)
        return run

    return decorate


@command("install")
def install(database: Database, out: Output, dry_run: DryRun = False) -> None:
    """Install pgque in the database, or upgrade it."""
    _install(database, out, dry_run=dry_run)


@command("upgrade")
def upgrade(database: Database, out: Output, dry_run: DryRun = False) -> None:
    """Upgrade pgque to this version. All data is kept."""
    if not database.row("installed")["installed"]:
        raise NotFound("pgque is not installed in this database; run: pgque install")
    _install(database, out, dry_run=dry_run)


def _install(database: Database, out: Output, *, dry_run: bool) -> None:
    before = database.row("version")["version"] if database.row("installed")["installed"] else None
    if dry_run:
        out.done(f"pgque would be {'upgraded' if before else 'installed'}", installed=before, version=None)
        return
    version = database.install()
    out.done(f"pgque {version} is {'upgraded' if before else 'installed'}", installed=before, version=version)


@command("uninstall")
def uninstall(
    database: Database,
    out: Output,
    force: Annotated[bool, typer.Option("--force", help="Required: all queues and events are deleted.")] = False,
    dry_run: DryRun = False,
) -> None:
    """Remove pgque with all queues, events and triggers."""
    remove(database, out, force=force, dry_run=dry_run)


def remove(database: Database, out: Output, *, force: bool, dry_run: bool) -> None:
    if not database.row("installed")["installed"]:
        raise NotFound("pgque is not installed in this database")
    queues = [found["name"] for found in database.rows("queues", None)]
    if dry_run:
        out.done(f"pgque would be removed, with {counted(len(queues), 'queue')}", removed=None, queues=queues)
        return
    if not force:
        raise Invalid(f"this deletes {counted(len(queues), 'queue')} with their events; add --force")
    database.rows("uninstall")
    out.done(f"pgque is removed, with {counted(len(queues), 'queue')}", removed="pgque", queues=queues)


@command("start")
def start(database: Database, out: Output) -> None:
    """Start the ticker and maintenance as jobs of pg_cron. A Penstock server does both without it."""
    database.rows("start")
    out.done("the jobs of pg_cron are scheduled", started=True)


@command("stop")
def stop(database: Database, out: Output) -> None:
    """Stop the jobs of pg_cron."""
    database.rows("stop")
    out.done("the jobs of pg_cron are removed", stopped=True)


@command("status")
def status(database: Database, out: Output) -> None:
    """Show the system, the queues and the consumers."""
    system = database.rows("status")
    queues, consumers = database.rows("queues", None), database.rows("consumers", None)
    found = {"system": system, "queues": queues, "consumers": consumers}
    if out.as_json:
        out.record(found)
        return
    columns = {"system": ("component", "status", "detail"), "queues": QUEUE_COLUMNS, "consumers": CONSUMER_COLUMNS}
    for part, rows in out.picked(found).items():
        print(f"{part.capitalize()}:")
        if rows:
            print_table(columns[part], [[row[name] for name in columns[part]] for row in rows])


@command("queues")
def queues(database: Database, out: Output) -> None:
    """List all queues with depth and health."""
    out.rows(database.rows("queues", None), QUEUE_COLUMNS, "There are no queues.")


@command("consumers")
def consumers(database: Database, out: Output, queue: AnyQueue = None) -> None:
    """List all consumers, or those of a queue, with lag and status."""
    if queue is not None:
        database.queue(queue)
    out.rows(database.rows("consumers", queue), CONSUMER_COLUMNS, "There are no consumers.")


@command("depth")
def depth(
    database: Database,
    out: Output,
    queue: QueueName,
    watch: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Print the depth again after this time, with a sparkline.")
    ] = None,
    count: Annotated[
        int, typer.Option(metavar="N", min=0, help="With --watch: number of refreshes; 0 means no limit.")
    ] = 0,
) -> None:
    """Show how many events the slowest consumer of a queue has not received."""

    def read() -> dict[str, Any]:
        return {"queue": queue, "depth": int(database.queue(queue)["depth"])}

    if watch is None:
        out.record(read())
    else:
        depths.watch(out, read, watch, count)


@command("drain")
def drain(
    database: Database,
    out: Output,
    queue: QueueName,
    timeout: Annotated[str, typer.Option(metavar="DURATION", help="Maximum time to wait.")] = "60s",
) -> None:
    """Wait until the consumers of a queue have received everything. Exits with 1 after the timeout."""

    def read() -> int:
        # Events after the last tick count as well.
        database.rows("tick", queue)
        return int(database.queue(queue)["depth"])

    depths.wait_until_empty(f"queue {queue}", read, timeout)
    out.record({"queue": queue, "depth": 0})


Limit = Annotated[int | None, typer.Option(metavar="N", min=1, max=MOST, help="At most so many, oldest first.")]


@command("replay-dlq")
def replay_dead_letters(
    database: Database, out: Output, queue: QueueName, limit: Limit = None, dry_run: DryRun = False
) -> None:
    """Send dead letters to their consumers again."""
    database.queue(queue)
    if dry_run:
        found = database.rows("dead", queue, limit or MOST)
        for row in found:
            row["died_at"] = row["died_at"].isoformat()
        out.rows(found, DEAD_COLUMNS, "There are no dead letters.")
    elif limit is None:
        out.record(database.row("replay_all", queue))
    else:
        out.record(database.row("replay_some", queue, limit))


@command("purge-dlq")
def purge_dead_letters(
    database: Database,
    out: Output,
    queue: QueueName,
    older_than: Annotated[str, typer.Option(metavar="DURATION", help="Only dead letters older than this.")] = "30d",
    dry_run: DryRun = False,
) -> None:
    """Delete old dead letters."""
    database.queue(queue)
    if dry_run:
        out.record({"deleted": 0, "would_delete": database.row("dead_before", queue, seconds(older_than))["dead"]})
    else:
        out.record(database.row("purge", queue, seconds(older_than)))


@command("create-queue")
def create_queue(
    database: Database,
    out: Output,
    queue: QueueName,
    options: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Option of the queue, such as max_retries=3; repeatable."),
    ] = None,
) -> None:
    """Create a queue. Does nothing if it exists."""
    given = dict(_pair(option) for option in options or ())
    created = bool(database.row("create", queue, json.dumps(given))["created"])
    out.done(f"queue {queue} {'is created' if created else 'exists already'}", queue=queue, created=created)


def _pair(option: str) -> tuple[str, str]:
    name, found, value = option.partition("=")
    if not found:
        raise Invalid(f"'{option}' must be NAME=VALUE, such as max_retries=3")
    return name, value


@command("drop-queue")
def drop_queue(
    database: Database,
    out: Output,
    queue: QueueName,
    force: Annotated[bool, typer.Option("--force", help="Also if it has consumers.")] = False,
    dry_run: DryRun = False,
) -> None:
    """Delete a queue with its events."""
    found = database.queue(queue)
    if found["consumers"] and not force:
        raise Invalid(f"queue {queue} has {counted(found['consumers'], 'consumer')}; add --force")
    if not dry_run:
        database.rows("drop", queue, force)
    done = "would be dropped" if dry_run else "is dropped"
    out.done(f"queue {queue} {done}, with {counted(found['depth'], 'event')}", dropped=None if dry_run else queue)


@command("pause")
def pause(database: Database, out: Output, queue: QueueName) -> None:
    """Pause the ticker of a queue: consumers get no new batches."""
    database.rows("pause", queue)
    out.done(f"queue {queue} is paused", queue=queue, paused=True)


@command("resume")
def resume(database: Database, out: Output, queue: QueueName) -> None:
    """Resume the ticker of a queue."""
    database.rows("resume", queue)
    out.done(f"queue {queue} is resumed", queue=queue, paused=False)


def main(arguments: Sequence[str] | None = None) -> None:
    from penstock.cli import run
    from penstock.cli.lazy import build

    run(build("pgque", "pgque:app"), sys.argv[1:] if arguments is None else arguments, "pgque")

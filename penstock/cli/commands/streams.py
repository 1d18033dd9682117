"""`penstock stream`: streams, their consumers and their dead letters. Streams require PostgreSQL."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import typer

from penstock.cli import depths, options
from penstock.cli.options import DryRun, Json, on_server, on_store, read_text, seconds
from penstock.cli.output import Output, counted, say
from penstock.cli.remote import Server, segment
from penstock.config import Settings
from penstock.errors import Unsupported
from penstock.limits import RECEIVE_LIMIT

app = typer.Typer(help="Streams, their consumers and their dead letters. PostgreSQL only.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="STREAM", help="Name of the stream.")]
CONSUMER_COLUMNS = ("name", "pending", "lag", "last_seen_at", "batch_id")
DEAD_COLUMNS = ("id", "consumer", "reason", "died_at", "event.id", "event.payload")


def path(name: str) -> str:
    return f"/v1/streams/{segment(name)}"


@app.command("create")
@on_server()
def create(
    server: Server,
    out: Output,
    name: Name,
    max_retries: Annotated[
        int | None, typer.Option(metavar="N", help="Retries before an event becomes a dead letter.")
    ] = None,
    consumer: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Consumer to register; repeatable.")
    ] = None,
) -> None:
    """Create a stream. Does nothing if it exists."""
    body = {"name": name, **({"max_retries": max_retries} if max_retries is not None else {})}
    made = server.post("/v1/streams", body, repeatable=True)
    for one in consumer or ():
        server.post(f"{path(name)}/consumers", {"name": one}, repeatable=True)
    out.record(made)


@app.command("list")
@on_server()
def list_streams(server: Server, out: Output) -> None:
    """List streams with their numbers."""
    found: list[dict[str, Any]] = []
    names: list[str] = []
    while page := server.get("/v1/streams", after=names[-1] if names else None, limit=1000):
        names += [one["name"] for one in page]
    for name in names:
        found.append(server.get(path(name)))
    columns = ("name", "depth", "oldest_age", "consumers", "events_per_second", "dead_letters", "settings.paused")
    out.rows(found, columns, "There are no streams.")


@app.command("show")
@on_server()
def show(server: Server, out: Output, name: Name) -> None:
    """Show the numbers and settings of a stream."""
    out.record(server.get(path(name)))


@app.command("send")
@on_server()
def send(
    server: Server,
    out: Output,
    name: Name,
    payload: Annotated[str, typer.Argument(help="Payload: JSON or text. - reads standard input.")],
    kind: Annotated[str, typer.Option("--type", metavar="TEXT", help="Type of the event.")] = "default",
) -> None:
    """Send an event."""
    out.record(server.post(f"{path(name)}/events", {"payload": options.as_json(read_text(payload)), "type": kind}))


@app.command("pause")
@on_server()
def pause(server: Server, out: Output, name: Name) -> None:
    """Pause a stream: no ticks, and so no new batches."""
    out.record(server.patch(path(name), {"paused": True}))


@app.command("resume")
@on_server()
def resume(server: Server, out: Output, name: Name) -> None:
    """Resume a stream."""
    out.record(server.patch(path(name), {"paused": False}))


@app.command("health")
@on_server()
def health(server: Server, out: Output, name: Name) -> None:
    """Check a stream. Exits with 1 if a check is critical."""
    found = server.get(f"{path(name)}/health")
    out.rows(found, ("check", "status", "detail"), "There are no checks.")
    if any(one["status"] == "critical" for one in found):
        raise typer.Exit(1)


@app.command("depth")
@on_server()
def depth(
    server: Server,
    out: Output,
    name: Name,
    watch: Annotated[bool, typer.Option("--watch", help="Print the depth again and again, with a sparkline.")] = False,
    every: Annotated[str, typer.Option(metavar="DURATION", help="With --watch: time between refreshes.")] = "2s",
    count: Annotated[
        int, typer.Option(metavar="N", min=0, help="With --watch: number of refreshes; 0 means no limit.")
    ] = 0,
) -> None:
    """Show the number of events that the slowest consumer has not received."""

    def read() -> dict[str, Any]:
        found = server.get(path(name))
        return {"name": name, "depth": found["depth"], "oldest_age": found["oldest_age"]}

    if watch:
        depths.watch(out, read, every, count)
    else:
        out.record(read())


@app.command("drain")
@on_server()
def drain(
    server: Server,
    out: Output,
    name: Name,
    timeout: Annotated[str, typer.Option(metavar="DURATION", help="Maximum time to wait.")] = "60s",
) -> None:
    """Wait until all consumers have received all events. Exits with 1 after the timeout."""

    def read() -> int:
        server.work()
        return int(server.get(path(name))["depth"])

    depths.wait_until_empty(f"stream {name}", read, timeout)
    out.record({"name": name, "depth": 0})


@app.command("tick")
@on_server()
def tick(server: Server, out: Output, name: Name) -> None:
    """Make a tick now if there are events after the last one: consumers get them at once."""
    out.record(server.post(f"{path(name)}/tick"))


@app.command("upgrade")
@on_store
def upgrade(settings: Settings, dry_run: DryRun = False, as_json: Json = False) -> None:
    """Bring the tables and functions of the database up to date, as `penstock migrate` does."""
    from penstock.cli.running import migrate_store

    migrate_store(settings, dry_run=dry_run, as_json=as_json)


@app.command("uninstall")
@on_store
def uninstall(
    settings: Settings,
    force: Annotated[bool, typer.Option("--force", help="Required: all streams and events are deleted.")] = False,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Remove all streams of the database, of every tenant. The next `penstock serve` installs them anew, empty."""
    from penstock.cli import pgque
    from penstock.server.stores import database, require_files

    require_files(settings)
    with database(settings) as found:
        if found.dsn is None:
            raise Unsupported("streams require PostgreSQL")
        with pgque.opened(found.dsn) as opened:
            pgque.remove(opened, Output(as_json), force=force, dry_run=dry_run)


@app.command("consumers")
@on_server()
def consumers(server: Server, out: Output, name: Name) -> None:
    """List the consumers of a stream with their lag."""
    out.rows(server.get(f"{path(name)}/consumers"), CONSUMER_COLUMNS, "There are no consumers.")


@app.command("dead")
@on_server()
def dead_letters(
    server: Server,
    out: Output,
    name: Name,
    limit: Annotated[int, typer.Option(metavar="N", min=1, max=1000, help="Maximum number.")] = 100,
) -> None:
    """List the dead letters of a stream."""
    out.rows(server.get(f"{path(name)}/dead-letters", limit=limit), DEAD_COLUMNS, "There are no dead letters.")


@app.command("replay")
@on_server()
def replay(
    server: Server,
    out: Output,
    name: Name,
    number: Annotated[int | None, typer.Option("--id", metavar="ID", help="Only this dead letter.")] = None,
    dry_run: DryRun = False,
) -> None:
    """Send dead letters to their consumers again."""
    if dry_run:
        found = server.get(f"{path(name)}/dead-letters", limit=RECEIVE_LIMIT[1])
        if number is None and len(found) < (total := server.get(path(name))["dead_letters"]):
            say(f"penstock: these are the newest {len(found)} of {total} dead letters")
        out.rows([one for one in found if number in (None, one["id"])], DEAD_COLUMNS, "There are no dead letters.")
        return
    which = "" if number is None else f"/{number}"
    out.record(server.post(f"{path(name)}/dead-letters{which}/replay"))


@app.command("purge")
@on_server()
def purge(
    server: Server,
    out: Output,
    name: Name,
    older_than: Annotated[str, typer.Option(metavar="DURATION", help="Only dead letters older than this.")] = "0s",
    dry_run: DryRun = False,
) -> None:
    """Delete the dead letters of a stream."""
    age = seconds(older_than)
    if dry_run:
        out.record({"deleted": 0, "would_delete": _dead_before(server, name, age)})
        return
    out.record(server.delete(f"{path(name)}/dead-letters", older_than=age))


def _dead_before(server: Server, name: str, age_s: int) -> int:
    """How many dead letters are older. The listing shows the newest, so it tells how many are not."""
    total = int(server.get(path(name))["dead_letters"])
    if not age_s:
        return total
    end = datetime.now(UTC) - timedelta(seconds=age_s)
    newest = server.get(f"{path(name)}/dead-letters", limit=RECEIVE_LIMIT[1])
    younger = sum(datetime.fromisoformat(one["died_at"]) >= end for one in newest)
    if younger == len(newest) < total:
        say(f"penstock: more than {younger} dead letters are younger, so this is an upper bound")
    return total - younger


@app.command("drop")
@on_server()
def drop(server: Server, out: Output, name: Name, dry_run: DryRun = False) -> None:
    """Delete a stream with its events and consumers."""
    found = server.get(path(name))
    if not dry_run:
        server.delete(path(name))
    done = "would be deleted" if dry_run else "is deleted"
    text = f"stream {name} {done}, with {counted(found['consumers'], 'consumer')}"
    out.done(text, deleted=None if dry_run else name, consumers=found["consumers"])

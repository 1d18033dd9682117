"""`penstock schedule`: schedules, previews of their times, and runs out of turn."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from penstock.cli.options import as_json, on_server, read_text
from penstock.cli.output import Output
from penstock.cli.remote import Server, segment
from penstock.errors import Invalid

app = typer.Typer(help="Schedules: create, list, preview, pause and run.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="SCHEDULE", help="Name of the schedule.")]
Cron = Annotated[str | None, typer.Option(metavar="CRON", help="Times as cron, such as '0 9 * * 1-5'.")]
Every = Annotated[str | None, typer.Option(metavar="DURATION", help="Times as an interval, such as 90m.")]
When = Annotated[str | None, typer.Option(metavar="PHRASE", help="Times in words, such as 'every weekday at 9am'.")]
Timezone = Annotated[str, typer.Option(metavar="NAME", help="Time zone.")]
COLUMNS = ("name", "status", "target_kind", "target", "human_readable", "next_fire_at", "fires", "last_error")


def path(name: str) -> str:
    return f"/v1/schedules/{segment(name)}"


def _times(cron: str | None, every: str | None, when: str | None, timezone: str) -> dict[str, Any]:
    given = {"cron": cron, "every": every, "when": when}
    chosen = {name: value for name, value in given.items() if value is not None}
    if len(chosen) != 1:
        raise Invalid("give one of --cron, --every and --when")
    return {**chosen, "timezone": timezone}


@app.command("create")
@on_server()
def create(
    server: Server,
    out: Output,
    name: Name,
    target: Annotated[str, typer.Argument(metavar="TARGET", help="Queue, topic, stream or queue of jobs.")],
    message: Annotated[
        str, typer.Option(metavar="TEXT", help="Message: JSON or text. - reads standard input.")
    ] = "null",
    kind: Annotated[str, typer.Option(metavar="KIND", help="queue, topic, stream or job.")] = "queue",
    cron: Cron = None,
    every: Every = None,
    when: When = None,
    timezone: Timezone = "UTC",
) -> None:
    """Create a schedule."""
    times = _times(cron, every, when, timezone)
    body = {"name": name, "target": target, "target_kind": kind, "message": as_json(read_text(message)), **times}
    out.record(server.post("/v1/schedules", body))


@app.command("list")
@on_server()
def list_schedules(server: Server, out: Output) -> None:
    """List schedules."""
    out.rows(server.get("/v1/schedules"), COLUMNS, "There are no schedules.")


@app.command("show")
@on_server()
def show(server: Server, out: Output, name: Name) -> None:
    """Show a schedule and its next fires."""
    out.record(server.get(path(name)))


@app.command("preview")
@on_server()
def preview(
    server: Server,
    out: Output,
    when: Annotated[str | None, typer.Argument(metavar="PHRASE", help="Times in words.")] = None,
    cron: Cron = None,
    every: Every = None,
    timezone: Timezone = "UTC",
    count: Annotated[int, typer.Option(metavar="N", min=1, max=100, help="Number of fires.")] = 5,
) -> None:
    """Show when a schedule with these times would fire. Stores nothing."""
    out.record(server.post("/v1/previews", {**_times(cron, every, when, timezone), "count": count}, repeatable=True))


@app.command("pause")
@on_server()
def pause(server: Server, out: Output, name: Name) -> None:
    """Pause a schedule."""
    out.record(server.patch(path(name), {"status": "paused"}))


@app.command("resume")
@on_server()
def resume(server: Server, out: Output, name: Name) -> None:
    """Resume a schedule."""
    out.record(server.patch(path(name), {"status": "active"}))


@app.command("run")
@on_server()
def run(server: Server, out: Output, name: Name) -> None:
    """Fire a schedule now. Its next fire stays as it is."""
    out.record(server.post(f"{path(name)}/runs"))


@app.command("drop")
@on_server()
def drop(server: Server, out: Output, name: Name) -> None:
    """Delete a schedule."""
    server.get(path(name))
    server.delete(path(name))
    out.done(f"schedule {name} is deleted", deleted=name)

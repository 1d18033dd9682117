"""`penstock queue`: queues, their messages and their dead letters."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from penstock.cli.options import DryRun, as_json, on_server, only_json, read_lines, read_text, seconds
from penstock.cli.output import Output, counted, say
from penstock.cli.remote import Server, segment
from penstock.errors import Invalid, PenstockError

app = typer.Typer(help="Queues, their messages and their dead letters.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="QUEUE", help="Name of the queue.")]
Max = Annotated[int, typer.Option("--max", metavar="N", min=1, max=1000, help="Maximum number of messages.")]

COLUMNS = ("queue", "visible", "in_flight", "delayed", "oldest_age", "sent")
MESSAGE_COLUMNS = ("id", "message", "read_count", "enqueued_at", "dead_letter_source")
TASK_COLUMNS = ("id", "state", "moved", "to_move", "failure")
BATCH = 500
"""Messages of one request when many are sent."""
SEARCHED = 1000
"""Dead letters that a preview or a search looks at."""
PARTIAL = 3
"""Exit code when some of the work failed."""


def path(name: str) -> str:
    return f"/v1/queues/{segment(name)}"


@app.command("create")
@on_server(creates=True)
def create(
    server: Server,
    out: Output,
    name: Name,
    visibility_timeout: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Time that a received message stays hidden.")
    ] = None,
    delay: Annotated[str | None, typer.Option(metavar="DURATION", help="Delay of new messages.")] = None,
    retention: Annotated[str | None, typer.Option(metavar="DURATION", help="Time that messages are kept.")] = None,
    max_receives: Annotated[
        int | None, typer.Option(metavar="N", help="Receives after which a message is a dead letter.")
    ] = None,
    dead_letter_queue: Annotated[
        str | None, typer.Option(metavar="QUEUE", help="Queue for dead letters; it must exist.")
    ] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=JSON", help="Another setting of docs/rest.md; repeat for several."),
    ] = None,
) -> None:
    """Create a queue. Does nothing if it exists with these settings."""
    durations = {"visibility_timeout": visibility_timeout, "delay": delay, "retention": retention}
    body: dict[str, Any] = {
        "name": name,
        "max_receives": max_receives,
        "dead_letter_queue": dead_letter_queue,
        **{key: None if value is None else seconds(value) for key, value in durations.items()},
    }
    body = {key: value for key, value in body.items() if value is not None}
    for given in setting or ():
        key, found, value = given.partition("=")
        if not found:
            raise Invalid(f"--set must be like NAME=JSON, not '{given}'")
        body[key] = as_json(value)
    out.record(server.post("/v1/queues", body, repeatable=True))


@app.command("list")
@on_server()
def list_queues(server: Server, out: Output) -> None:
    """List queues with their message counts."""
    out.rows(server.get("/v1/status")["queues"], COLUMNS, "There are no queues.")


@app.command("show")
@on_server()
def show(server: Server, out: Output, name: Name) -> None:
    """Show the counts and settings of a queue."""
    out.record(server.get(path(name)))


@app.command("send")
@on_server()
def send(
    server: Server,
    out: Output,
    name: Name,
    message: Annotated[str, typer.Argument(help="Message: JSON or text. - reads one message per line.")],
    delay: Annotated[str | None, typer.Option(metavar="DURATION", help="Time until it can be received.")] = None,
    priority: Annotated[
        int | None, typer.Option(metavar="N", help="0 to 1000; higher ones are received first.")
    ] = None,
    group_id: Annotated[str | None, typer.Option(metavar="TEXT", help="Group, for FIFO queues.")] = None,
    dedup_id: Annotated[str | None, typer.Option(metavar="TEXT", help="Deduplication id.")] = None,
    headers: Annotated[str | None, typer.Option(metavar="JSON", help="Headers, an object.")] = None,
    whole: Annotated[bool, typer.Option("--whole", help="With -: standard input is one message.")] = False,
) -> None:
    """Send a message, or one for each line of standard input. Exits with 3 if some were refused."""
    options: dict[str, Any] = {
        "delay": None if delay is None else seconds(delay),
        "priority": priority,
        "group_id": group_id,
        "dedup_id": dedup_id,
        "headers": None if headers is None else only_json(headers, "--headers"),
    }
    options = {key: value for key, value in options.items() if value is not None}
    if message != "-" or whole:
        sent = server.post(f"{path(name)}/messages", {"message": as_json(read_text(message)), **options})
        out.record(sent)
        return
    sent, complete = _send_lines(server, name, options)
    out.rows([{"id": number} for number in sent], ("id",), "Nothing was sent.")
    if not complete:
        raise typer.Exit(PARTIAL)


def _send_lines(server: Server, name: str, options: dict[str, Any]) -> tuple[list[int], bool]:
    """The ids of what was sent, and whether that is everything."""
    sent: list[int] = []
    complete, line = True, 0
    try:
        for batch in _batches(read_lines()):
            answer = server.post(f"{path(name)}/messages", [{"message": as_json(text), **options} for text in batch])
            for refused in answer.get("errors", ()):
                complete = False
                say(f"penstock: {refused['error']}: {batch[refused['index']][:80]}")
            sent += [number for number in answer["ids"] if number is not None]
            line += len(batch)
    except PenstockError as error:
        if not sent:
            raise
        say(f"penstock: not confirmed from message {line + 1} on: {error}")
        return sent, False
    return sent, complete


def _batches(lines: Any) -> Iterator[list[str]]:
    batch: list[str] = []
    for line in lines:
        if line.strip():
            batch.append(line.rstrip("\n"))
        if len(batch) == BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


@app.command("receive")
@on_server()
def receive(
    server: Server,
    out: Output,
    name: Name,
    limit: Max = 1,
    wait: Annotated[int, typer.Option(metavar="SECONDS", min=0, max=20, help="Time to wait for a message.")] = 0,
    visibility_timeout: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Time the messages stay hidden. Default: the queue's.")
    ] = None,
    delete: Annotated[bool, typer.Option("--delete", help="Delete the messages after they are printed.")] = False,
) -> None:
    """Receive messages. They are hidden, and come back unless they are deleted."""
    query = {"max": limit, "wait": wait, "vt": None if visibility_timeout is None else seconds(visibility_timeout)}
    found = server.ask("GET", f"{path(name)}/messages", query, repeatable=False, timeout_s=wait + 30.0)
    _print_messages(out, found, (*MESSAGE_COLUMNS[:-1], "receipt"))
    if delete and found:
        sys.stdout.flush()
        body = {"receipts": [message["receipt"] for message in found]}
        gone = server.ask("DELETE", f"{path(name)}/messages", body=body)["deleted"]
        if len(gone) < len(found):
            say(f"penstock: not deleted: {counted(len(found) - len(gone), 'message')}")
            raise typer.Exit(PARTIAL)


@app.command("peek")
@on_server()
def peek(server: Server, out: Output, name: Name, limit: Max = 10) -> None:
    """Show the next messages without receiving them."""
    _print_messages(out, server.get(f"{path(name)}/messages", peek=True, max=limit))


def _print_messages(out: Output, found: list[dict[str, Any]], columns: tuple[str, ...] = MESSAGE_COLUMNS) -> None:
    rows = found if out.as_json else [{"dead_letter_source": None, **message} for message in found]
    out.rows(rows, columns, "There are no messages.")


@app.command("purge")
@on_server()
def purge(server: Server, out: Output, name: Name, dry_run: DryRun = False) -> None:
    """Delete all messages of a queue."""
    if dry_run:
        out.record({"deleted": 0, "would_delete": server.get(path(name))["queue_length"]})
        return
    out.record(server.post(f"{path(name)}/purge"))


@app.command("drop")
@on_server()
def drop(server: Server, out: Output, name: Name, dry_run: DryRun = False) -> None:
    """Delete a queue with its messages."""
    found = server.get(path(name))
    if not dry_run:
        server.delete(path(name))
    done = "would be deleted" if dry_run else "is deleted"
    text = f"queue {name} {done}, with {counted(found['queue_length'], 'message')}"
    out.done(text, deleted=None if dry_run else name, messages=found["queue_length"])


@app.command("redrive")
@on_server()
def redrive(
    server: Server,
    out: Output,
    name: Name,
    ids: Annotated[list[int] | None, typer.Option("--id", metavar="ID", help="Only this message; repeatable.")] = None,
    match: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Only messages that contain this text, among the first 1000.")
    ] = None,
    to: Annotated[
        str | None, typer.Option(metavar="QUEUE", help="Target queue. Default: the queue that each message came from.")
    ] = None,
    rate: Annotated[int | None, typer.Option(metavar="N", min=1, help="Messages per second.")] = None,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until all messages are moved.")] = True,
    dry_run: DryRun = False,
) -> None:
    """Send dead letters back to the queues they came from.

    --dry-run prints the messages that would be moved.
    """
    if match is not None and ids:
        raise Invalid("--id and --match exclude each other")
    if dry_run or match is not None:
        found = server.get(f"{path(name)}/messages", peek=True, max=SEARCHED)
        chosen = [one for one in found if _chosen(one, ids, match)]
        if not ids and len(found) < (total := server.get(path(name))["visible"]):
            done = "these are" if match is None else "searched only"
            say(f"penstock: {done} the first {len(found)} of {total} messages")
        if dry_run:
            _print_messages(out, chosen)
            return
        ids = [one["id"] for one in chosen]
        if not ids:
            out.record({"moved": 0})
            return
    if ids:
        if rate is not None:
            raise Invalid("--rate is for redrives of all messages")
        answer = server.post(f"{path(name)}/redrive", {"ids": ids, **({"destination": to} if to else {})})
        out.record(answer)
        if answer["moved"] < len(set(ids)):
            say(f"penstock: absent, in flight or delayed, so left alone: {len(set(ids)) - answer['moved']}")
            raise typer.Exit(PARTIAL)
        return
    body = {key: value for key, value in {"destination": to, "rate": rate}.items() if value is not None}
    task = server.post(f"{path(name)}/redrive", body)
    out.record(_finished(server, name, task) if wait else task)


def _chosen(message: dict[str, Any], ids: list[int] | None, match: str | None) -> bool:
    if ids:
        return message["id"] in ids
    return match is None or match in json.dumps(message["message"], ensure_ascii=False)


def _finished(server: Server, name: str, task: dict[str, Any]) -> dict[str, Any]:
    """Wait for a task. Without a running server this process moves the messages."""
    while task["state"] == "running":
        server.work()
        found = [one for one in server.get(f"{path(name)}/redrive") if one["id"] == task["id"]]
        task = found[0] if found else task
        if task["state"] == "running":
            if sys.stderr.isatty():
                print(f"\r\x1b[Kmoved {task['moved']} of {task['to_move']}", end="", file=sys.stderr, flush=True)
            time.sleep(0.2)
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
    if task["state"] == "failed":
        raise PenstockError(f"the redrive failed after {counted(task['moved'], 'message')}: {task['failure']}")
    return task

"""`penstock topic`, `penstock subscription` and `penstock delivery`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from penstock.cli.options import DryRun, as_json, on_server, read_text
from penstock.cli.output import Output, say
from penstock.cli.remote import Server, segment
from penstock.errors import Conflict, Invalid

topics = typer.Typer(help="Topics: create, list, publish and drop.", no_args_is_help=True)
subscriptions = typer.Typer(help="Subscriptions to topics and to patterns of routing keys.", no_args_is_help=True)
deliveries = typer.Typer(help="Deliveries to webhooks: list, show and replay.", no_args_is_help=True)

TopicName = Annotated[str, typer.Argument(metavar="TOPIC", help="Name of the topic.")]
Number = Annotated[int, typer.Argument(metavar="ID", help="Id, as shown by list.")]
SUBSCRIPTION_COLUMNS = ("id", "topic", "pattern", "protocol", "endpoint", "confirmed")
DELIVERY_COLUMNS = ("id", "state", "endpoint", "attempts", "last_status", "last_error", "next_attempt_at")
PAGE = 100
PARTIAL = 3


@topics.command("create")
@on_server()
def create_topic(server: Server, out: Output, name: TopicName) -> None:
    """Create a topic. Does nothing if it exists."""
    out.record(server.post("/v1/topics", {"name": name}, repeatable=True))


@topics.command("list")
@on_server()
def list_topics(server: Server, out: Output) -> None:
    """List topics."""
    found: list[dict[str, Any]] = []
    while page := server.get("/v1/topics", after=found[-1]["name"] if found else None, limit=1000):
        found += page
    out.rows(found, ("name", "fifo", "created_at"), "There are no topics.")


@topics.command("publish")
@on_server()
def publish(
    server: Server,
    out: Output,
    name: Annotated[str, typer.Argument(metavar="TOPIC", help="Topic; with --event, a routing key.")],
    message: Annotated[str, typer.Argument(help="Message: JSON or text. - reads standard input.")],
    event: Annotated[bool, typer.Option("--event", help="Publish an event with a routing key.")] = False,
    group_id: Annotated[str | None, typer.Option(metavar="TEXT", help="Group, for FIFO topics.")] = None,
    dedup_id: Annotated[str | None, typer.Option(metavar="TEXT", help="Deduplication id, for FIFO topics.")] = None,
) -> None:
    """Publish a message to a topic, or an event."""
    options = {"group_id": group_id, "dedup_id": dedup_id}
    body = {"message": as_json(read_text(message)), **{name: value for name, value in options.items() if value}}
    path = f"/v1/events/{segment(name)}" if event else f"/v1/topics/{segment(name)}/messages"
    out.record(server.post(path, body))


@topics.command("drop")
@on_server()
def drop_topic(server: Server, out: Output, name: TopicName) -> None:
    """Delete a topic with its subscriptions."""
    server.delete(f"/v1/topics/{segment(name)}")
    out.done(f"topic {name} is deleted", deleted=name)


@subscriptions.command("create")
@on_server()
def subscribe(
    server: Server,
    out: Output,
    pattern: Annotated[str, typer.Argument(metavar="PATTERN", help="Pattern of routing keys, such as orders.#.")],
    queue: Annotated[str | None, typer.Option(metavar="QUEUE", help="Queue that receives the events.")] = None,
    stream: Annotated[str | None, typer.Option(metavar="STREAM", help="Stream that receives the events.")] = None,
    endpoint: Annotated[str | None, typer.Option(metavar="URL", help="Webhook that receives the events.")] = None,
) -> None:
    """Subscribe a queue, a stream or a webhook to events."""
    given = {"queue_name": queue, "stream": stream, "endpoint": endpoint}
    body = {name: value for name, value in given.items() if value is not None}
    if len(body) != 1:
        raise Invalid("give one of --queue, --stream and --endpoint")
    out.record(server.post(f"/v1/events/{segment(pattern)}/subscriptions", body, repeatable=True))


@subscriptions.command("list")
@on_server()
def list_subscriptions(
    server: Server,
    out: Output,
    topic: Annotated[str | None, typer.Option(metavar="TOPIC", help="Only those to this topic.")] = None,
    pattern: Annotated[str | None, typer.Option(metavar="PATTERN", help="Only those to this pattern.")] = None,
) -> None:
    """List subscriptions."""
    found: list[dict[str, Any]] = []
    while True:
        after = found[-1]["id"] if found else 0
        page = server.get("/v1/subscriptions", topic=topic, pattern=pattern, after=after, limit=PAGE)
        found += page
        if len(page) < PAGE:
            break
    out.rows(found, SUBSCRIPTION_COLUMNS, "There are no subscriptions.")


@subscriptions.command("drop")
@on_server()
def unsubscribe(server: Server, out: Output, number: Number) -> None:
    """End a subscription."""
    server.delete(f"/v1/subscriptions/{number}")
    out.done(f"subscription {number} is deleted", deleted=number)


State = Annotated[str | None, typer.Option(metavar="STATE", help="Only pending, sending, delivered or exhausted ones.")]


@deliveries.command("list")
@on_server()
def list_deliveries(
    server: Server,
    out: Output,
    state: State = None,
    subscription: Annotated[int | None, typer.Option(metavar="ID", help="Only those of this subscription.")] = None,
    limit: Annotated[int, typer.Option(metavar="N", min=1, max=1000, help="Maximum number, newest first.")] = 100,
) -> None:
    """List deliveries to webhooks, newest first."""
    found = server.get("/v1/deliveries", state=state, subscription=subscription, limit=limit)
    out.rows(found, DELIVERY_COLUMNS, "There are no deliveries.")


@deliveries.command("show")
@on_server()
def show_delivery(server: Server, out: Output, number: Number) -> None:
    """Show a delivery with its body."""
    out.record(server.get(f"/v1/deliveries/{number}"))


@deliveries.command("replay")
@on_server()
def replay(
    server: Server,
    out: Output,
    ids: Annotated[list[int] | None, typer.Argument(metavar="ID...", help="Ids of finished deliveries.")] = None,
    exhausted: Annotated[bool, typer.Option("--exhausted", help="All exhausted deliveries, up to 1000.")] = False,
    dry_run: DryRun = False,
) -> None:
    """Send finished deliveries again, with all their retries. Exits with 3 if some are not finished."""
    if bool(ids) == exhausted:
        raise Invalid("give the ids of deliveries, or --exhausted")
    if exhausted:
        found = server.get("/v1/deliveries", state="exhausted", limit=1000)
    else:
        found = [server.get(f"/v1/deliveries/{number}") for number in ids or ()]
    if dry_run:
        out.rows(found, DELIVERY_COLUMNS, "There are no such deliveries.")
        return
    done, refused = [], 0
    for one in found:
        try:
            done.append(server.post(f"/v1/deliveries/{one['id']}/replay"))
        except Conflict as error:
            refused += 1
            say(f"penstock: delivery {one['id']}: {error.message}")
    out.rows(done, DELIVERY_COLUMNS, "Nothing was replayed.")
    if refused:
        raise typer.Exit(PARTIAL)

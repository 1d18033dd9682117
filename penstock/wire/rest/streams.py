"""Native REST: streams, their consumers and their dead letters."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
from msgspec import UNSET, Raw

from penstock import limits
from penstock.engine import Engine
from penstock.engine.checks import check_range, check_text
from penstock.errors import Conflict, DeliveryNotFound, Invalid
from penstock.model import Scope
from penstock.model import streams as nouns
from penstock.wire.http.bodies import read_body, read_query
from penstock.wire.http.messages import NO_CONTENT, Request, Response
from penstock.wire.openapi import Operation
from penstock.wire.rest import stream_types as shapes
from penstock.wire.rest.types import Deleted, ListQuery, NoQuery, path_number

_new_stream = msgspec.json.Decoder(shapes.NewStream)
_changed_stream = msgspec.json.Decoder(shapes.ChangedStream)
_new_consumer = msgspec.json.Decoder(shapes.NewConsumer)
_new_event = msgspec.json.Decoder(shapes.NewEvent)
_new_events = msgspec.json.Decoder(list[shapes.NewEvent])
_nack = msgspec.json.Decoder(shapes.Nack)
_text = msgspec.json.Decoder(str)
_encode = msgspec.json.Encoder().encode

EVENTS_BODY = 16_777_216

_STREAMS = "/v1/streams"
_STREAM = "/v1/streams/{name}"
_CONSUMERS = "/v1/streams/{name}/consumers"
_CONSUMER = "/v1/streams/{name}/consumers/{consumer}"
_BATCH = "/v1/streams/{name}/consumers/{consumer}/batches/{batch_id}"
_DEAD = "/v1/streams/{name}/dead-letters"
_NO_BATCH = Response(200, _encode(shapes.Batch(batch_id=None, events=[])))


class StreamRoutes:
    def __init__(self, engine: Engine) -> None:
        self._streams = engine.streams
        self._clock = engine.clock

    def operations(self) -> list[Operation]:
        return [*self._of_streams(), *self._of_events(), *self._of_dead_letters()]

    def _of_streams(self) -> list[Operation]:
        tag, read, manage = "streams", Scope.READ, Scope.MANAGE
        return [
            Operation(
                method="POST", path=_STREAMS, handler=self.create, tag=tag, scope=manage, summary="Create a stream",
                body=shapes.NewStream, answers={201: shapes.Stream, 200: shapes.Stream},
            ),
            Operation(
                method="GET", path=_STREAMS, handler=self.list, tag=tag, scope=read, summary="List streams",
                query=ListQuery, answers={200: list[shapes.Stream]},
            ),
            Operation(
                method="GET", path=_STREAM, handler=self.stats, tag=tag, scope=read,
                summary="How a stream is doing, and its settings", answers={200: shapes.StreamStats},
            ),
            Operation(
                method="PATCH", path=_STREAM, handler=self.configure, tag=tag, scope=manage,
                summary="Change settings of a stream", body=shapes.ChangedStream, answers={200: shapes.Stream},
            ),
            Operation(
                method="DELETE", path=_STREAM, handler=self.drop, tag=tag, scope=manage,
                summary="Delete a stream with its events and consumers", answers={204: None},
            ),
            Operation(
                method="GET", path=f"{_STREAM}/health", handler=self.health, tag=tag, scope=read,
                summary="What needs attention", answers={200: list[shapes.Check]},
            ),
            Operation(
                method="POST", path=f"{_STREAM}/tick", handler=self.tick, tag=tag, scope=manage,
                summary="Make a tick now if there are events after the last one", answers={200: shapes.Ticked},
            ),
            Operation(
                method="GET", path=_CONSUMERS, handler=self.consumers, tag=tag, scope=read,
                summary="The consumers of a stream, and how far behind they are",
                answers={200: list[shapes.ConsumerStats]},
            ),
            Operation(
                method="POST", path=_CONSUMERS, handler=self.subscribe, tag=tag, scope=manage,
                summary="Register a consumer, from the newest events on", body=shapes.NewConsumer,
                answers={201: shapes.Consumer, 200: shapes.Consumer},
            ),
            Operation(
                method="DELETE", path=_CONSUMER, handler=self.unsubscribe, tag=tag, scope=manage,
                summary="Remove a consumer", answers={204: None},
            ),
        ]  # fmt: skip

    def _of_events(self) -> list[Operation]:
        tag, receive = "events", Scope.RECEIVE
        return [
            Operation(
                method="POST", path=f"{_STREAM}/events", handler=self.send, tag=tag, scope=Scope.SEND,
                summary="Send an event now or later, or up to 1000 in an array",
                body=(shapes.NewEvent, list[shapes.NewEvent]), body_bytes=EVENTS_BODY,
                answers={201: (shapes.SentEvent, shapes.SentEvents), 202: shapes.ScheduledEvent},
            ),
            Operation(
                method="GET", path=f"{_CONSUMER}/batch", handler=self.receive, tag=tag, scope=receive, safe=False,
                summary="The open batch, or the next one", query=shapes.BatchQuery, answers={200: shapes.Batch},
            ),
            Operation(
                method="POST", path=f"{_BATCH}/ack", handler=self.ack, tag=tag, scope=receive,
                summary="Acknowledge what was received of a batch", answers={204: None},
            ),
            Operation(
                method="POST", path=f"{_BATCH}/nack", handler=self.nack, tag=tag, scope=receive,
                summary="Have one event of a batch delivered again later", body=shapes.Nack, answers={204: None},
            ),
        ]  # fmt: skip

    def _of_dead_letters(self) -> list[Operation]:
        tag, manage = "events", Scope.MANAGE
        return [
            Operation(
                method="GET", path=_DEAD, handler=self.dead_letters, tag=tag, scope=Scope.READ,
                summary="Events that were tried too often, newest first", query=shapes.DeadQuery,
                answers={200: list[shapes.DeadLetter]},
            ),
            Operation(
                method="POST", path=f"{_DEAD}/replay", handler=self.replay_all, tag=tag, scope=manage,
                summary="Send all dead letters again", answers={200: shapes.Replayed},
            ),
            Operation(
                method="POST", path=f"{_DEAD}/{{id}}/replay", handler=self.replay, tag=tag, scope=manage,
                summary="Send a dead letter again", answers={200: shapes.Replayed},
            ),
            Operation(
                method="DELETE", path=_DEAD, handler=self.purge, tag=tag, scope=manage,
                summary="Delete dead letters", query=shapes.PurgeQuery, answers={200: Deleted},
            ),
        ]  # fmt: skip

    # Streams

    async def create(self, request: Request) -> Response:
        body = read_body(_new_stream, request.body)
        request.principal.require(Scope.MANAGE, body.name)
        stream, created = await self._streams.create(request.principal.tenant, body.name, _given(body))
        return Response(201 if created else 200, _encode(_stream(stream)))

    async def list(self, request: Request) -> Response:
        request.principal.require(Scope.READ)
        query = read_query(ListQuery, request.query)
        check_text("prefix", query.prefix)
        check_text("after", query.after)
        found = await self._streams.list(
            request.principal.tenant, prefix=query.prefix, after=query.after, limit=query.limit
        )
        return Response(200, _encode([_stream(stream) for stream in found if request.principal.reaches(stream.name)]))

    async def stats(self, request: Request) -> Response:
        name, tenant = _name(request, Scope.READ), request.principal.tenant
        stream = await self._streams.get(tenant, name)
        return Response(200, _encode(_stats(stream, await self._streams.stats(tenant, name))))

    async def configure(self, request: Request) -> Response:
        name = _name(request, Scope.MANAGE)
        given = _given(read_body(_changed_stream, request.body))
        return Response(200, _encode(_stream(await self._streams.configure(request.principal.tenant, name, given))))

    async def drop(self, request: Request) -> Response:
        await self._streams.drop(request.principal.tenant, _name(request, Scope.MANAGE))
        return NO_CONTENT

    async def health(self, request: Request) -> Response:
        found = await self._streams.health(request.principal.tenant, _name(request, Scope.READ))
        return Response(200, _encode([shapes.Check(check=c.check, status=c.status, detail=c.detail) for c in found]))

    async def consumers(self, request: Request) -> Response:
        found = await self._streams.consumers(request.principal.tenant, _name(request, Scope.READ))
        return Response(200, _encode([_consumer(consumer) for consumer in found]))

    async def subscribe(self, request: Request) -> Response:
        name = _name(request, Scope.MANAGE)
        consumer = read_body(_new_consumer, request.body).name
        created = await self._streams.subscribe(request.principal.tenant, name, consumer)
        return Response(201 if created else 200, _encode(shapes.Consumer(name=consumer)))

    async def unsubscribe(self, request: Request) -> Response:
        name = _name(request, Scope.MANAGE)
        await self._streams.unsubscribe(request.principal.tenant, name, request.arguments[1])
        return NO_CONTENT

    # Events

    async def send(self, request: Request) -> Response:
        name, tenant, body = _name(request, Scope.SEND), request.principal.tenant, request.body
        if body.lstrip()[:1] == b"[":
            many = read_body(_new_events, body)
            check_range("body", len(many), limits.BATCH_ENTRIES)
            if any(each.at is not None or each.delay is not None for each in many):
                raise Invalid("at and delay are for one event, not for an array", field="at")
            ids = await self._streams.send(tenant, name, [_new(each) for each in many])
            return Response(201, _encode(shapes.SentEvents(list(ids))))
        new = read_body(_new_event, body)
        if new.at is not None and new.delay is not None:
            raise Invalid("give either at or delay", field="at")
        at = new.at if new.delay is None else self._clock.now() + timedelta(seconds=new.delay)
        if at is not None:
            number = await self._streams.send_at(tenant, name, _new(new), at)
            return Response(202, _encode(shapes.ScheduledEvent(number)))
        [number] = await self._streams.send(tenant, name, [_new(new)])
        return Response(201, _encode(shapes.SentEvent(number)))

    async def receive(self, request: Request) -> Response:
        name, consumer = request.arguments
        request.principal.require(Scope.RECEIVE, name)
        query = read_query(shapes.BatchQuery, request.query)
        if query.wait:
            request.wait_s = query.wait
            request.if_stopped = _NO_BATCH
        batch = await self._streams.receive(request.principal.tenant, name, consumer, query.max, query.wait)
        if batch is None:
            return _NO_BATCH
        return Response(200, _encode(shapes.Batch(batch_id=batch.id, events=[_event(event) for event in batch.events])))

    async def ack(self, request: Request) -> Response:
        name, consumer, batch = _batch(request)
        if not await self._streams.ack(request.principal.tenant, name, consumer, batch):
            raise _not_open()
        return NO_CONTENT

    async def nack(self, request: Request) -> Response:
        name, consumer, batch = _batch(request)
        body = read_body(_nack, request.body)
        tenant = request.principal.tenant
        if not await self._streams.nack(tenant, name, consumer, batch, body.id, body.retry_after, body.reason):
            raise _not_open()
        return NO_CONTENT

    # Dead letters

    async def dead_letters(self, request: Request) -> Response:
        name = request.arguments[0]
        request.principal.require(Scope.READ, name)
        query = read_query(shapes.DeadQuery, request.query)
        found = await self._streams.dead_letters(request.principal.tenant, name, query.limit)
        return Response(200, _encode([_dead_letter(letter) for letter in found]))

    async def tick(self, request: Request) -> Response:
        ticked = await self._streams.tick_now(request.principal.tenant, _name(request, Scope.MANAGE))
        return Response(200, _encode(shapes.Ticked(ticked)))

    async def replay_all(self, request: Request) -> Response:
        sent = await self._streams.replay(request.principal.tenant, _name(request, Scope.MANAGE))
        return Response(200, _encode(shapes.Replayed(sent)))

    async def replay(self, request: Request) -> Response:
        name = _name(request, Scope.MANAGE)
        sent = await self._streams.replay(request.principal.tenant, name, path_number(request.arguments[1], "id"))
        if not sent:
            raise DeliveryNotFound("there is no such dead letter", field="id")
        return Response(200, _encode(shapes.Replayed(sent)))

    async def purge(self, request: Request) -> Response:
        name = request.arguments[0]
        request.principal.require(Scope.MANAGE, name)
        query = read_query(shapes.PurgeQuery, request.query)
        gone = await self._streams.purge_dead_letters(request.principal.tenant, name, query.older_than)
        return Response(200, _encode(Deleted(gone)))


def _name(request: Request, scope: Scope) -> str:
    if request.query:
        read_query(NoQuery, request.query)
    name = request.arguments[0]
    request.principal.require(scope, name)
    return name


def _batch(request: Request) -> tuple[str, str, int]:
    name = _name(request, Scope.RECEIVE)
    return name, request.arguments[1], path_number(request.arguments[2], "batch_id")


def _not_open() -> Conflict:
    return Conflict("this consumer has no such batch open", field="batch_id")


def _given(body: shapes.StreamOptions) -> dict[str, Any]:
    fields = shapes.StreamOptions.__struct_fields__
    return {name: value for name in fields if (value := getattr(body, name)) is not UNSET}


def _new(new: shapes.NewEvent) -> nouns.NewEvent:
    raw = bytes(new.payload)
    try:
        payload = _text.decode(raw) if raw[:1] == b'"' else raw.decode()
    except (UnicodeDecodeError, msgspec.DecodeError):
        raise Invalid("payload is not valid UTF-8", field="payload") from None
    return nouns.NewEvent(type=new.type, payload=payload, extras=(new.extra1, new.extra2, new.extra3, new.extra4))


def _settings(settings: nouns.StreamSettings) -> shapes.StreamSettings:
    return shapes.StreamSettings(
        ticker_max_count=settings.ticker_max_count,
        ticker_max_lag=settings.ticker_max_lag_s,
        ticker_idle_period=settings.ticker_idle_period_s,
        rotation_period=settings.rotation_period_s,
        max_retries=settings.max_retries,
        event_ttl=settings.event_ttl_s,
        paused=settings.paused,
    )


def _stream(stream: nouns.Stream) -> shapes.Stream:
    return shapes.Stream(name=stream.name, settings=_settings(stream.settings))


def _stats(stream: nouns.Stream, stats: nouns.StreamStats) -> shapes.StreamStats:
    return shapes.StreamStats(
        name=stream.name,
        depth=stats.depth,
        oldest_age=stats.oldest_age_s,
        consumers=stats.consumers,
        events_per_second=stats.events_per_s,
        last_tick_id=stats.last_tick_id,
        last_tick_at=stats.last_tick_at,
        dead_letters=stats.dead_letters,
        settings=_settings(stream.settings),
    )


def _consumer(consumer: nouns.ConsumerStats) -> shapes.ConsumerStats:
    return shapes.ConsumerStats(
        name=consumer.name,
        lag=consumer.lag_s,
        pending=consumer.pending,
        last_seen_at=consumer.last_seen_at,
        batch_id=consumer.batch_id,
    )


def _event(event: nouns.Event) -> shapes.Event:
    extras = {f"extra{place}": text for place, text in enumerate(event.extras, start=1) if text is not None}
    return shapes.Event(
        id=event.id,
        type=event.type,
        payload=_json(event.payload),
        retries=event.retries,
        created_at=event.created_at,
        **extras,
    )


def _json(payload: str | None) -> Raw | str | None:
    """A payload that is JSON is shown as such: SQL users send texts, and there is no mark on what they mean."""
    if payload is None:
        return None
    try:
        value = msgspec.json.decode(payload)
    except (msgspec.DecodeError, RecursionError):
        return payload
    # A text stays a text, also one that looks like the JSON of one.
    return payload if isinstance(value, str) else Raw(payload.encode())


def _dead_letter(letter: nouns.DeadEvent) -> shapes.DeadLetter:
    return shapes.DeadLetter(
        id=letter.id,
        consumer=letter.consumer,
        reason=letter.reason,
        died_at=letter.died_at,
        event=_event(letter.event),
    )

"""Topics, subscriptions and deliveries: rows of PostgreSQL as nouns of the model, and a fan-out as columns."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from penstock.errors import PenstockError
from penstock.model.stream_names import queue_of
from penstock.model.tenants import TenantId
from penstock.model.topics import (
    STALE,
    Delivery,
    DeliveryState,
    Fanout,
    Outgoing,
    Publish,
    Published,
    Stale,
    Subscription,
    Topic,
)
from penstock.store.postgres.rows import Row

STATES = (DeliveryState.PENDING, DeliveryState.SENDING, DeliveryState.DELIVERED, DeliveryState.EXHAUSTED)
"""By the numbers they are kept as."""


def topic(row: Row) -> Topic:
    return Topic(
        id=row["id"],
        tenant=TenantId(row["tenant_id"]),
        name=row["name"],
        fifo=row["fifo"],
        attributes=json.loads(row["attributes"]),
        tags=json.loads(row["tags"]),
        created_at=row["created_at"],
    )


def subscription(row: Row) -> Subscription:
    return Subscription(
        id=row["id"],
        key=str(row["key"]),
        tenant=TenantId(row["tenant_id"]),
        topic=row["topic"],
        pattern=row["pattern"],
        protocol=row["protocol"],
        endpoint=row["endpoint"],
        target=row["target"],
        attributes=json.loads(row["attributes"]),
        confirmed=row["confirmed"],
        owner=row["owner"],
        secret=row["secret"],
        created_at=row["created_at"],
    )


def delivery(row: Row) -> Delivery:
    delays = row["delays"]
    return Delivery(
        id=row["id"],
        tenant=TenantId(row["tenant_id"]),
        subscription_id=row["subscription_id"],
        subscription_key=row["subscription_key"],
        topic=row["topic"],
        routing_key=row["routing_key"],
        message_id=row["message_id"],
        endpoint=row["endpoint"],
        lane=row["lane"],
        body=row["body"],
        headers=row["headers"],
        secret=row["secret"],
        delays=None if delays is None else tuple(delays),
        dead_letter_queue=row["dead_letter_queue"],
        confirms=row["confirms"],
        state=STATES[row["state"]],
        lease=row["lease"],
        attempts=row["attempts"],
        created_at=row["created_at"],
        due_at=row["due_at"],
        finished_at=row["finished_at"],
        last_status=row["last_status"],
        last_error=row["last_error"],
    )


def outgoing(row: Row) -> Outgoing:
    return Outgoing(
        id=row["id"],
        publish=Publish(
            tenant=TenantId(row["tenant_id"]),
            topic=row["topic"],
            routing_key=row["routing_key"],
            body=row["body"],
            json=row["is_json"],
            subject=row["subject"],
            attributes=row["attributes"],
            headers=row["headers"],
            delay_s=row["delay_s"],
            group_id=row["group_id"],
            dedup_id=row["dedup_id"],
            id=row["message_id"],
            only=frozenset(row["subscription_ids"]),
            outbox_id=row["id"],
            sequence=row["sequence"],
        ),
    )


class _Bodies:
    """Each body once: a hundred subscribers of one publish mostly get the same."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number(self, body: str) -> int:
        return self._numbers.setdefault(body, len(self._numbers) + 1)

    def column(self) -> list[str]:
        return list(self._numbers)


def fanout_columns(fanouts: Sequence[Fanout]) -> list[Any]:
    """The arguments of publish_many, in its order."""
    bodies = _Bodies()
    sends = [(of, entry) for of, fanout in enumerate(fanouts, 1) for entry in fanout.queues]
    streams = [(of, entry) for of, fanout in enumerate(fanouts, 1) for entry in fanout.streams]
    webhooks = [(of, entry) for of, fanout in enumerate(fanouts, 1) for entry in fanout.webhooks]
    send_bodies = [bodies.number(entry.send.body) for _, entry in sends]
    stream_bodies = [bodies.number(entry.body) for _, entry in streams]
    web_bodies = [bodies.number(entry.body) for _, entry in webhooks]
    return [
        [fanout.tenant for fanout in fanouts],
        [fanout.id for fanout in fanouts],
        [fanout.topic_id for fanout in fanouts],
        [fanout.topic for fanout in fanouts],
        [fanout.routing_key for fanout in fanouts],
        [fanout.version for fanout in fanouts],
        _column([fanout.group_id for fanout in fanouts]),
        _column([fanout.dedup_id for fanout in fanouts]),
        [fanout.dedup_scope for fanout in fanouts],
        _column([fanout.sequence_mark for fanout in fanouts]),
        _column([fanout.outbox_id for fanout in fanouts]),
        bodies.column(),
        [of for of, _ in sends] or None,
        [entry.send.queue for _, entry in sends],
        send_bodies,
        _column([entry.send.json or None for _, entry in sends]),
        _column([entry.send.delay_s for _, entry in sends]),
        _column([entry.send.group_id for _, entry in sends]),
        _column([entry.send.dedup_id for _, entry in sends]),
        _column([entry.send.attributes for _, entry in sends]),
        _column([entry.send.headers for _, entry in sends]),
        _column([entry.send.trace for _, entry in sends]),
        _column([entry.send.size for _, entry in sends]),
        _column([entry.dead_letter_queue for _, entry in sends]),
        [of for of, _ in streams] or None,
        [queue_of(fanouts[of - 1].tenant, entry.stream) for of, entry in streams],
        [entry.kind for _, entry in streams],
        stream_bodies,
        [of for of, _ in webhooks] or None,
        [entry.subscription_id for _, entry in webhooks],
        [entry.subscription_key for _, entry in webhooks],
        [entry.endpoint for _, entry in webhooks],
        [entry.lane for _, entry in webhooks],
        web_bodies,
        [entry.headers for _, entry in webhooks],
        [entry.secret for _, entry in webhooks],
        [_numbers(entry.delays) for _, entry in webhooks],
        [entry.dead_letter_queue for _, entry in webhooks],
        [entry.confirms for _, entry in webhooks],
    ]


def published(fanouts: Sequence[Fanout], row: Row) -> list[Published | Stale | PenstockError]:
    sent: list[list[tuple[str, int]]] = [[] for _ in fanouts]
    queues = [(of, entry.send.queue) for of, fanout in enumerate(fanouts) for entry in fanout.queues]
    for position, message_id in zip(row["positions"] or (), row["sent_ids"] or (), strict=True):
        if message_id is not None:
            of, queue = queues[position - 1]
            sent[of].append((queue, message_id))
    answers: list[Published | Stale | PenstockError] = []
    for of, fanout in enumerate(fanouts):
        status = row["statuses"][of]
        duplicate = bool(row["duplicates"][of]) if row["duplicates"] is not None else False
        done = status is None and not duplicate
        answers.append(
            STALE
            if status == "stale"
            else Published(
                id=row["message_ids"][of],
                sequence=row["sequences"][of] if row["sequences"] is not None else None,
                duplicate=duplicate,
                sent=tuple(sent[of]),
                deliveries=len(fanout.webhooks) if done else 0,
            )
        )
    return answers


def _column(values: list[Any]) -> list[Any] | None:
    """An array that holds nothing is not worth sending."""
    return values if any(value is not None for value in values) else None


def _numbers(delays: tuple[float, ...] | None) -> str | None:
    """An array as PostgreSQL writes one: arrays of arrays must all have the same length there."""
    return None if delays is None else "{" + ",".join(map(str, delays)) + "}"

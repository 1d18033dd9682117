"""Topics, subscriptions and deliveries: rows of PostgreSQL as objects of the model, and fan-outs as rows."""

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
    NewDelivery,
    Outgoing,
    Publish,
    Published,
    QueueDelivery,
    Stale,
    Subscription,
    Topic,
)
from penstock.store.postgres.queues.rows import Row

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
        target_tenant=row["target_tenant_id"],
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
        endpoint_key=row["lane"],
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
            pending_id=row["id"],
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


def publish_arguments(fanouts: Sequence[Fanout]) -> list[Any]:
    """The arguments of publish_many but the last: rows of its types, as tuples."""
    bodies = _Bodies()
    numbered = list(enumerate(fanouts, 1))
    publishes = [_publish(fanout) for fanout in fanouts]
    messages = [_message(of, entry, bodies) for of, fanout in numbered for entry in fanout.queues]
    events = [
        (of, queue_of(fanout.tenant, entry.stream), entry.kind, bodies.number(entry.body))
        for of, fanout in numbered
        for entry in fanout.streams
    ]
    deliveries = [_new_delivery(of, entry, bodies) for of, fanout in numbered for entry in fanout.webhooks]
    items = [
        (of, entry.channel.value, entry.address, entry.subject, bodies.number(entry.body), entry.attributes)
        for of, fanout in numbered
        for entry in fanout.items
    ]
    return [publishes, bodies.column(), messages, events, deliveries, items]


def event_traces(fanouts: Sequence[Fanout]) -> list[str | None] | None:
    """In the order of the events; None when none has a trace."""
    traces = [entry.trace for fanout in fanouts for entry in fanout.streams]
    return traces if any(traces) else None


def _publish(fanout: Fanout) -> tuple[Any, ...]:
    """A row of penstock.new_publish."""
    return (
        fanout.tenant, fanout.id, fanout.topic_id, fanout.topic, fanout.routing_key, fanout.version, fanout.group_id,
        fanout.dedup_id, fanout.dedup_scope, fanout.sequence_mark, fanout.pending_id,
    )  # fmt: skip


def _message(of: int, entry: QueueDelivery, bodies: _Bodies) -> tuple[Any, ...]:
    """A row of penstock.published_message."""
    send = entry.send
    return (
        of, send.tenant, send.queue, bodies.number(send.body), send.json, send.delay_s, send.group_id, send.dedup_id,
        send.attributes, send.headers, send.trace, send.size, entry.dead_letter_queue,
    )  # fmt: skip


def _new_delivery(of: int, entry: NewDelivery, bodies: _Bodies) -> tuple[Any, ...]:
    """A row of penstock.published_delivery."""
    return (
        of, entry.subscription_id, entry.subscription_key, entry.endpoint, entry.endpoint_key,
        bodies.number(entry.body), entry.headers, entry.secret, entry.delays, entry.dead_letter_queue, entry.confirms,
    )  # fmt: skip


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

"""Publishing: a publish and everything its subscribers are given, in one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from penstock.errors import PenstockError
from penstock.model import Send, Sent
from penstock.model.topics import STALE, Fanout, NewDelivery, Published, Stale, sequence_text
from penstock.store.sqlite.moments import SECOND
from penstock.store.sqlite.queues import messages
from penstock.store.sqlite.session import Session
from penstock.store.sqlite.topics.outbox import add_item

DEDUP_WINDOW = 300 * SECOND


def publish_many(session: Session, fanouts: Sequence[Fanout], now: int) -> list[Published | Stale | PenstockError]:
    return [_publish(session, fanout, now) for fanout in fanouts]


def _publish(session: Session, fanout: Fanout, now: int) -> Published | Stale:
    if fanout.version is not None:
        current = session.first("routes_version", tenant=fanout.tenant)
        if fanout.version != (0 if current is None else current["version"]):
            return STALE
    sequence = None
    if fanout.dedup_id is not None:
        earlier = session.first(
            "find_topic_dedup", topic=fanout.topic_id, dedup_id=fanout.dedup_id, scope=fanout.dedup_scope, now=now
        )
        if earlier is not None:
            return Published(id=earlier["message_id"], sequence=earlier["sequence"], duplicate=True)
        sequence = _number(session, fanout, now)
    sent = _send(session, fanout, sequence, now)
    for delivery in fanout.webhooks:
        _deliver(session, fanout, delivery, now)
    for item in fanout.items:
        add_item(session, item, now)
    return Published(id=fanout.id, sequence=sequence, sent=tuple(sent), deliveries=len(fanout.webhooks))


def _number(session: Session, fanout: Fanout, now: int) -> int:
    sequence: int = session.value("next_publication")
    session.run(
        "insert_topic_dedup",
        topic=fanout.topic_id,
        dedup_id=fanout.dedup_id,
        scope=fanout.dedup_scope,
        message_id=fanout.id,
        sequence=sequence,
        expires_at=now + DEDUP_WINDOW,
    )
    return sequence


def _send(session: Session, fanout: Fanout, sequence: int | None, now: int) -> list[tuple[str, int]]:
    """To the queues that can take it, and to dead-letter queues for those that cannot; what was sent."""
    entries = [_numbered(entry.send, fanout.sequence_mark, sequence) for entry in fanout.queues]
    if not entries:
        return []
    sent: list[tuple[str, int]] = []
    dead: list[Send] = []
    answers = messages.send_many(session, entries, now)
    for entry, send, answer in zip(fanout.queues, entries, answers, strict=True):
        if isinstance(answer, Sent):
            sent.append((send.queue, answer.id))
        elif entry.dead_letter_queue is not None:
            # The dead-letter queue of a subscription lies in the region of its topic.
            dead.append(replace(send, tenant=fanout.tenant, queue=entry.dead_letter_queue, delay_s=None))
    if dead:
        messages.send_many(session, dead, now)
    return sent


def _numbered(send: Send, mark: str | None, sequence: int | None) -> Send:
    if mark is None or sequence is None:
        return send
    return replace(send, body=send.body.replace(mark, sequence_text(sequence)))


def _deliver(session: Session, fanout: Fanout, delivery: NewDelivery, now: int) -> None:
    session.run(
        "insert_delivery",
        tenant=fanout.tenant,
        lane=delivery.endpoint_key,
        now=now,
        subscription=delivery.subscription_id,
        confirms=delivery.confirms,
        key=delivery.subscription_key,
        message_id=fanout.id,
        topic=fanout.topic,
        routing_key=fanout.routing_key,
        endpoint=delivery.endpoint,
        secret=delivery.secret,
        delays=None if delivery.delays is None else " ".join(map(str, delivery.delays)),
        dead_letter_queue=delivery.dead_letter_queue,
        headers=delivery.headers,
        body=delivery.body,
    )

"""Webhook deliveries: claimed under a lease, finished or tried again, replayed, forgotten."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence

from penstock.errors import Conflict, DeliveryNotFound
from penstock.model import Send
from penstock.model.tenants import TenantId
from penstock.model.topics import Attempted, Delivery, DeliveryState
from penstock.store.sqlite.moments import SECOND, maybe_micros, maybe_moment, moment
from penstock.store.sqlite.queues import messages
from penstock.store.sqlite.session import Session

FIRST = -(2**63)
_LATEST = 2**63 - 1
_STEPS = 1000
_REMEMBER_REMOVALS = 3600 * SECOND
_STATES = (DeliveryState.PENDING, DeliveryState.SENDING, DeliveryState.DELIVERED, DeliveryState.EXHAUSTED)


def claim(
    session: Session, now: int, limit: int, each: int, busy: Mapping[int, int], after: int, lease_s: float
) -> list[Delivery]:
    """From lane to lane, a few of each, beginning behind `after` and going round."""
    claimed: list[Delivery] = []
    lane, second_round = after, False
    for _ in range(_STEPS):
        if len(claimed) >= limit:
            break
        row = session.first("next_lane", after=lane)
        if row is None and not second_round:
            lane, second_round = FIRST, True
            continue
        if row is None or (second_round and row["lane"] > after):
            break
        lane = row["lane"]
        room = min(each - busy.get(lane, 0), limit - len(claimed))
        if row["due_at"] <= now and room > 0:
            until = now + int(lease_s * SECOND)
            rows = session.all("claim_lane", lane=lane, now=now, until=until, limit=room)
            claimed += [delivery_of(found) for found in rows]
    return claimed


def finish(session: Session, attempts: Sequence[Attempted], now: int) -> list[bool]:
    done: list[bool] = []
    for attempt in attempts:
        final = attempt.delivered or attempt.retry_at is None
        row = session.first(
            "finish_delivery",
            id=attempt.id,
            lease=attempt.lease,
            state=2 if attempt.delivered else 3 if final else 0,
            retry_at=maybe_micros(attempt.retry_at),
            finished_at=now if final else None,
            status=attempt.status,
            error=attempt.error,
        )
        done.append(row is not None)
        if row is not None and row["state"] == 3 and row["dead_letter_queue"] is not None:
            dead = Send(tenant=TenantId(row["tenant_id"]), queue=row["dead_letter_queue"], body=row["body"])
            messages.send_many(session, [dead], now)
    return done


def get(session: Session, tenant: TenantId, delivery_id: int) -> Delivery:
    row = session.first("get_delivery", tenant=tenant, id=delivery_id)
    if row is None:
        raise DeliveryNotFound()
    return delivery_of(row)


def list_deliveries(
    session: Session,
    tenant: TenantId,
    state: DeliveryState | None,
    subscription_id: int | None,
    before: int | None,
    limit: int,
) -> list[Delivery]:
    rows = session.all(
        "list_deliveries",
        tenant=tenant,
        before=before or _LATEST,
        state=None if state is None else _STATES.index(state),
        subscription=subscription_id,
        limit=limit,
    )
    return [delivery_of(row) for row in rows]


def replay(session: Session, tenant: TenantId, delivery_id: int, now: int) -> Delivery:
    if get(session, tenant, delivery_id).finished_at is None:
        raise Conflict("The delivery is still in progress.")
    session.run("replay_delivery", id=delivery_id, now=now)
    return get(session, tenant, delivery_id)


def sweep(session: Session, now: int, delivered_before: int, exhausted_before: int, limit: int) -> int:
    removed = session.run("delete_delivered", before=delivered_before, limit=limit).rowcount
    removed += session.run("delete_exhausted", before=exhausted_before, limit=limit).rowcount
    session.run("delete_expired_topic_dedups", now=now)
    for row in session.all("old_removals", before=now - _REMEMBER_REMOVALS):
        session.run("forget_removals", tenant=row["tenant_id"], version=row["version"])
        session.run("delete_removals", tenant=row["tenant_id"], version=row["version"])
    return removed


def delivery_of(row: sqlite3.Row) -> Delivery:
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
        delays=None if delays is None else tuple(map(float, delays.split())),
        dead_letter_queue=row["dead_letter_queue"],
        confirms=bool(row["confirms"]),
        state=_STATES[row["state"]],
        lease=row["lease"],
        attempts=row["attempts"],
        created_at=moment(row["created_at"]),
        due_at=moment(row["due_at"]),
        finished_at=maybe_moment(row["finished_at"]),
        last_status=row["last_status"],
        last_error=row["last_error"],
    )

"""Queues: made, changed, emptied, dropped, counted."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from penstock.errors import Invalid, NotFound, QueueNotFound
from penstock.model import DedupScope, Queue, QueueCounts, QueueSettings, TenantId, ThroughputLimit
from penstock.store.sqlite.moments import maybe_moment, moment
from penstock.store.sqlite.session import Session

_SETTINGS = frozenset(field.name for field in fields(QueueSettings))


def set_default_visibility_timeout(session: Session, seconds: int) -> None:
    """Let a default that has changed apply to the queues that never set their own."""
    session.run("set_default_visibility_timeout", visibility_timeout_s=seconds)


def create_queue(
    session: Session,
    tenant: TenantId,
    name: str,
    settings: QueueSettings,
    now: int,
    *,
    visibility_timeout_s: int,
    implicit: bool = False,
) -> tuple[Queue, bool]:
    """`visibility_timeout_s` is the server's default."""
    existing = session.first("get_queue", tenant=tenant, name=name)
    if existing is not None:
        return _queue(existing), False
    own = settings.visibility_timeout_s is not None
    if not own:
        settings = replace(settings, visibility_timeout_s=visibility_timeout_s)
    columns = _columns(session, tenant, settings) | {"own_visibility_timeout": own}
    fifo = name.endswith(".fifo")
    bin_id = session.value("insert_bin", fifo=fifo, sent=0)
    try:
        values = columns | {"fifo": fifo, "bin_id": bin_id, "implicit": implicit, "now": now}
        queue_id = session.value("insert_queue", tenant=tenant, name=name, **values)
    except sqlite3.IntegrityError as error:
        raise NotFound(f"Tenant {tenant} does not exist") from error
    if implicit:
        session.run("insert_sequence", queue_id=queue_id)
    return get_queue(session, tenant, name), True


def get_queue(session: Session, tenant: TenantId, name: str) -> Queue:
    row = session.first("get_queue", tenant=tenant, name=name)
    if row is None:
        raise QueueNotFound(name)
    return _queue(row)


def list_queues(session: Session, tenant: TenantId, prefix: str, after: str, limit: int) -> list[Queue]:
    return [_queue(row) for row in session.all("list_queues", tenant=tenant, prefix=prefix, after=after, limit=limit)]


def update_queue(session: Session, tenant: TenantId, name: str, changes: Mapping[str, Any], now: int) -> Queue:
    """A change of `lifo` orders what is sent from now on; what is there keeps its place."""
    for field in changes:
        if field not in _SETTINGS:
            raise Invalid(f"A queue has no setting '{field}'", field=field)
    settings = replace(get_queue(session, tenant, name).settings, **changes)
    columns = _columns(session, tenant, settings) | {"own_visibility_timeout": "visibility_timeout_s" in changes}
    session.run("update_queue", tenant=tenant, name=name, now=now, **columns)
    return get_queue(session, tenant, name)


def drop_queue(session: Session, tenant: TenantId, name: str) -> bool:
    try:
        queue = session.queue(tenant, name)
    except QueueNotFound:
        return False
    session.run("orphan_bin", bin_id=queue.bin_id)
    session.run("delete_queue", id=queue.id)
    return True


def purge_queue(session: Session, tenant: TenantId, name: str) -> int:
    queue = session.queue(tenant, name)
    sent = session.value("bin_sent", bin_id=queue.bin_id)
    fresh = session.value("insert_bin", fifo=queue.fifo, sent=sent)
    session.run("set_queue_bin", id=queue.id, bin_id=fresh)
    session.run("orphan_bin", bin_id=queue.bin_id)
    return queue.total


def queue_counts(
    session: Session, tenant: TenantId | None, names: Sequence[str] | None, now: int
) -> list[tuple[TenantId, QueueCounts]]:
    wanted = None if names is None else json.dumps(list(names))
    rows = session.all("queue_counts", tenant=tenant, names=wanted, now=now)
    return [(TenantId(row["tenant_id"]), _counts(row)) for row in rows]


def dead_letter_sources(session: Session, tenant: TenantId, name: str) -> list[str]:
    queue = session.queue(tenant, name)
    return [row["name"] for row in session.all("dead_letter_sources", id=queue.id)]


def _columns(session: Session, tenant: TenantId, settings: QueueSettings) -> dict[str, Any]:
    columns = {name: getattr(settings, name) for name in _SETTINGS - {"dead_letter_queue"}}
    dead_letters = settings.dead_letter_queue
    columns["dead_letter_queue_id"] = None if dead_letters is None else session.queue(tenant, dead_letters).id
    columns["tags"] = json.dumps(settings.tags)
    columns["labels"] = json.dumps(settings.labels)
    return columns


def _queue(row: sqlite3.Row) -> Queue:
    return Queue(
        id=row["id"],
        tenant=TenantId(row["tenant_id"]),
        name=row["name"],
        fifo=bool(row["fifo"]),
        settings=_settings(row),
        created_at=moment(row["created_at"]),
        updated_at=moment(row["updated_at"]),
        implicit=bool(row["implicit"]),
    )


def _settings(row: sqlite3.Row) -> QueueSettings:
    return QueueSettings(
        visibility_timeout_s=row["visibility_timeout_s"],
        delay_s=row["delay_s"],
        retention_s=row["retention_s"],
        receive_wait_s=row["receive_wait_s"],
        max_message_bytes=row["max_message_bytes"],
        max_length=row["max_length"],
        max_receives=row["max_receives"],
        dead_letter_queue=row["dead_letter_queue"],
        lifo=bool(row["lifo"]),
        archive=bool(row["archive"]),
        content_dedup=bool(row["content_dedup"]),
        dedup_window_s=row["dedup_window_s"],
        dedup_scope=DedupScope(row["dedup_scope"]),
        throughput_limit=ThroughputLimit(row["throughput_limit"]),
        tags=json.loads(row["tags"]),
        labels=json.loads(row["labels"]),
    )


def _counts(row: sqlite3.Row) -> QueueCounts:
    return QueueCounts(
        queue=row["name"],
        visible=row["total"] - row["in_flight"] - row["delayed"],
        in_flight=row["in_flight"],
        delayed=row["delayed"],
        sent=row["sent"],
        oldest_sent_at=maybe_moment(row["oldest"]),
        newest_sent_at=maybe_moment(row["newest"]),
    )

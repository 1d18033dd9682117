"""Rows of PostgreSQL as the nouns of the model, and its errors as ours."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from penstock.errors import BY_CODE, Invalid, PenstockError, QueueNotFound, TooLarge
from penstock.model import (
    DedupScope,
    Message,
    MoveState,
    MoveTask,
    Queue,
    QueueCounts,
    QueueSettings,
    Scope,
    Tenant,
    TenantId,
    ThroughputLimit,
    Token,
)

Row = Mapping[str, Any]

_SETTINGS = [field.name for field in fields(QueueSettings)]
_REQUIRED = {"group_id": "a FIFO queue", "dedup_id": "a FIFO queue without content_dedup"}


def message(row: Row, lease: int, dead_letter_source: str | None) -> Message:
    return Message(
        row["id"], lease, row["body"], row["is_json"], row["priority"], row["receives"], row["sent_at"],
        row["first_received_at"], row["visible_at"], row["group_id"], row["dedup_id"], row["attributes"],
        row["headers"], row["trace"], dead_letter_source, row["sequence"],
    )  # fmt: skip


def queue(row: Row) -> Queue:
    values = {name: row[name] for name in _SETTINGS}
    values["visibility_timeout_s"] = row["applied_visibility_timeout_s"]
    values["tags"] = json.loads(values["tags"])
    values["labels"] = json.loads(values["labels"])
    values["dedup_scope"] = DedupScope(values["dedup_scope"])
    values["throughput_limit"] = ThroughputLimit(values["throughput_limit"])
    return Queue(
        id=row["id"],
        tenant=TenantId(row["tenant_id"]),
        name=row["name"],
        fifo=row["fifo"],
        settings=QueueSettings(**values),
        created_at=row["created_at"],
        updated_at=row["updated_at"],
        implicit=row["implicit"],
    )


def counts(row: Row) -> tuple[TenantId, QueueCounts]:
    return TenantId(row["tenant_id"]), QueueCounts(
        queue=row["queue"],
        visible=row["visible"],
        in_flight=row["in_flight"],
        delayed=row["delayed"],
        sent=row["sent"],
        oldest_sent_at=row["oldest_sent_at"],
        newest_sent_at=row["newest_sent_at"],
    )


def move_task(row: Row) -> MoveTask:
    return MoveTask(
        id=row["id"],
        tenant=TenantId(row["tenant_id"]),
        source=row["source"],
        destination=row["destination"],
        rate=row["rate"],
        state=MoveState(row["state"]),
        moved=row["moved"],
        to_move=row["to_move"],
        failure=row["failure"],
        started_at=row["started_at"],
    )


def tenant(row: Row) -> Tenant:
    return Tenant(id=TenantId(row["id"]), name=row["name"], created_at=row["created_at"])


def token(row: Row) -> Token:
    return Token(
        id=row["id"],
        tenant=TenantId(row["tenant_id"]),
        tenant_name=row["tenant_name"],
        name=row["name"],
        prefix=row["prefix"],
        sha256=row["sha256"],
        scopes=frozenset(Scope(scope) for scope in row["scopes"]),
        queues=row["queues"],
        created_at=row["created_at"],
        expires_at=row["expires_at"],
        revoked_at=row["revoked_at"],
        last_seen_at=row["last_seen_at"],
        aws_secret=row["aws_secret"],
    )


def entry_error(code: str, queue_name: str) -> PenstockError:
    """The error an entry of a batch came back with, as `code` or `code:field`."""
    code, _, field = code.partition(":")
    kind = BY_CODE.get(code, PenstockError)
    if kind is QueueNotFound:
        return QueueNotFound(queue_name)
    if kind is Invalid and field in _REQUIRED:
        return Invalid(f"{field} is required on {_REQUIRED[field]}", field=field)
    if kind is TooLarge:
        return TooLarge(field=field)
    return kind(field=field or None)


def raised_error(code: str, message: str, field: str | None) -> PenstockError | None:
    """The error a function raised, or None when the code is none of ours."""
    kind = BY_CODE.get(code)
    if kind is None:
        return None
    error = kind.__new__(kind)
    PenstockError.__init__(error, message, field=field or None)
    return error

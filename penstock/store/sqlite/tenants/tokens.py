"""Tenants and their API tokens."""

from __future__ import annotations

import sqlite3
from datetime import datetime

from penstock.errors import NotFound, TokenNotFound
from penstock.model import Scope, Tenant, TenantId, Token
from penstock.store.sqlite.moments import maybe_micros, maybe_moment, micros, moment
from penstock.store.sqlite.session import Session


def create_tenant(session: Session, name: str, now: int) -> Tenant:
    session.run("insert_tenant", name=name, now=now)
    return next(_tenant(row) for row in session.all("get_tenant", name=name))


def list_tenants(session: Session) -> list[Tenant]:
    return [_tenant(row) for row in session.all("list_tenants")]


def add_token(
    session: Session,
    tenant: TenantId,
    name: str,
    prefix: str,
    sha256: bytes,
    scopes: frozenset[Scope],
    queues: str,
    now: datetime,
    expires_at: datetime | None,
    aws_secret: str | None,
) -> Token:
    try:
        token_id = session.value(
            "insert_token",
            tenant=tenant,
            name=name,
            prefix=prefix,
            sha256=sha256,
            scopes=" ".join(sorted(scopes)),
            queues=queues,
            now=micros(now),
            expires_at=maybe_micros(expires_at),
            aws_secret=aws_secret,
        )
    except sqlite3.IntegrityError as error:
        raise NotFound(f"Tenant {tenant} does not exist") from error
    return _get(session, token_id)


def find_tokens(session: Session, prefix: str) -> list[Token]:
    return [_token(row) for row in session.all("find_tokens", prefix=prefix)]


def list_tokens(session: Session, tenant: TenantId | None) -> list[Token]:
    return [_token(row) for row in session.all("list_tokens", tenant=tenant)]


def end_token(session: Session, token_id: int, at: int) -> Token:
    session.run("end_token", id=token_id, at=at)
    return _get(session, token_id)


def saw_token(session: Session, token_id: int, now: int) -> None:
    session.run("saw_token", id=token_id, now=now)


def _get(session: Session, token_id: int) -> Token:
    row = session.first("get_token", id=token_id)
    if row is None:
        raise TokenNotFound(f"Token {token_id} does not exist")
    return _token(row)


def _tenant(row: sqlite3.Row) -> Tenant:
    return Tenant(id=TenantId(row["id"]), name=row["name"], created_at=moment(row["created_at"]))


def _token(row: sqlite3.Row) -> Token:
    return Token(
        id=row["id"],
        tenant=TenantId(row["tenant_id"]),
        tenant_name=row["tenant_name"],
        name=row["name"],
        prefix=row["prefix"],
        sha256=row["sha256"],
        scopes=frozenset(Scope(scope) for scope in row["scopes"].split()),
        queues=row["queues"],
        created_at=moment(row["created_at"]),
        expires_at=maybe_moment(row["expires_at"]),
        revoked_at=maybe_moment(row["revoked_at"]),
        last_seen_at=maybe_moment(row["last_seen_at"]),
        aws_secret=row["aws_secret"],
    )

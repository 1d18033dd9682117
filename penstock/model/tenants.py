"""Tenants and their tokens."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import NewType

TenantId = NewType("TenantId", int)

DEFAULT_TENANT = TenantId(1)
"""The tenant of every caller when authentication is open, and of SQL users who name no other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    id: TenantId
    name: str
    created_at: datetime


class Scope(StrEnum):
    """What a token may do. `admin` includes all others within its tenant."""

    READ = "read"
    SEND = "send"
    RECEIVE = "receive"
    MANAGE = "manage"
    ADMIN = "admin"
    OPERATOR = "operator"
    """To read the metrics of all tenants: for Prometheus. Only tokens of the default tenant have it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """An API token as it is kept: the secret itself only where it is an AWS access key's."""

    id: int
    tenant: TenantId
    tenant_name: str
    name: str
    prefix: str
    sha256: bytes
    scopes: frozenset[Scope]
    queues: str
    """A glob over queue names the token reaches."""
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_seen_at: datetime | None
    aws_secret: str | None = field(default=None, repr=False)
    """Of an AWS access key, whose id is then the prefix. Checking a signature takes the secret itself."""

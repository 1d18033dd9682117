"""What the database calls the streams of tenants.

Its schema `pgque` knows no tenants. The default tenant's streams have their own names there, so that SQL users find
them; those of tenant 7 are called `t7:…`, and no name that comes through a door has a colon.
"""

from __future__ import annotations

import re

from penstock.model.tenants import DEFAULT_TENANT, TenantId

_OWNED = re.compile(r"t([1-9][0-9]{0,18}):(.+)", re.DOTALL)
"""What SQL users call otherwise is the default tenant's."""


def prefix_of(tenant: TenantId) -> str:
    return "" if tenant == DEFAULT_TENANT else f"t{tenant}:"


def queue_of(tenant: TenantId, name: str) -> str:
    """The name of a tenant's stream in the database."""
    return prefix_of(tenant) + name


def owner_of(queue: str) -> tuple[TenantId, str]:
    """Back from there: whose stream it is, and what its tenant calls it."""
    owned = _OWNED.fullmatch(queue)
    return (TenantId(int(owned[1])), owned[2]) if owned is not None else (DEFAULT_TENANT, queue)

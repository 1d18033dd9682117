"""Tenants by their names, and what the database calls their streams."""

from __future__ import annotations

from penstock.model.stream_names import prefix_of
from penstock.model.tenants import TenantId
from penstock.spark.database import Database
from penstock.spark.options import OptionError

_TENANT = "select t.id from penstock.tenants as t where t.name = $1"


def tenant_id(database: Database, tenant: str) -> TenantId:
    found = database.value(_TENANT, tenant)
    if found is None:
        raise OptionError("tenant", f"there is no tenant {tenant!r}")
    return TenantId(int(found))


def stream_prefix(database: Database, tenant: str | None) -> str:
    """What the names of a tenant's streams begin with. Who names no tenant calls streams as the database does."""
    return "" if tenant in (None, "default") else prefix_of(tenant_id(database, tenant))

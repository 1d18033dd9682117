"""Tenants by name, and the prefix of their streams in the database."""

from __future__ import annotations

from pathlib import Path

from penstock.model.stream_names import prefix_of
from penstock.model.tenants import TenantId
from penstock.queries import parse
from penstock.spark.database import Database
from penstock.spark.options import OptionError

SQL = parse(Path(__file__).with_suffix(".sql").read_text("utf-8"))


def tenant_id(database: Database, tenant: str) -> TenantId:
    found = database.value(SQL["tenant_id"], tenant)
    if found is None:
        raise OptionError("tenant", f"there is no tenant {tenant!r}")
    return TenantId(int(found))


def stream_prefix(database: Database, tenant: str | None) -> str:
    """Prefix of the names of a tenant's streams. Without a tenant, streams are named as in the database."""
    return "" if tenant in (None, "default") else prefix_of(tenant_id(database, tenant))

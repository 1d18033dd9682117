"""The named queries of this store's `.sql` files."""

from __future__ import annotations

from pathlib import Path

from penstock.queries import load

FEATURES = ("queues", "topics", "jobs", "schedules", "insights", "tenants")
SQL = load(*(Path(__file__).parent / feature for feature in FEATURES))

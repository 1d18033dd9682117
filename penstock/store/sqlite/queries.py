"""The named queries of this folder's `.sql` files."""

from __future__ import annotations

from pathlib import Path

from penstock.queries import load

SQL = load(Path(__file__).parent)

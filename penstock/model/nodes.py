"""Nodes: the server processes of one database."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    name: str
    host: str
    process: int
    version: str
    address: str
    started_at: datetime
    seen_at: datetime

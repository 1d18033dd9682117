"""What administrators did."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    id: int
    at: datetime
    tenant: str | None
    actor: str
    act: str
    subject: str
    detail: str
    """JSON."""

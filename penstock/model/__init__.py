"""The nouns of Penstock, as values; a module for each room.

Everything here is data. Durations are whole seconds and carry `_s`; moments are timezone-aware UTC datetimes and
carry `_at`.
"""

from penstock.model.queues import (
    DedupScope,
    Handle,
    Message,
    MoveState,
    MoveTask,
    Outcome,
    Queue,
    QueueCounts,
    QueueSettings,
    Receive,
    Received,
    Send,
    Sent,
    ThroughputLimit,
)
from penstock.model.tenants import (
    DEFAULT_TENANT,
    Scope,
    Tenant,
    TenantId,
    Token,
)

__all__ = [
    "DEFAULT_TENANT",
    "DedupScope",
    "Handle",
    "Message",
    "MoveState",
    "MoveTask",
    "Outcome",
    "Queue",
    "QueueCounts",
    "QueueSettings",
    "Receive",
    "Received",
    "Scope",
    "Send",
    "Sent",
    "Tenant",
    "TenantId",
    "ThroughputLimit",
    "Token",
]

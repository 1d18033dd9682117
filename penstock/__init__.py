"""Penstock: queues on PostgreSQL and SQLite.

The names below are the public face of the package. The server is the command `penstock`; everything else is
internal and may change.
"""

from penstock.errors import (
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    PenstockError,
    QueueFull,
    Unavailable,
    Unsupported,
)
from penstock.model import Message, Queue, QueueCounts, QueueSettings

__all__ = [
    "Conflict",
    "Forbidden",
    "Invalid",
    "Message",
    "NotFound",
    "PenstockError",
    "Queue",
    "QueueCounts",
    "QueueFull",
    "QueueSettings",
    "Unavailable",
    "Unsupported",
    "__version__",
]

__version__: str


def __getattr__(name: str) -> str:
    # Looked up when asked for: reading the metadata of packages costs more than the rest of this import.
    if name != "__version__":
        raise AttributeError(f"module 'penstock' has no attribute {name!r}")
    from importlib import metadata

    try:
        return metadata.version("penstock")
    except metadata.PackageNotFoundError:
        return "(not installed)"

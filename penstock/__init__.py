"""Penstock: queues on PostgreSQL and SQLite.

The names below are the public face of the package. The server is the command `penstock`; everything else is
internal and may change.
"""

import typing

from penstock.errors import (
    Conflict,
    Forbidden,
    Invalid,
    JobNotFound,
    LeaseStale,
    NotFound,
    PenstockError,
    QueueFull,
    RateLimited,
    Unavailable,
    Unsupported,
)
from penstock.model import Message, Queue, QueueCounts, QueueSettings

if typing.TYPE_CHECKING:
    from penstock.client import AsyncClient, Client, Dead, Job, JobFailed, NewJob, Retry, RunningJob, Worker
    from penstock.consumer import AsyncConsumer, Consumer, MultiQueueConsumer, RateLimit, connect

__all__ = [
    "AsyncClient",
    "AsyncConsumer",
    "Client",
    "Conflict",
    "Consumer",
    "Dead",
    "Forbidden",
    "Invalid",
    "Job",
    "JobFailed",
    "JobNotFound",
    "LeaseStale",
    "Message",
    "MultiQueueConsumer",
    "NewJob",
    "NotFound",
    "PenstockError",
    "Queue",
    "QueueCounts",
    "QueueFull",
    "QueueSettings",
    "RateLimit",
    "RateLimited",
    "Retry",
    "RunningJob",
    "Unavailable",
    "Unsupported",
    "Worker",
    "__version__",
    "connect",
]

_LATER = {
    "AsyncClient": "penstock.client",
    "AsyncConsumer": "penstock.consumer",
    "Client": "penstock.client",
    "Consumer": "penstock.consumer",
    "Dead": "penstock.client",
    "Job": "penstock.client",
    "JobFailed": "penstock.client",
    "MultiQueueConsumer": "penstock.consumer",
    "NewJob": "penstock.client",
    "RateLimit": "penstock.consumer",
    "Retry": "penstock.client",
    "RunningJob": "penstock.client",
    "Worker": "penstock.client",
    "connect": "penstock.consumer",
}
"""Where to find what needs other packages: it is imported when first asked for."""

__version__: str


def __getattr__(name: str) -> object:
    if name in _LATER:
        from importlib import import_module

        return getattr(import_module(_LATER[name]), name)
    # Looked up when asked for: reading the metadata of packages costs more than the rest of this import.
    if name != "__version__":
        raise AttributeError(f"module 'penstock' has no attribute {name!r}")
    from importlib import metadata

    try:
        return metadata.version("penstock")
    except metadata.PackageNotFoundError:
        return "(not installed)"

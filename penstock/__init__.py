"""Penstock: queues, jobs, topics, streams and schedules on PostgreSQL and SQLite.

The names in `__all__` are the public API. The server is the command `penstock`; everything else is internal and may
change.
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
    Unauthorized,
    Unavailable,
    Unsupported,
)

if typing.TYPE_CHECKING:
    from penstock.client import (
        App,
        AsyncClient,
        Client,
        Dead,
        Job,
        JobFailed,
        Message,
        NewJob,
        Retry,
        RunningJob,
        Worker,
        current_job,
    )
    from penstock.client.private import PrivateNotifier, PrivateQueue, PrivateSender
    from penstock.consumer import (
        AsyncConsumer,
        AsyncMultiQueueConsumer,
        Consumer,
        MultiQueueConsumer,
        RateLimit,
        connect,
        connect_async,
    )

__all__ = [
    "App",
    "AsyncClient",
    "AsyncConsumer",
    "AsyncMultiQueueConsumer",
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
    "PrivateNotifier",
    "PrivateQueue",
    "PrivateSender",
    "QueueFull",
    "RateLimit",
    "RateLimited",
    "Retry",
    "RunningJob",
    "Unauthorized",
    "Unavailable",
    "Unsupported",
    "Worker",
    "__version__",
    "connect",
    "connect_async",
    "current_job",
]

_LATER = {
    "App": "penstock.client",
    "AsyncClient": "penstock.client",
    "AsyncConsumer": "penstock.consumer",
    "AsyncMultiQueueConsumer": "penstock.consumer",
    "Client": "penstock.client",
    "Consumer": "penstock.consumer",
    "Dead": "penstock.client",
    "Job": "penstock.client",
    "JobFailed": "penstock.client",
    "Message": "penstock.client",
    "MultiQueueConsumer": "penstock.consumer",
    "NewJob": "penstock.client",
    "PrivateNotifier": "penstock.client.private",
    "PrivateQueue": "penstock.client.private",
    "PrivateSender": "penstock.client.private",
    "RateLimit": "penstock.consumer",
    "Retry": "penstock.client",
    "RunningJob": "penstock.client",
    "Worker": "penstock.client",
    "connect": "penstock.consumer",
    "connect_async": "penstock.consumer",
    "current_job": "penstock.client",
}
"""Names that need other packages, and their modules; they are imported on first use."""

__version__: str


def __getattr__(name: str) -> object:
    if name in _LATER:
        from importlib import import_module

        return getattr(import_module(_LATER[name]), name)
    # Looked up on first use: reading package metadata takes longer than the rest of this import.
    if name != "__version__":
        raise AttributeError(f"module 'penstock' has no attribute {name!r}")
    from importlib import metadata

    try:
        return metadata.version("penstock")
    except metadata.PackageNotFoundError:
        return "(not installed)"

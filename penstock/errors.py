"""Everything that can go wrong, coded at birth.

    PenstockError
    ├── Invalid              the caller's input
    │   ├── InvalidName
    │   ├── TooLarge
    │   └── InvalidReceipt
    ├── NotFound
    │   ├── QueueNotFound
    │   ├── MessageNotFound
    │   ├── TaskNotFound
    │   ├── TokenNotFound
    │   ├── TopicNotFound
    │   ├── SubscriptionNotFound
    │   ├── DeliveryNotFound
    │   ├── JobNotFound
    │   ├── StreamNotFound
    │   └── ScheduleNotFound
    ├── Conflict             the state forbids it
    │   ├── QueueExists
    │   ├── ReceiptStale
    │   ├── MoveInProgress
    │   ├── LeaseStale
    │   └── ScheduleExists
    ├── QueueFull
    ├── RateLimited
    ├── Forbidden
    │   └── Unauthorized     who is calling is not known
    ├── Unsupported          not on this store
    └── Unavailable          the database is away

SQL functions raise or return the same `code`; each door maps the tree to its protocol in one table.
"""

from __future__ import annotations

from typing import ClassVar


class PenstockError(Exception):
    """Something went wrong."""

    code: ClassVar[str] = "PS000"

    def __init__(self, message: str | None = None, *, field: str | None = None) -> None:
        self.message = message or type(self).__doc__ or ""
        self.field = field
        super().__init__(self.message)


class Invalid(PenstockError):
    """The input is not valid."""

    code = "PS010"


class InvalidName(Invalid):
    """A queue name has 1 to 80 letters, digits, hyphens and underscores, and may end in .fifo."""

    code = "PS011"


class TooLarge(Invalid):
    """The message is larger than the queue allows."""

    code = "PS012"


class InvalidReceipt(Invalid):
    """The receipt is not one this server gave out."""

    code = "PS013"


class NotFound(PenstockError):
    """There is no such thing."""

    code = "PS020"


class QueueNotFound(NotFound):
    """The queue does not exist."""

    code = "PS021"

    def __init__(self, queue: str | None = None) -> None:
        self.queue = queue
        super().__init__(f"Queue '{queue}' does not exist" if queue else None)


class MessageNotFound(NotFound):
    """The message does not exist."""

    code = "PS022"


class TaskNotFound(NotFound):
    """The move task does not exist."""

    code = "PS023"


class TokenNotFound(NotFound):
    """The token does not exist."""

    code = "PS024"


class TopicNotFound(NotFound):
    """The topic does not exist."""

    code = "PS025"


class SubscriptionNotFound(NotFound):
    """The subscription does not exist."""

    code = "PS026"


class DeliveryNotFound(NotFound):
    """The delivery does not exist."""

    code = "PS027"


class JobNotFound(NotFound):
    """The job does not exist."""

    code = "PS028"


class StreamNotFound(NotFound):
    """The stream does not exist."""

    code = "PS029"


class ScheduleNotFound(NotFound):
    """The schedule does not exist."""

    code = "PS02A"


class Conflict(PenstockError):
    """The current state forbids it."""

    code = "PS030"


class QueueExists(Conflict):
    """A queue of this name exists with other settings."""

    code = "PS031"


class ReceiptStale(Conflict):
    """The message was received again since; this receipt can change nothing."""

    code = "PS032"


class MoveInProgress(Conflict):
    """A move task is already running for this queue."""

    code = "PS033"


class LeaseStale(Conflict):
    """The job is not held under this lease token; nothing was changed."""

    code = "PS034"


class ScheduleExists(Conflict):
    """A schedule of this name already exists."""

    code = "PS035"


class QueueFull(PenstockError):
    """The queue has reached its maximum length."""

    code = "PS040"


class RateLimited(PenstockError):
    """Too many requests; try again later."""

    code = "PS041"

    def __init__(self, message: str | None = None, *, retry_after_s: float = 1.0) -> None:
        self.retry_after_s = retry_after_s
        super().__init__(message)


class Forbidden(PenstockError):
    """The caller may not do this."""

    code = "PS050"


class Unauthorized(Forbidden):
    """The credentials are missing or wrong."""

    code = "PS051"


class Unsupported(PenstockError):
    """This requires PostgreSQL; the server runs on another store."""

    code = "PS060"


class Unavailable(PenstockError):
    """The database cannot be reached."""

    code = "PS070"


def _walk(root: type[PenstockError]) -> list[type[PenstockError]]:
    return [root, *(found for child in root.__subclasses__() for found in _walk(child))]


BY_CODE: dict[str, type[PenstockError]] = {error.code: error for error in _walk(PenstockError)}
"""Every error by its code; a test holds that no two share one."""

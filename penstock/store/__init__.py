"""The seam between what Penstock does and where it keeps it.

A store owns every rule that must hold inside a transaction: order, leases, deduplication, dead letters,
lengths. It trusts its caller for nothing but types. Its hot verbs take batches, so that one statement can
serve many requests and many queues; a single message is a batch of one. An entry that fails does not fail
its neighbours: its error comes back in its place.

`now` is an argument of every verb that compares moments, so tests own the time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from penstock.errors import PenstockError
from penstock.model import (
    Handle,
    Message,
    MoveTask,
    Outcome,
    Queue,
    QueueCounts,
    QueueSettings,
    Receive,
    Received,
    Scope,
    Send,
    Sent,
    Tenant,
    TenantId,
    Token,
)
from penstock.store.audit import AuditStore
from penstock.store.follow import FollowStore
from penstock.store.gauges import GaugeStore
from penstock.store.insights import InsightStore
from penstock.store.jobs import JobStore
from penstock.store.nodes import NodeStore
from penstock.store.outbox import OutboxStore
from penstock.store.pipelines import PipelineStore
from penstock.store.private import PrivateStore
from penstock.store.rate_limits import RateLimitStore
from penstock.store.samples import SampleStore
from penstock.store.schedules import ScheduleStore
from penstock.store.streams import StreamStore
from penstock.store.topics import TopicStore

WakeUp = Callable[[TenantId, str], None]
"""Called with tenant and queue when messages may have become available without this process's doing."""

Exchanged = tuple[list[Sent | PenstockError], list[Received | PenstockError], list[Outcome | PenstockError]]
"""One answer for each message sent, each request to receive and each message deleted."""


class Store(Protocol):
    """What every store can do. Verbs raise `QueueNotFound` for an unknown queue, unless they return it."""

    kind: str
    """`postgres` or `sqlite`, for logs and error texts only; see the `has_` flags for what a store can do."""
    parallel: int
    """How many calls of hot verbs are worth running at a time."""
    has_streams: bool
    """Whether `streams` works; otherwise its verbs raise `Unsupported`."""
    has_sql_publish: bool
    """Whether a schedule's publish finds its subscribers by itself; otherwise the engine passes them along."""
    audit: AuditStore
    """The audit log."""
    follow: FollowStore
    """Timelines of single messages, events and publishes."""
    gauges: GaugeStore
    """How much there is to do, for the metrics."""
    jobs: JobStore
    """Jobs, their attempts and the limits of their queues."""
    nodes: NodeStore
    """The server processes of this database."""
    outbox: OutboxStore
    """What would leave the machine for a phone or a mailbox."""
    pipelines: PipelineStore
    """Runs of Spark's pipelines; on PostgreSQL only."""
    private: PrivateStore
    """Private queues; on PostgreSQL only."""
    rate_limits: RateLimitStore
    """Limits of requests, shared by all nodes."""
    insights: InsightStore
    """Insights: numbers per hour and day; on PostgreSQL only."""
    samples: SampleStore
    """Samples for charts."""
    schedules: ScheduleStore
    """Schedules, and the firing of those that are due."""
    streams: StreamStore
    """Streams, their consumers and their ticks; on PostgreSQL only."""
    topics: TopicStore
    """Topics, subscriptions and deliveries."""

    async def open(self) -> None:
        """Connect and bring the schema up to date."""

    async def close(self) -> None: ...

    async def ping(self) -> None:
        """Return when the database answers; raise `Unavailable` when it does not."""

    def pool_numbers(self) -> Mapping[str, int]:
        """`size`, `idle`, `active` and `acquire_timeouts` of the connections, for the metrics."""

    # Queues

    async def create_queue(
        self, tenant: TenantId, name: str, settings: QueueSettings, now: datetime, *, implicit: bool = False
    ) -> tuple[Queue, bool]:
        """The new queue and True; or the queue that has the name already, unchanged, and False.

        A dead-letter queue that does not exist raises `QueueNotFound`. An implicit queue numbers its messages.
        """

    async def get_queue(self, tenant: TenantId, name: str) -> Queue: ...

    async def list_queues(
        self, tenant: TenantId, *, prefix: str = "", after: str = "", limit: int = 1000
    ) -> list[Queue]:
        """By name, those after `after`."""

    async def update_queue(self, tenant: TenantId, name: str, changes: Mapping[str, Any], now: datetime) -> Queue:
        """Replace the named fields of the settings."""

    async def drop_queue(self, tenant: TenantId, name: str) -> bool:
        """Remove the queue with all its messages; False when there is none. Takes no longer for a full queue."""

    async def purge_queue(self, tenant: TenantId, name: str) -> int:
        """Remove every message, delayed and in flight ones too, and the deduplication history."""

    async def queue_counts(
        self, tenant: TenantId | None, names: Sequence[str] | None, now: datetime
    ) -> list[tuple[TenantId, QueueCounts]]:
        """Counts of the named queues (unknown names are left out), of all, or (tenant None) of everyone's."""

    async def dead_letter_sources(self, tenant: TenantId, name: str) -> list[str]:
        """Names of the queues whose dead letters go to this one."""

    # Messages

    async def send_many(self, entries: Sequence[Send], now: datetime) -> list[Sent | PenstockError]: ...

    async def receive_many(self, requests: Sequence[Receive], now: datetime) -> list[Received | PenstockError]:
        """Claim messages for each request, in the order of the requests.

        A claim ends early, after at least one message, when the contents reach `limits.ANSWER_BYTES`.
        """

    async def delete_many(self, handles: Sequence[Handle], now: datetime) -> list[Outcome | PenstockError]: ...

    async def exchange(
        self, sends: Sequence[Send], receives: Sequence[Receive], deletes: Sequence[Handle], now: datetime
    ) -> Exchanged:
        """Send, delete and receive in one transaction, in this order: what is sent can be received at once."""

    async def change_visibility_many(
        self, changes: Sequence[tuple[Handle, int]], now: datetime
    ) -> list[tuple[Outcome, datetime | None] | PenstockError]:
        """Hide each message for so many seconds from now; zero or less releases it at once.

        Answers the outcome and the moment of return.
        """

    async def archive_many(self, handles: Sequence[Handle], now: datetime) -> list[Outcome | PenstockError]:
        """Like delete, and keep a copy in the archive whatever the queue's setting."""

    async def peek(
        self, tenant: TenantId, queue: str, limit: int, now: datetime, *, shuffle: bool = False
    ) -> list[Message]:
        """The next visible messages, without any effect on them."""

    async def find_messages(
        self, tenant: TenantId, queue: str, text: str | None, source: str | None, limit: int, now: datetime
    ) -> list[int]:
        """Ids of visible messages that have the text in body or headers, and are dead letters of `source`."""

    # Redrive

    async def start_move(
        self, tenant: TenantId, source: str, destination: str | None, rate: int | None, now: datetime
    ) -> MoveTask: ...

    async def cancel_move(self, tenant: TenantId, task_id: int, now: datetime) -> MoveTask: ...

    async def list_moves(self, tenant: TenantId, source: str, limit: int) -> list[MoveTask]:
        """Newest first."""

    async def move_by_ids(
        self, tenant: TenantId, source: str, ids: Sequence[int], destination: str | None, now: datetime
    ) -> tuple[int, list[tuple[TenantId, str]]]:
        """Move these messages at once, as a move task does; how many, and the queues that received them.

        Messages that are absent, in flight or delayed stay. Raises `Conflict` when one has no queue to return to.
        """

    async def run_moves(self, now: datetime) -> tuple[int, list[tuple[TenantId, str]]]:
        """Carry running tasks on, each within its rate; the number moved and the queues that received."""

    # Upkeep

    async def sweep(self, now: datetime, limit: int) -> int:
        """Remove what has expired or belongs to nobody, at most about `limit` rows; the number removed."""

    async def sweep_poison(self, max_receives: int, now: datetime, limit: int) -> int:
        """Remove messages of implicit queues that were received so often and are not in flight; the number removed."""

    # Waiting

    async def watch(self, wake_up: WakeUp) -> None:
        """From now on report sends of others (SQL users, other nodes) to the queues that `expect` names."""

    async def expect(self, tenant: TenantId, queue: str, now: datetime) -> None:
        """Someone here waits on this queue: for the next half minute, sends elsewhere are worth a report."""

    # Tenants and tokens

    async def create_tenant(self, name: str, now: datetime) -> Tenant:
        """The tenant of that name, created when new."""

    async def list_tenants(self) -> list[Tenant]: ...

    async def add_token(
        self,
        tenant: TenantId,
        name: str,
        prefix: str,
        sha256: bytes,
        scopes: frozenset[Scope],
        queues: str,
        now: datetime,
        expires_at: datetime | None,
        aws_secret: str | None = None,
    ) -> Token: ...

    async def find_tokens(self, prefix: str) -> list[Token]:
        """Tokens with this prefix, revoked and expired ones too: the caller judges."""

    async def list_tokens(self, tenant: TenantId | None) -> list[Token]: ...

    async def end_token(self, token_id: int, at: datetime) -> Token:
        """Revoke from `at` on. Ending a token a second time keeps the earlier moment."""

    async def saw_token(self, token_id: int, now: datetime) -> None: ...

"""The store on SQLite: a file for a single box, or memory for tests and stand-ins.

Each verb is one transaction on the writer's thread; the rules are in the modules beside this one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

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
from penstock.store import Exchanged, WakeUp
from penstock.store.audit import AuditStore
from penstock.store.follow import FollowStore
from penstock.store.gauges import GaugeStore
from penstock.store.insights import InsightStore, NoInsights
from penstock.store.jobs import JobStore
from penstock.store.nodes import NodeStore
from penstock.store.outbox import OutboxStore
from penstock.store.pipelines import NoPipelines, PipelineStore
from penstock.store.private import NoPrivateQueues, PrivateStore
from penstock.store.rate_limits import RateLimitStore
from penstock.store.samples import SampleStore
from penstock.store.schedules import ScheduleStore
from penstock.store.sqlite.connection import Database
from penstock.store.sqlite.insights.follow import SqliteFollow
from penstock.store.sqlite.insights.gauges import SqliteGauges
from penstock.store.sqlite.insights.nodes import SqliteNodes
from penstock.store.sqlite.insights.samples import SqliteSamples
from penstock.store.sqlite.jobs.jobs import SqliteJobs
from penstock.store.sqlite.moments import micros
from penstock.store.sqlite.queues import messages, moves, queues, receive, upkeep
from penstock.store.sqlite.schedules.schedules import SqliteSchedules
from penstock.store.sqlite.session import Session
from penstock.store.sqlite.tenants import tokens
from penstock.store.sqlite.tenants.audit import SqliteAudit
from penstock.store.sqlite.tenants.rate_limits import SqliteRateLimits
from penstock.store.sqlite.topics.outbox import SqliteOutbox
from penstock.store.sqlite.topics.topics import SqliteTopics
from penstock.store.streams import NoStreams, StreamStore
from penstock.store.topics import TopicStore

BRIEF = 200
"""Entries of a call that take a few milliseconds at most."""


class SqliteStore:
    kind = "sqlite"
    parallel = 1
    has_streams = False
    has_sql_publish = False

    def __init__(self, path: str | Path | None, *, readers: int = 1, visibility_timeout_s: int = 30) -> None:
        """`path` is the database file, made when it does not exist; None keeps everything in memory.

        `visibility_timeout_s` applies to queues that never set their own.
        """
        self._visibility_timeout_s = visibility_timeout_s
        self._database = Database(path, readers)
        self.streams: StreamStore = NoStreams()
        self.pipelines: PipelineStore = NoPipelines()
        self.private: PrivateStore = NoPrivateQueues()
        self.insights: InsightStore = NoInsights()
        self.topics: TopicStore = SqliteTopics(self._database)
        self.audit: AuditStore = SqliteAudit(self._database)
        self.rate_limits: RateLimitStore = SqliteRateLimits(self._database)
        self.follow: FollowStore = SqliteFollow(self._database)
        self.gauges: GaugeStore = SqliteGauges(self._database)
        self.samples: SampleStore = SqliteSamples(self._database)
        self.nodes: NodeStore = SqliteNodes()
        self.jobs: JobStore = SqliteJobs(self._database)
        self.outbox: OutboxStore = SqliteOutbox(self._database)
        self.schedules: ScheduleStore = SqliteSchedules(self._database)

    async def open(self) -> None:
        await self._database.open()
        default = self._visibility_timeout_s
        await self._database.write(lambda s: queues.set_default_visibility_timeout(s, default))

    async def close(self) -> None:
        await self._database.close()

    async def ping(self) -> None:
        await self._database.write(lambda session: None)

    def pool_numbers(self) -> Mapping[str, int]:
        return self._database.numbers()

    # Queues

    async def create_queue(
        self, tenant: TenantId, name: str, settings: QueueSettings, now: datetime, *, implicit: bool = False
    ) -> tuple[Queue, bool]:
        return await self._database.write(
            lambda s: queues.create_queue(
                s,
                tenant,
                name,
                settings,
                micros(now),
                visibility_timeout_s=self._visibility_timeout_s,
                implicit=implicit,
            )
        )

    async def get_queue(self, tenant: TenantId, name: str) -> Queue:
        return await self._database.read(lambda s: queues.get_queue(s, tenant, name))

    async def list_queues(
        self, tenant: TenantId, *, prefix: str = "", after: str = "", limit: int = 1000
    ) -> list[Queue]:
        return await self._database.read(lambda s: queues.list_queues(s, tenant, prefix, after, limit))

    async def update_queue(self, tenant: TenantId, name: str, changes: Mapping[str, Any], now: datetime) -> Queue:
        return await self._database.write(lambda s: queues.update_queue(s, tenant, name, changes, micros(now)))

    async def drop_queue(self, tenant: TenantId, name: str) -> bool:
        return await self._database.write(lambda s: queues.drop_queue(s, tenant, name))

    async def purge_queue(self, tenant: TenantId, name: str) -> int:
        return await self._database.write(lambda s: queues.purge_queue(s, tenant, name))

    async def queue_counts(
        self, tenant: TenantId | None, names: Sequence[str] | None, now: datetime
    ) -> list[tuple[TenantId, QueueCounts]]:
        return await self._database.read(lambda s: queues.queue_counts(s, tenant, names, micros(now)))

    async def dead_letter_sources(self, tenant: TenantId, name: str) -> list[str]:
        return await self._database.read(lambda s: queues.dead_letter_sources(s, tenant, name))

    # Messages

    async def send_many(self, entries: Sequence[Send], now: datetime) -> list[Sent | PenstockError]:
        brief = len(entries) <= BRIEF
        return await self._database.write(lambda s: messages.send_many(s, entries, micros(now)), brief=brief)

    async def receive_many(self, requests: Sequence[Receive], now: datetime) -> list[Received | PenstockError]:
        brief = len(requests) <= BRIEF
        return await self._database.write(lambda s: receive.receive_many(s, requests, micros(now)), brief=brief)

    async def delete_many(self, handles: Sequence[Handle], now: datetime) -> list[Outcome | PenstockError]:
        brief = len(handles) <= BRIEF
        return await self._database.write(lambda s: messages.delete_many(s, handles, micros(now)), brief=brief)

    async def exchange(
        self, sends: Sequence[Send], receives: Sequence[Receive], deletes: Sequence[Handle], now: datetime
    ) -> Exchanged:
        at = micros(now)

        def work(session: Session) -> Exchanged:
            sent = messages.send_many(session, sends, at) if sends else []
            outcomes = messages.delete_many(session, deletes, at) if deletes else []
            received = receive.receive_many(session, receives, at) if receives else []
            return sent, received, outcomes

        return await self._database.write(work, brief=len(sends) + len(receives) + len(deletes) <= BRIEF)

    async def change_visibility_many(
        self, changes: Sequence[tuple[Handle, int]], now: datetime
    ) -> list[tuple[Outcome, datetime | None] | PenstockError]:
        return await self._database.write(lambda s: messages.change_visibility_many(s, changes, micros(now)))

    async def archive_many(self, handles: Sequence[Handle], now: datetime) -> list[Outcome | PenstockError]:
        return await self._database.write(lambda s: messages.delete_many(s, handles, micros(now), archive=True))

    async def peek(
        self, tenant: TenantId, queue: str, limit: int, now: datetime, *, shuffle: bool = False
    ) -> list[Message]:
        at = micros(now)
        await self._database.write(lambda s: receive.release(s, s.queue(tenant, queue), at))
        return await self._database.read(lambda s: receive.peek(s, tenant, queue, limit, at, shuffle))

    async def find_messages(
        self, tenant: TenantId, queue: str, text: str | None, source: str | None, limit: int, now: datetime
    ) -> list[int]:
        values = {"text": text, "source": source, "limit": limit, "now": micros(now)}
        found = await self._database.read(
            lambda s: s.all("find_messages", bin_id=s.queue(tenant, queue).bin_id, **values)
        )
        return [row["id"] for row in found]

    # Redrive

    async def start_move(
        self, tenant: TenantId, source: str, destination: str | None, rate: int | None, now: datetime
    ) -> MoveTask:
        return await self._database.write(lambda s: moves.start_move(s, tenant, source, destination, rate, micros(now)))

    async def cancel_move(self, tenant: TenantId, task_id: int, now: datetime) -> MoveTask:
        return await self._database.write(lambda s: moves.cancel_move(s, tenant, task_id))

    async def list_moves(self, tenant: TenantId, source: str, limit: int) -> list[MoveTask]:
        return await self._database.read(lambda s: moves.list_moves(s, tenant, source, limit))

    async def move_by_ids(
        self, tenant: TenantId, source: str, ids: Sequence[int], destination: str | None, now: datetime
    ) -> tuple[int, list[tuple[TenantId, str]]]:
        return await self._database.write(lambda s: moves.move_by_ids(s, tenant, source, ids, destination, micros(now)))

    async def run_moves(self, now: datetime) -> tuple[int, list[tuple[TenantId, str]]]:
        return await self._database.write(lambda s: moves.run_moves(s, micros(now)))

    # Upkeep

    async def sweep(self, now: datetime, limit: int) -> int:
        return await self._database.write(lambda s: upkeep.sweep(s, micros(now), limit))

    async def sweep_poison(self, max_receives: int, now: datetime, limit: int) -> int:
        return await self._database.write(lambda s: upkeep.sweep_poison(s, max_receives, micros(now), limit))

    # Waiting

    async def watch(self, wake_up: WakeUp) -> None:
        """Nobody else sends: every send passes through this process, which knows of it."""

    async def expect(self, tenant: TenantId, queue: str, now: datetime) -> None:
        """Nothing to ask of others; see `watch`."""

    # Tenants and tokens

    async def create_tenant(self, name: str, now: datetime) -> Tenant:
        return await self._database.write(lambda s: tokens.create_tenant(s, name, micros(now)))

    async def list_tenants(self) -> list[Tenant]:
        return await self._database.read(tokens.list_tenants)

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
    ) -> Token:
        def work(session: Session) -> Token:
            return tokens.add_token(session, tenant, name, prefix, sha256, scopes, queues, now, expires_at, aws_secret)

        return await self._database.write(work)

    async def find_tokens(self, prefix: str) -> list[Token]:
        return await self._database.read(lambda s: tokens.find_tokens(s, prefix))

    async def list_tokens(self, tenant: TenantId | None) -> list[Token]:
        return await self._database.read(lambda s: tokens.list_tokens(s, tenant))

    async def end_token(self, token_id: int, at: datetime) -> Token:
        return await self._database.write(lambda s: tokens.end_token(s, token_id, micros(at)))

    async def saw_token(self, token_id: int, now: datetime) -> None:
        await self._database.write(lambda s: tokens.saw_token(s, token_id, micros(now)))

"""The store on PostgreSQL: every verb is one call of a SQL function."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from operator import attrgetter
from time import perf_counter
from typing import Any
from uuid import uuid4

import asyncpg

from penstock import limits
from penstock.errors import PenstockError, QueueNotFound, TokenNotFound
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
from penstock.store.insights import InsightStore
from penstock.store.jobs import JobStore
from penstock.store.nodes import NodeStore
from penstock.store.outbox import OutboxStore
from penstock.store.pipelines import PipelineStore
from penstock.store.postgres.connections import Connections, translated
from penstock.store.postgres.insights.follow import PostgresFollow
from penstock.store.postgres.insights.gauges import PostgresGauges
from penstock.store.postgres.insights.insights import PostgresInsights
from penstock.store.postgres.insights.nodes import PostgresNodes
from penstock.store.postgres.insights.pipelines import PostgresPipelines
from penstock.store.postgres.insights.samples import PostgresSamples
from penstock.store.postgres.jobs.jobs import PostgresJobs
from penstock.store.postgres.listener import Listener
from penstock.store.postgres.migrate import migrate_connection
from penstock.store.postgres.private.private import CHANNEL as PRIVATE_CHANNEL
from penstock.store.postgres.private.private import PostgresPrivateQueues
from penstock.store.postgres.queues import rows
from penstock.store.postgres.queues.hints import EVERYWHERE, SETTLED, Hints, Look
from penstock.store.postgres.schedules.schedules import PostgresSchedules
from penstock.store.postgres.streams.streams import PostgresStreams
from penstock.store.postgres.tenants.audit import PostgresAudit
from penstock.store.postgres.tenants.rate_limits import PostgresRateLimits
from penstock.store.postgres.topics.outbox import PostgresOutbox
from penstock.store.postgres.topics.topics import PostgresTopics
from penstock.store.private import PrivateStore
from penstock.store.rate_limits import RateLimitStore
from penstock.store.samples import SampleStore
from penstock.store.schedules import ScheduleStore
from penstock.store.streams import StreamStore
from penstock.store.topics import TopicStore

_OPTIONAL = attrgetter(
    "json", "delay_s", "priority", "group_id", "dedup_id", "dedup_window_s", "retention_s", "attributes", "headers",
    "trace", "size",
)  # fmt: skip
"""What most messages leave out."""
_NO_OPTIONS = _OPTIONAL(Send(tenant=TenantId(0), queue="", body=""))
_NO_SENDS = [None] * 14
_NO_DELETES = [None] * 4
_NO_RECEIVES = [None] * 11
_OUTCOMES = {outcome.value: outcome for outcome in Outcome}


class PostgresStore:
    """Any number of these, in any number of processes, may work on one database."""

    kind = "postgres"
    parallel = 4
    has_streams = True
    has_sql_publish = True

    def __init__(
        self, dsn: str, *, max_connections: int = 10, node: str | None = None, visibility_timeout_s: int = 30
    ) -> None:
        """`visibility_timeout_s` applies to queues that never set their own."""
        self._dsn = dsn
        self._node = node or uuid4().hex[:12]
        default = {"penstock.default_visibility_timeout_s": str(visibility_timeout_s)}
        self._connections = Connections(dsn, max_connections, self._node, default)
        self.audit: AuditStore = PostgresAudit(self._connections)
        self.rate_limits: RateLimitStore = PostgresRateLimits(self._connections)
        self.follow: FollowStore = PostgresFollow(self._connections)
        self.gauges: GaugeStore = PostgresGauges(self._connections)
        self.samples: SampleStore = PostgresSamples(self._connections)
        self.nodes: NodeStore = PostgresNodes(self._connections)
        self.jobs: JobStore = PostgresJobs(self._connections, self._node)
        self.outbox: OutboxStore = PostgresOutbox(self._connections)
        self.pipelines: PipelineStore = PostgresPipelines(self._connections)
        self.insights: InsightStore = PostgresInsights(self._connections)
        self._private = PostgresPrivateQueues(self._connections)
        self.private: PrivateStore = self._private
        self._listener: Listener | None = None
        self._hints = Hints(limits.DEFAULT_PRIORITY)
        self.schedules: ScheduleStore = PostgresSchedules(self._connections)
        self._streams = PostgresStreams(dsn, self._connections)
        self.streams: StreamStore = self._streams
        self.topics: TopicStore = PostgresTopics(self._connections)

    async def open(self) -> None:
        with translated():
            connection = await asyncpg.connect(self._dsn)
            try:
                await migrate_connection(connection)
            finally:
                await connection.close()
            await self._connections.open()

    async def close(self) -> None:
        await self._stop_listening()
        await self._connections.close()

    async def _stop_listening(self) -> None:
        if self._listener is not None:
            await self._listener.close()
            self._listener = None
        await self._streams.close()

    async def ping(self) -> None:
        await self._connections.value("ping")

    def pool_numbers(self) -> Mapping[str, int]:
        return self._connections.numbers()

    # Queues

    async def create_queue(
        self, tenant: TenantId, name: str, settings: QueueSettings, now: datetime, *, implicit: bool = False
    ) -> tuple[Queue, bool]:
        call = "create_implicit_queue" if implicit else "create_queue"
        given = asdict(settings)
        if settings.visibility_timeout_s is None:
            del given["visibility_timeout_s"]
        created = await self._connections.value(call, tenant, name, json.dumps(given), now)
        return await self.get_queue(tenant, name), created

    async def get_queue(self, tenant: TenantId, name: str) -> Queue:
        row = await self._connections.row("get_queue", tenant, name)
        if row is None:
            raise QueueNotFound(name)
        return rows.queue(row)

    async def list_queues(
        self, tenant: TenantId, *, prefix: str = "", after: str = "", limit: int = 1000
    ) -> list[Queue]:
        return [rows.queue(row) for row in await self._connections.rows("list_queues", tenant, prefix, after, limit)]

    async def update_queue(self, tenant: TenantId, name: str, changes: Mapping[str, Any], now: datetime) -> Queue:
        await self._connections.value("update_queue", tenant, name, json.dumps(dict(changes)), now)
        self._hints.forget((tenant, name))
        return await self.get_queue(tenant, name)

    async def drop_queue(self, tenant: TenantId, name: str) -> bool:
        self._hints.forget((tenant, name))
        return bool(await self._connections.value("drop_queue", tenant, name))

    async def purge_queue(self, tenant: TenantId, name: str) -> int:
        self._hints.forget((tenant, name))
        return int(await self._connections.value("purge_queue", tenant, name))

    async def queue_counts(
        self, tenant: TenantId | None, names: Sequence[str] | None, now: datetime
    ) -> list[tuple[TenantId, QueueCounts]]:
        return [rows.counts(row) for row in await self._connections.rows("count_queues", tenant, names, now)]

    async def dead_letter_sources(self, tenant: TenantId, name: str) -> list[str]:
        return [row["name"] for row in await self._connections.rows("dead_letter_sources", tenant, name)]

    # Messages

    async def send_many(self, entries: Sequence[Send], now: datetime) -> list[Sent | PenstockError]:
        call = "send" if any(entry.sync_commit for entry in entries) else "send_without_sync"
        start = perf_counter()
        row = await self._connections.row(call, *_send_columns(entries), now)
        assert row is not None
        return self._sent(entries, row, timedelta(seconds=perf_counter() - start))

    def _sent(self, entries: Sequence[Send], row: Sequence[Any], took: timedelta) -> list[Sent | PenstockError]:
        for entry in entries:
            priority = limits.DEFAULT_PRIORITY if entry.priority is None else entry.priority
            self._hints.sent((entry.tenant, entry.queue), priority)
        if took > SETTLED:
            self._hints.overtaken((entry.tenant, entry.queue) for entry in entries)
        ids, codes, duplicates, sequences = row[:4]
        if duplicates is None and not any(codes):
            return [Sent(message_id) for message_id in ids]
        count = len(entries)
        answers = zip(entries, ids, codes, duplicates or [False] * count, sequences or [None] * count, strict=True)
        return [
            rows.entry_error(code, entry.queue) if code else Sent(message_id, duplicate, sequence)
            for entry, message_id, code, duplicate, sequence in answers
        ]

    async def receive_many(self, requests: Sequence[Receive], now: datetime) -> list[Received | PenstockError]:
        looks = self._looks(requests, now)
        start = perf_counter()
        # A dead-letter queue of the request that is full loses messages: PostgreSQL warns of that.
        named = any(request.dead_letter_queue is not None for request in requests)
        ask = self._connections.rows_and_warnings if named else self._connections.rows
        found = await ask("receive", *_receive_columns(requests, looks), now, limits.ANSWER_BYTES, durable=False)
        return self._received(requests, looks, found, now, timedelta(seconds=perf_counter() - start))

    def _looks(self, requests: Sequence[Receive], now: datetime) -> list[Look]:
        look = self._hints.look
        return [EVERYWHERE if request.shuffle else look((request.tenant, request.queue), now) for request in requests]

    def _received(
        self,
        requests: Sequence[Receive],
        looks: list[Look],
        found: Sequence[asyncpg.Record],
        now: datetime,
        took: timedelta,
    ) -> list[Received | PenstockError]:
        results: list[Received | PenstockError] = [Received([]) for _ in requests]
        for row in found:
            position, code = row["request"] - 1, row["code"]
            request, result = requests[position], results[position]
            if code is not None:
                field = code.partition(":")[2]
                missing = request.dead_letter_queue if field == "dead_letter_queue" else request.queue
                results[position] = rows.entry_error(code, missing or "")
                continue
            assert isinstance(result, Received)
            if row["id"] is None:
                result.next_due_at = row["next_due_at"]
                if row["place"] is not None and not request.shuffle:
                    result.next_due_at = self._hints.found_nothing(
                        (request.tenant, request.queue), looks[position], row["place"], row["next_due_at"], now, took
                    )
                continue
            if not result.messages and not request.shuffle:
                key, hint = (request.tenant, request.queue), looks[position].hint
                self._hints.claimed(key, hint, row["place"], row["priority"], now, took)
            result.messages.append(rows.message(row, row["lease"], row["dead_letter_source"]))
        return results

    async def delete_many(self, handles: Sequence[Handle], now: datetime) -> list[Outcome | PenstockError]:
        return await self._finish(handles, False, now)

    async def archive_many(self, handles: Sequence[Handle], now: datetime) -> list[Outcome | PenstockError]:
        return await self._finish(handles, True, now)

    async def _finish(self, handles: Sequence[Handle], archive: bool, now: datetime) -> list[Outcome | PenstockError]:
        return self._finished(handles, await self._connections.value("finish", *_handle_columns(handles), archive, now))

    def _finished(self, handles: Sequence[Handle], answers: list[str]) -> list[Outcome | PenstockError]:
        if len(set(map(_name_of, handles))) < len(handles):
            _done_once(handles, answers)
        for answer, handle in zip(answers, handles, strict=True):
            if answer == "done" and handle.queue.endswith(".fifo"):
                self._hints.passed((handle.tenant, handle.queue), handle.id)
        return [_outcome(answer, handle) for answer, handle in zip(answers, handles, strict=True)]

    async def exchange(
        self, sends: Sequence[Send], receives: Sequence[Receive], deletes: Sequence[Handle], now: datetime
    ) -> Exchanged:
        looks = self._looks(receives, now)
        start = perf_counter()
        found = await self._connections.rows(
            "exchange",
            now,
            *(_send_columns(sends) if sends else _NO_SENDS),
            *(_handle_columns(deletes) if deletes else _NO_DELETES),
            *(_receive_columns(receives, looks) if receives else _NO_RECEIVES),
            limits.ANSWER_BYTES,
            durable=bool(deletes) or any(entry.sync_commit for entry in sends),
        )
        took = timedelta(seconds=perf_counter() - start)
        sent = self._sent(sends, found.pop(0), took) if sends else []
        outcomes = self._finished(deletes, found.pop(0)["answers"]) if deletes else []
        return sent, self._received(receives, looks, found, now, took), outcomes

    async def change_visibility_many(
        self, changes: Sequence[tuple[Handle, int]], now: datetime
    ) -> list[tuple[Outcome, datetime | None] | PenstockError]:
        handles = [handle for handle, _ in changes]
        seconds = [seconds for _, seconds in changes]
        start = perf_counter()
        row = await self._connections.row("change_visibility", *_handle_columns(handles), seconds, now, durable=False)
        assert row is not None
        if timedelta(seconds=perf_counter() - start) > SETTLED:
            self._hints.overtaken((handle.tenant, handle.queue) for handle in handles)
        results: list[tuple[Outcome, datetime | None] | PenstockError] = []
        for answer, visible_at, handle in zip(row["answers"], row["visible_at"], handles, strict=True):
            outcome = _outcome(answer, handle)
            results.append(outcome if isinstance(outcome, PenstockError) else (outcome, visible_at))
        return results

    async def peek(
        self, tenant: TenantId, queue: str, limit: int, now: datetime, *, shuffle: bool = False
    ) -> list[Message]:
        found = await self._connections.rows("peek", tenant, queue, limit, shuffle, now, limits.ANSWER_BYTES)
        return [rows.message(row, 0, row["dead_letter_queue"]) for row in found]

    async def find_messages(
        self, tenant: TenantId, queue: str, text: str | None, source: str | None, limit: int, now: datetime
    ) -> list[int]:
        found = await self._connections.rows("find_messages", tenant, queue, text, source, limit, now)
        return [row["id"] for row in found]

    # Redrive

    async def start_move(
        self, tenant: TenantId, source: str, destination: str | None, rate: int | None, now: datetime
    ) -> MoveTask:
        return await self._move(
            tenant, await self._connections.value("start_move", tenant, source, destination, rate, now)
        )

    async def cancel_move(self, tenant: TenantId, task_id: int, now: datetime) -> MoveTask:
        await self._connections.value("cancel_move", tenant, task_id)
        return await self._move(tenant, task_id)

    async def _move(self, tenant: TenantId, task_id: int) -> MoveTask:
        row = await self._connections.row("get_move", tenant, task_id)
        assert row is not None
        return rows.move_task(row)

    async def list_moves(self, tenant: TenantId, source: str, limit: int) -> list[MoveTask]:
        queue = await self.get_queue(tenant, source)
        return [rows.move_task(row) for row in await self._connections.rows("list_moves", queue.id, limit)]

    async def move_by_ids(
        self, tenant: TenantId, source: str, ids: Sequence[int], destination: str | None, now: datetime
    ) -> tuple[int, list[tuple[TenantId, str]]]:
        return self._moved(await self._connections.row("move_by_ids", tenant, source, list(ids), destination, now))

    async def run_moves(self, now: datetime) -> tuple[int, list[tuple[TenantId, str]]]:
        return self._moved(await self._connections.row("run_moves", now))

    def _moved(self, row: asyncpg.Record | None) -> tuple[int, list[tuple[TenantId, str]]]:
        assert row is not None
        receivers = set(zip(row["tenants"] or [], row["queues"] or [], strict=True))
        for key in receivers:
            self._hints.forget(key)
        return row["moved"], sorted(receivers)

    # Upkeep

    async def sweep(self, now: datetime, limit: int) -> int:
        return int(await self._connections.value("sweep", now, limit))

    async def sweep_poison(self, max_receives: int, now: datetime, limit: int) -> int:
        return int(await self._connections.value("sweep_poison", max_receives, now, limit))

    # Waiting

    async def watch(self, wake_up: WakeUp) -> None:
        self._listener = Listener(self._dsn, wake_up, {PRIVATE_CHANNEL: self._private.heard})
        await self._listener.open()

    async def expect(self, tenant: TenantId, queue: str, now: datetime) -> None:
        await self._connections.value("expect", tenant, queue, self._node, now, durable=False)

    # Tenants and tokens

    async def create_tenant(self, name: str, now: datetime) -> Tenant:
        await self._connections.value("create_tenant", name, now)
        row = await self._connections.row("get_tenant", name)
        assert row is not None
        return rows.tenant(row)

    async def list_tenants(self) -> list[Tenant]:
        return [rows.tenant(row) for row in await self._connections.rows("list_tenants")]

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
        row = await self._connections.row(
            "add_token", tenant, name, prefix, sha256, sorted(scopes), queues, now, expires_at, aws_secret
        )
        assert row is not None
        return rows.token(row)

    async def find_tokens(self, prefix: str) -> list[Token]:
        return [rows.token(row) for row in await self._connections.rows("find_tokens", prefix)]

    async def list_tokens(self, tenant: TenantId | None) -> list[Token]:
        return [rows.token(row) for row in await self._connections.rows("list_tokens", tenant)]

    async def end_token(self, token_id: int, at: datetime) -> Token:
        row = await self._connections.row("end_token", token_id, at)
        if row is None:
            raise TokenNotFound()
        return rows.token(row)

    async def saw_token(self, token_id: int, now: datetime) -> None:
        await self._connections.value("saw_token", token_id, now, durable=False)


def _column(values: list[Any]) -> list[Any] | None:
    """An array that holds nothing is not worth sending."""
    return values if values.count(None) < len(values) else None


def _columns(options: list[tuple[Any, ...]]) -> list[list[Any] | None]:
    """The columns of these rows; those without any value as None."""
    if options.count(_NO_OPTIONS) == len(options):
        return [None] * len(_NO_OPTIONS)
    is_json, *others = zip(*options, strict=True)
    return [list(is_json) if any(is_json) else None, *(_column(list(values)) for values in others)]


def _send_columns(entries: Sequence[Send]) -> list[Any]:
    return [
        [entry.tenant for entry in entries],
        [entry.queue for entry in entries],
        [entry.body for entry in entries],
        *_columns([_OPTIONAL(entry) for entry in entries]),
    ]


def _receive_columns(requests: Sequence[Receive], looks: Sequence[Look]) -> list[Any]:
    return [
        [request.tenant for request in requests],
        [request.queue for request in requests],
        [request.limit for request in requests],
        _column([request.visibility_timeout_s for request in requests]),
        _column([request.max_receives for request in requests]),
        _column([request.dead_letter_queue for request in requests]),
        _column([request.shuffle or None for request in requests]),
        _column([look.place for look in looks]),
        _column([look.since for look in looks]),
        _column([look.floor and look.floor.place for look in looks]),
        _column([look.floor and look.floor.at for look in looks]),
    ]


def _handle_columns(handles: Sequence[Handle]) -> tuple[list[int], list[str], list[int], list[int | None]]:
    return (
        [handle.tenant for handle in handles],
        [handle.queue for handle in handles],
        [handle.id for handle in handles],
        [handle.lease for handle in handles],
    )


def _outcome(answer: str, handle: Handle) -> Outcome | PenstockError:
    return _OUTCOMES.get(answer) or rows.entry_error(answer, handle.queue)


def _name_of(handle: Handle) -> tuple[int, str, int]:
    return handle.tenant, handle.queue, handle.id


def _done_once(handles: Sequence[Handle], answers: list[str]) -> None:
    """A message named twice in one batch is deleted once, for the first who named it."""
    done: set[tuple[int, str, int]] = set()
    for position, handle in enumerate(handles):
        if answers[position] == "done":
            name = _name_of(handle)
            if name in done:
                answers[position] = "absent"
            done.add(name)

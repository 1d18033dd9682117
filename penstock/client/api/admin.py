"""Tenants, tokens, the audit log, the state of the server, pipelines and insights."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal

from penstock.client.api import requests
from penstock.client.api.requests import Answered, given, read_as, read_each, segment
from penstock.client.exchange import Call

Scope = Literal["read", "send", "receive", "manage", "admin", "operator"]


class Tenant(Answered, frozen=True, kw_only=True):
    id: int
    name: str
    created_at: datetime


class Token(Answered, frozen=True, kw_only=True):
    id: int
    tenant: str
    name: str
    kind: str
    prefix: str
    scopes: list[str]
    queues: str
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_seen_at: datetime | None
    token: str | None = None
    """The token itself. Only the answer to a creation or a rotation has it."""
    access_key_id: str | None = None
    secret_access_key: str | None = None


class Act(Answered, frozen=True, kw_only=True):
    """An entry of the audit log. `detail` is a JSON object as text."""

    id: int
    at: datetime
    tenant: str | None
    actor: str
    act: str
    subject: str
    detail: str


class QueueStatus(Answered, frozen=True, kw_only=True):
    queue: str
    visible: int
    in_flight: int
    delayed: int
    sent: int
    oldest_age: float | None
    dead_letters: bool


class JobQueueStatus(Answered, frozen=True, kw_only=True):
    queue: str
    pending: int
    processing: int
    dead: int
    oldest_wait: float | None


class ConsumerStatus(Answered, frozen=True, kw_only=True):
    stream: str
    consumer: str
    pending: int
    lag: float


class EndpointStatus(Answered, frozen=True, kw_only=True):
    endpoint: str
    pending: int
    failing: int
    exhausted: int
    last_error: str | None


class ScheduleStatus(Answered, frozen=True, kw_only=True):
    schedule: str
    status: str
    overdue: float
    consecutive_failures: int
    last_error: str | None


class Problem(Answered, frozen=True, kw_only=True):
    kind: str
    name: str
    problem: str


class Overview(Answered, frozen=True, kw_only=True):
    at: datetime
    queues: list[QueueStatus]
    jobs: list[JobQueueStatus]
    consumers: list[ConsumerStatus]
    endpoints: list[EndpointStatus]
    schedules: list[ScheduleStatus]
    problems: list[Problem]


class PipelineRun(Answered, frozen=True, kw_only=True):
    id: int
    pipeline: str
    settings: dict[str, Any]
    state: str
    started_at: datetime
    seen_at: datetime
    finished_at: datetime | None
    rows: int
    batches: int
    lag_events: int | None
    lag: float | None
    note: str | None
    error: str | None
    progress: dict[str, Any] | None


class Pipeline(Answered, frozen=True, kw_only=True):
    name: str
    summary: str
    last_run: PipelineRun | None


class Latency(Answered, frozen=True, kw_only=True):
    p50: float
    p95: float
    p99: float
    max: float


class Insight(Answered, frozen=True, kw_only=True):
    kind: str
    name: str
    starts_at: datetime
    sent: int
    done: int
    retried: int
    failed: int
    dead: int
    retry_rate: float | None
    dead_rate: float | None
    per_second: float
    latency: Latency | None
    recorded_at: datetime


class FailureReason(Answered, frozen=True, kw_only=True):
    kind: str
    name: str
    shape: str
    count: int
    example: str
    first_at: datetime
    last_at: datetime


class Point(Answered, frozen=True, kw_only=True):
    at: datetime
    value: float


class Finding(Answered, frozen=True, kw_only=True):
    """An answer to a question, by comparing the last day with the seven days before."""

    question: str
    kind: str | None
    name: str
    before: float
    now: float
    detail: str | None
    points: list[Point] | None


class TrailStep(Answered, frozen=True, kw_only=True):
    at: datetime | None
    kind: str
    id: str
    where: str
    what: str
    detail: str


class Trail(Answered, frozen=True, kw_only=True):
    """What happened to one thing, oldest first. `complete` is False when there was more than an answer holds."""

    id: str
    steps: list[TrailStep]
    traces: list[str]
    complete: bool


# Tenants and tokens


def create_tenant(name: str) -> Call[Tenant]:
    return Call(requests.post("/v1/tenants", {"name": name}, repeatable=False), read_as(Tenant))


def tenants() -> Call[list[Tenant]]:
    return Call(requests.get("/v1/tenants"), read_each(Tenant))


def create_token(
    name: str = "",
    *,
    tenant: str | None = None,
    scopes: Sequence[Scope] = ("admin",),
    queues: str = "*",
    lifetime: int | None = None,
    aws: bool = False,
) -> Call[Token]:
    """Create a token, or with `aws` an AWS access key. Its secret is in this answer only."""
    body = given(name=name, tenant=tenant, scopes=list(scopes), queues=queues, lifetime=lifetime, aws=aws)
    return Call(requests.post("/v1/tokens", body, repeatable=False), read_as(Token))


def tokens(*, tenant: str | None = None) -> Call[list[Token]]:
    return Call(requests.get("/v1/tokens", {"tenant": tenant}), read_each(Token))


def rotate_token(token_id: int, *, overlap: int = 0) -> Call[Token]:
    """Create a token in place of this one, which remains valid for `overlap` seconds."""
    path = f"/v1/tokens/{segment(token_id)}/rotate"
    return Call(requests.post(path, {"overlap": overlap}, repeatable=False), read_as(Token))


def revoke_token(token_id: int) -> Call[None]:
    return Call(requests.delete(f"/v1/tokens/{segment(token_id)}"), requests.nothing)


def audit(*, tenant: str | None = None, before: int | None = None, limit: int = 100) -> Call[list[Act]]:
    """Administrative actions, newest first."""
    return Call(requests.get("/v1/audit", {"tenant": tenant, "before": before, "limit": limit}), read_each(Act))


# The server


def status(*, stuck_after: int | None = None) -> Call[Overview]:
    """The state of everything that the tenant has, and what looks wrong."""
    return Call(requests.get("/v1/status", {"stuck_after": stuck_after}), read_as(Overview))


def follow(id: str) -> Call[Trail]:
    """The timeline of a message, job, event, delivery, publish or trace."""
    return Call(requests.get("/v1/follow", {"id": id}), read_as(Trail))


def version() -> Call[str]:
    return Call(requests.get("/livez"), lambda found: str(found["version"]))


# Pipelines and insights


def pipelines() -> Call[list[Pipeline]]:
    return Call(requests.get("/v1/pipelines"), read_each(Pipeline))


def pipeline_runs(*, pipeline: str | None = None, limit: int = 100) -> Call[list[PipelineRun]]:
    return Call(requests.get("/v1/pipelines/runs", {"pipeline": pipeline, "limit": limit}), read_each(PipelineRun))


def insights(
    *,
    kind: str | None = None,
    name: str | None = None,
    step: Literal["hour", "day"] = "hour",
    since: datetime | None = None,
    until: datetime | None = None,
    after: str | None = None,
    limit: int | None = None,
) -> Call[list[Insight]]:
    """Counts and latencies per hour or day, newest first. `since` and `until` are `from` and `to` of the REST API."""
    query = {"kind": kind, "name": name, "step": step, "from": since, "to": until, "after": after, "limit": limit}
    return Call(requests.get("/v1/insights", query), read_each(Insight))


def insight_errors(
    *,
    kind: str | None = None,
    name: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    limit: int = 20,
) -> Call[list[FailureReason]]:
    """The most frequent errors, summed over the time."""
    query = {"kind": kind, "name": name, "from": since, "to": until, "limit": limit}
    return Call(requests.get("/v1/insights/errors", query), read_each(FailureReason))


def findings(*, points: bool = False) -> Call[list[Finding]]:
    """What slows down, grows, fills up, or fails in a new way; with `points`, the data of a chart of each."""
    return Call(requests.get("/v1/insights/findings", {"points": points or None}), read_each(Finding))

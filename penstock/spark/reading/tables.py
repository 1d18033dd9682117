"""The tables that Spark can read besides events: their columns, SQL sources, and how they are split into pieces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql.types import BooleanType, DoubleType, IntegerType, LongType, StringType, TimestampType

from penstock.spark.database import literal, literals
from penstock.spark.reading.columns import Column

TEXT, INT, LONG, FLAG, MOMENT, REAL = (
    StringType(), IntegerType(), LongType(), BooleanType(), TimestampType(), DoubleType(),
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    source: str
    """The `from` clause; `t` is the row with the tenant. `{since}` and `{until}` are replaced by the time bounds."""
    tenant: str
    """Expression for the tenant's id; empty when there is none."""
    tenant_name: str = ""
    """Expression for the tenant's name, for tables of all tenants that can be restricted to one."""
    name: str
    """Expression that `subscribe` selects by."""
    split: str
    """Integer expression that distributes the rows over the pieces."""
    time: str
    """Time that `startingTimestamp` and `endingTimestamp` select by."""
    columns: tuple[Column, ...]

    def named(self, names: Sequence[str], pattern: str | None) -> list[str]:
        """The conditions of `subscribe` and `subscribePattern`."""
        found = []
        if names:
            found.append(f"{self.name} = any ({literals(names, 'text')})")
        if pattern is not None:
            found.append(f"{self.name} ~ {literal(f'^(?:{pattern})$')}")
        return found


TABLES: dict[str, Table] = {
    "messages": Table(
        source="penstock.messages as t join penstock.queues as q on q.bin_id = t.bin_id",
        tenant="q.tenant_id",
        name="q.name",
        split="t.id",
        time="t.sent_at",
        columns=(
            Column("queue", TEXT, "q.name"),
            Column("id", LONG, "t.id"),
            Column("body", TEXT, "t.body"),
            Column("state", TEXT, "(array['ready', 'in flight', 'delayed', 'blocked'])[t.state + 1]"),
            Column("priority", INT, "t.priority::integer"),
            Column("receives", INT, "t.receives"),
            Column("sent_at", MOMENT, "t.sent_at"),
            Column("visible_at", MOMENT, "t.visible_at"),
            Column("expires_at", MOMENT, "t.expires_at"),
            Column("first_received_at", MOMENT, "t.first_received_at"),
            Column("group_id", TEXT, "t.group_id"),
            Column("dedup_id", TEXT, "t.dedup_id"),
            Column("attributes", TEXT, "t.attributes::text"),
            Column("headers", TEXT, "t.headers::text"),
        ),
    ),
    "archive": Table(
        source="penstock.archive as t",
        tenant="t.tenant_id",
        name="t.queue",
        split="t.id",
        time="t.archived_at",
        columns=(
            Column("queue", TEXT, "t.queue"),
            Column("id", LONG, "t.id"),
            Column("body", TEXT, "t.body"),
            Column("priority", INT, "t.priority::integer"),
            Column("receives", INT, "t.receives"),
            Column("sent_at", MOMENT, "t.sent_at"),
            Column("first_received_at", MOMENT, "t.first_received_at"),
            Column("archived_at", MOMENT, "t.archived_at"),
            Column("group_id", TEXT, "t.group_id"),
            Column("attributes", TEXT, "t.attributes::text"),
            Column("headers", TEXT, "t.headers::text"),
        ),
    ),
    "jobs": Table(
        source="""(
          select j.tenant_id, j.queue_id, j.id, j.state, j.priority, j.attempts, j.retry_count, j.created_at, j.run_at,
            j.started_at, j.finished_at, j.error, j.payload, null::json as result
          from penstock.jobs as j
          union all
          select f.tenant_id, f.queue_id, f.id, f.state, f.priority, f.attempts, f.retry_count, f.created_at, f.run_at,
            f.started_at, f.finished_at, f.error, f.payload, f.result
          from penstock.finished_jobs as f
        ) as t join penstock.job_queues as q on q.id = t.queue_id""",
        tenant="t.tenant_id",
        name="q.name",
        split="t.id",
        time="t.created_at",
        columns=(
            Column("queue", TEXT, "q.name"),
            Column("id", LONG, "t.id"),
            Column(
                "status", TEXT,
                "(array['pending', 'processing', 'pending', 'dead', 'completed', 'cancelled'])[t.state + 1]",
            ),
            Column("priority", INT, "t.priority"),
            Column("attempts", INT, "t.attempts"),
            Column("retry_count", INT, "t.retry_count"),
            Column("created_at", MOMENT, "t.created_at"),
            Column("run_at", MOMENT, "t.run_at"),
            Column("started_at", MOMENT, "t.started_at"),
            Column("finished_at", MOMENT, "t.finished_at"),
            Column("error", TEXT, "t.error"),
            Column("payload", TEXT, "t.payload::text"),
            Column("result", TEXT, "t.result::text"),
        ),
    ),
    "attempts": Table(
        source="penstock.job_attempts as t join penstock.job_queues as q on q.id = t.queue_id",
        tenant="q.tenant_id",
        name="q.name",
        split="t.job_id",
        time="t.ended_at",
        columns=(
            Column("queue", TEXT, "q.name"),
            Column("job_id", LONG, "t.job_id"),
            Column("attempt", INT, "t.attempt"),
            Column("worker", TEXT, "t.worker"),
            Column("started_at", MOMENT, "t.started_at"),
            Column("ended_at", MOMENT, "t.ended_at"),
            Column("outcome", TEXT, "t.outcome"),
            Column("error", TEXT, "t.error"),
        ),
    ),
    "deliveries": Table(
        source="penstock.deliveries as t",
        tenant="t.tenant_id",
        name="coalesce(t.topic, t.routing_key)",
        split="t.id",
        time="t.created_at",
        columns=(
            Column("id", LONG, "t.id"),
            Column("topic", TEXT, "t.topic"),
            Column("routing_key", TEXT, "t.routing_key"),
            Column("message_id", TEXT, "t.message_id"),
            Column("endpoint", TEXT, "t.endpoint"),
            Column("state", TEXT, "(array['pending', 'sending', 'delivered', 'exhausted'])[t.state + 1]"),
            Column("attempts", INT, "t.attempts"),
            Column("last_status", INT, "t.last_status"),
            Column("last_error", TEXT, "t.last_error"),
            Column("created_at", MOMENT, "t.created_at"),
            Column("finished_at", MOMENT, "t.finished_at"),
        ),
    ),
    "dead_letters": Table(
        source="pgque.dead_letter as t join pgque.queue as q on q.queue_id = t.dl_queue_id",
        tenant="",
        name="q.queue_name",
        split="t.dl_id",
        time="t.dl_time",
        columns=(
            Column("stream", TEXT, "q.queue_name"),
            Column("id", LONG, "t.dl_id"),
            Column("consumer", TEXT, "t.dl_consumer_name"),
            Column("failed_at", MOMENT, "t.dl_time"),
            Column("reason", TEXT, "t.dl_reason"),
            Column("attempts", INT, "coalesce(t.ev_retry, 0) + 1"),
            Column("offset", LONG, "t.ev_id"),
            Column("timestamp", MOMENT, "t.ev_time"),
            Column("type", TEXT, "t.ev_type"),
            Column("value", TEXT, "t.ev_data"),
        ),
    ),
    "facts": Table(
        source="penstock.facts({since}, {until}) as t",
        tenant="",
        tenant_name="t.tenant",
        name="t.name",
        split="t.id",
        time="t.at",
        columns=(
            Column("kind", TEXT, "t.kind"),
            Column("tenant", TEXT, "t.tenant"),
            Column("name", TEXT, "t.name"),
            Column("at", MOMENT, "t.at"),
            *(Column(count, INT, f"t.{count}") for count in ("sent", "done", "retried", "failed", "dead")),
            Column("latency_s", REAL, "t.latency_s"),
            Column("error", TEXT, "t.error"),
        ),
    ),
    "insights": Table(
        source="penstock.insights as t",
        tenant="t.tenant_id",
        name="t.name",
        split="extract(hour from t.starts_at)::integer",
        time="t.starts_at",
        columns=(
            Column("kind", TEXT, "t.kind"),
            Column("name", TEXT, "t.name"),
            Column("step", TEXT, "t.step"),
            Column("starts_at", MOMENT, "t.starts_at"),
            *(Column(count, LONG, f"t.{count}") for count in ("sent", "done", "retried", "failed", "dead")),
            *(
                Column(number, REAL, f"t.{number}")
                for number in ("retry_rate", "dead_rate", "per_second", "p50_s", "p95_s", "p99_s", "max_s")
            ),
        ),
    ),
    "findings": Table(
        source="penstock.tenants as n cross join lateral penstock.findings(n.id, now(), n.id = 1) as t",
        tenant="n.id",
        name="t.name",
        # One piece: the function compares everything with everything before.
        split="0",
        time="now()",
        columns=(
            Column("question", TEXT, "t.question"),
            Column("kind", TEXT, "t.kind"),
            Column("name", TEXT, "t.name"),
            Column("before", REAL, "t.before"),
            Column("now", REAL, "t.now"),
            Column("detail", TEXT, "t.detail"),
        ),
    ),
}  # fmt: skip

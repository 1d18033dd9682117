"""A server with something of every kind on it, and a checksum of all that its database holds."""

from __future__ import annotations

import hashlib
import sqlite3
from pathlib import Path
from typing import Any

import httpx
import psycopg
from psycopg import sql


async def furnish(http: httpx.AsyncClient, *, streams: bool) -> dict[str, Any]:
    """Queues with ready, hidden, delayed and dead messages, jobs in all states, a topic, a webhook, a schedule."""

    async def post(path: str, body: Any = None) -> Any:
        answer = await http.post(path, json=body)
        assert answer.is_success, (path, answer.text)
        return answer.json() if answer.content else None

    await post("/v1/queues", {"name": "orders-failed"})
    limits = {"max_receives": 1, "dead_letter_queue": "orders-failed", "visibility_timeout": 0}
    await post("/v1/queues", {"name": "orders", **limits})
    for number in range(3):
        await post("/v1/queues/orders/messages", {"message": {"order": number}})
    await http.get("/v1/queues/orders/messages?max=3")
    await http.get("/v1/queues/orders/messages?max=3")
    await post("/v1/queues/orders/messages", {"message": "later", "delay": 600})
    done = await post("/jobs", {"queue_name": "emails", "payload": {"to": "ada"}})
    dead = await post("/jobs", {"queue_name": "emails", "payload": {"to": "eve"}, "max_retries": 0})
    waiting = await post("/jobs", {"queue_name": "reports", "payload": {"n": 1}})
    for job in (done, dead):
        leased = await post("/queues/emails/lease", {"worker_id": "w1"})
        assert leased["job"]["id"] == job["job_id"]
        report = {"lease_token": leased["lease_token"]}
        failure = {"error": "SMTPRecipientsRefused: no such mailbox"}
        await post(
            f"/jobs/{job['job_id']}/{'ack' if job is done else 'nack'}", report | ({} if job is done else failure)
        )
    await http.put("/queues/emails/limits", json={"concurrency": 2})
    await post("/v1/schedules", {"name": "nightly", "target": "orders", "cron": "0 2 * * *", "message": "report"})
    await post("/v1/topics", {"name": "sales"})
    await post("/v1/events/order.*/subscriptions", {"protocol": "http", "endpoint": "http://127.0.0.1:9/hook"})
    await post("/v1/events/order.paid", {"message": {"order": 1}})
    if streams:
        await post("/v1/streams", {"name": "clicks"})
        await post("/v1/streams/clicks/consumers", {"name": "counter"})
        await post("/v1/streams/clicks/events", {"payload": {"page": "/"}})
    return {"dead": dead["job_id"], "waiting": waiting["job_id"]}


def sqlite_checksum(path: Path) -> str:
    with sqlite3.connect(path) as connection:
        text = "\n".join(connection.iterdump())
    return hashlib.sha256(text.encode()).hexdigest()


def postgres_checksum(dsn: str) -> str:
    """Of every row of every table, and of every sequence."""
    digest = hashlib.sha256()
    with psycopg.connect(dsn) as connection:
        tables = connection.execute(
            "select schemaname, tablename from pg_tables where schemaname in ('penstock', 'pgque') order by 1, 2"
        ).fetchall()
        for schema, table in tables:
            query = sql.SQL("select coalesce(md5(string_agg(t::text, '|' order by t::text)), '') from {}.{} as t")
            [[found]] = connection.execute(query.format(sql.Identifier(schema), sql.Identifier(table))).fetchall()
            digest.update(f"{schema}.{table}={found}\n".encode())
        sequences = connection.execute(
            "select schemaname, sequencename, last_value from pg_sequences"
            " where schemaname in ('penstock', 'pgque') order by 1, 2"
        ).fetchall()
    digest.update(repr(sequences).encode())
    return digest.hexdigest()

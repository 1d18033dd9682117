"""Jobs and messages inside the caller's own database transaction: they exist when, and only when, it commits.

The caller's connection runs one SQL function, so the server need not be reachable. It must be connected to the
database of the server, as a user with the role penstock_writer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from penstock.client.api.new_jobs import NewJob, encode
from penstock.errors import Invalid

ENQUEUE = """
select penstock.enqueue_job(
  cast(:queue as text), cast(:payload as jsonb), priority => cast(:priority as integer),
  max_retries => cast(:max_retries as integer), run_at => cast(cast(:run_at as text) as timestamptz),
  unique_key => cast(:unique_key as text), unique_s => cast(:unique_s as integer),
  backoff => cast(:backoff as jsonb), after => cast(cast(:after as text) as uuid[]),
  tags => array(select jsonb_array_elements_text(cast(:tags as jsonb)))
)
"""
SEND = "select penstock.send(cast(:queue as text), cast(:message as jsonb))"
"""Statements with parameters in the form of SQLAlchemy; the other drivers have their own."""

_PARAMETER = re.compile(r"(?<!:):(\w+)")


def enqueue(connection: Any, job: NewJob) -> str:
    """Store a job in the transaction of a psycopg connection, a SQLAlchemy connection or session, or Django's
    connection; its id."""
    return str(_run(connection, ENQUEUE, _job(job)))


async def enqueue_async(connection: Any, job: NewJob) -> str:
    """The same for asyncpg, for psycopg's AsyncConnection, and for SQLAlchemy's asyncio extension."""
    return str(await _run_async(connection, ENQUEUE, _job(job)))


def send(connection: Any, queue: str, message: Any) -> int:
    """Send a message, which is any JSON value, in the caller's transaction; its id."""
    return int(_run(connection, SEND, {"queue": queue, "message": json.dumps(message)}))


async def send_async(connection: Any, queue: str, message: Any) -> int:
    """The same, awaited."""
    return int(await _run_async(connection, SEND, {"queue": queue, "message": json.dumps(message)}))


def _run(connection: Any, statement: str, values: Mapping[str, Any]) -> Any:
    kind = _kind(connection)
    if kind == "sqlalchemy":
        from sqlalchemy import text

        return connection.execute(text(statement), values).scalar_one()
    if kind in ("psycopg", "django"):
        with connection.cursor() as cursor:
            cursor.execute(_PARAMETER.sub(r"%(\1)s", statement), values)
            [found] = cursor.fetchone()
            return found
    raise Invalid(
        f"connections of {kind} are not supported here; known: psycopg, sqlalchemy, django", field="connection"
    )


async def _run_async(connection: Any, statement: str, values: Mapping[str, Any]) -> Any:
    kind = _kind(connection)
    if kind == "asyncpg":
        names = list(dict.fromkeys(_PARAMETER.findall(statement)))
        numbered = _PARAMETER.sub(lambda found: f"${names.index(found[1]) + 1}", statement)
        return await connection.fetchval(numbered, *(values[name] for name in names))
    if kind == "psycopg":
        async with connection.cursor() as cursor:
            await cursor.execute(_PARAMETER.sub(r"%(\1)s", statement), values)
            [found] = await cursor.fetchone()
            return found
    if kind == "sqlalchemy":
        from sqlalchemy import text

        return (await connection.execute(text(statement), values)).scalar_one()
    raise Invalid(
        f"connections of {kind} are not supported here; known: asyncpg, psycopg, sqlalchemy", field="connection"
    )


def _unknown(kind: str, known: str) -> Invalid:
    return Invalid(f"connections of {kind} are not supported here; known: {known}", field="connection")


def _kind(connection: Any) -> str:
    """The package of the connection, told by its class or by one it is made from."""
    packages = [kind.__module__.partition(".")[0] for kind in type(connection).__mro__]
    return next((name for name in packages if name in ("psycopg", "asyncpg", "sqlalchemy", "django")), packages[0])


def _job(job: NewJob) -> dict[str, Any]:
    body = json.loads(encode(job).body)
    if any(isinstance(after, int) for after in body.get("after", ())):
        raise Invalid("after must have ids in a transaction of the caller", field="after")
    backoff = body.get("backoff")
    return {
        "queue": body["queue_name"],
        "payload": json.dumps(body["payload"]),
        "priority": body.get("priority", 0),
        "max_retries": body.get("max_retries", 3),
        "run_at": body.get("run_at"),
        "unique_key": body.get("unique_key"),
        "unique_s": body.get("unique_seconds", 3600),
        "backoff": None if backoff is None else json.dumps(backoff),
        "after": "{" + ",".join(body["after"]) + "}" if body.get("after") else None,
        "tags": json.dumps(body.get("tags", [])),
    }

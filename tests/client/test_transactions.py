"""Jobs and messages in the caller's own transaction, with each of the usual drivers."""

from __future__ import annotations

from typing import Any

import asyncpg
import psycopg
import pytest

from penstock import Invalid, NewJob
from penstock.client import transactions

JOB = NewJob("invoices", {"customer": "ada"}, priority=5, run_at="2030-01-01T00:00:00Z", backoff={"base": 2, "cap": 60})


def stored(dsn: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(dsn) as connection:
        return connection.execute(
            "select j.id, j.priority, j.payload::text from penstock.jobs as j order by j.id"
        ).fetchall()


def test_psycopg(migrated_database: str) -> None:
    with psycopg.connect(migrated_database) as connection:
        first = transactions.enqueue(connection, JOB)
        transactions.enqueue(connection, NewJob("invoices", {"n": 2}, after=[first]))
        assert stored(migrated_database) == []
        connection.commit()
        transactions.enqueue(connection, JOB)
        connection.rollback()

    assert [row[1:] for row in stored(migrated_database)] == [(5, '{"customer": "ada"}'), (0, '{"n": 2}')]


async def test_asyncpg_and_async_psycopg(migrated_database: str) -> None:
    connection = await asyncpg.connect(migrated_database)
    try:
        async with connection.transaction():
            first = await transactions.enqueue_async(connection, JOB)
            await transactions.enqueue_async(connection, NewJob("invoices", {"n": 2}, after=[first]))
        begun = connection.transaction()
        await begun.start()
        await transactions.enqueue_async(connection, JOB)
        await begun.rollback()
    finally:
        await connection.close()
    async with await psycopg.AsyncConnection.connect(migrated_database) as other:
        await transactions.enqueue_async(other, NewJob("invoices", {"n": 3}))

    assert [row[2] for row in stored(migrated_database)] == ['{"customer": "ada"}', '{"n": 2}', '{"n": 3}']


def test_sqlalchemy(migrated_database: str) -> None:
    from sqlalchemy import create_engine
    from sqlalchemy.orm import Session

    engine = create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(migrated_database))
    with Session(engine) as session:
        transactions.enqueue(session, JOB)
        session.rollback()
        transactions.enqueue(session, NewJob("invoices", {"n": 1}))
        session.commit()
    with engine.begin() as connection:
        transactions.enqueue(connection, NewJob("invoices", {"n": 2}))
    engine.dispose()
    del engine

    assert [row[2] for row in stored(migrated_database)] == ['{"n": 1}', '{"n": 2}']


def test_a_message_is_sent_with_the_transaction(migrated_database: str) -> None:
    with psycopg.connect(migrated_database) as connection:
        connection.execute("select penstock.create_queue('orders')")
        transactions.send(connection, "orders", {"order": 17})
        connection.rollback()
        connection.execute("select penstock.create_queue('orders')")
        transactions.send(connection, "orders", {"order": 18})

    with psycopg.connect(migrated_database) as connection:
        found = connection.execute(
            "select m.body::jsonb from penstock.receive('orders', max_messages => 10) as m"
        ).fetchall()
    assert found == [({"order": 18},)]


def test_other_connections_are_refused() -> None:
    import sqlite3

    with sqlite3.connect(":memory:") as connection, pytest.raises(Invalid, match="known: psycopg, sqlalchemy, django"):
        transactions.enqueue(connection, JOB)
    with pytest.raises(Invalid, match="after must have ids"):
        transactions.enqueue(object(), NewJob("a", {}, after=[0]))

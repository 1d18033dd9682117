"""Streams for tests to read: made, filled and ticked by hand."""

from __future__ import annotations

from collections.abc import Iterable

import psycopg


def make(connection: psycopg.Connection, name: str) -> None:
    connection.execute("select pgque.create_queue(%s)", [name])


def send(connection: psycopg.Connection, name: str, values: Iterable[str], kind: str = "plain") -> list[int]:
    row = connection.execute("select pgque.send_batch(%s, %s, %s::text[])", [name, kind, list(values)]).fetchone()
    assert row is not None
    return list(row[0])


def tick(connection: psycopg.Connection, name: str) -> int:
    row = connection.execute("select pgque.tick_if_waiting(%s)", [name]).fetchone()
    assert row is not None
    return int(row[0])

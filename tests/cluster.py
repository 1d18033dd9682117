"""A PostgreSQL for the tests: the one named by PENSTOCK_TEST_DSN, or one of our own for each test process."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from penstock.store.postgres.embedded import EmbeddedPostgres

FAST = {"fsync": "off", "full_page_writes": "off", "shared_buffers": "64MB"}
"""The data of a test need not outlive the machine. Tests about durability use a server of their own."""


@contextmanager
def private_server(directory: Path) -> Iterator[str]:
    """The DSN of a database in which tests may do as they like."""
    if given := os.environ.get("PENSTOCK_TEST_DSN"):
        with empty_database(given) as dsn:
            yield dsn
        return
    server = EmbeddedPostgres(directory, settings=FAST)
    server.start()
    try:
        yield server.dsn
    finally:
        server.stop()


@contextmanager
def empty_database(dsn: str) -> Iterator[str]:
    """A new database beside the given one, gone afterwards whoever is still connected."""
    name = f"penstock_test_{secrets.token_hex(6)}"
    _execute(dsn, "create database {} template template0", name)
    try:
        yield with_database(dsn, name)
    finally:
        _execute(dsn, "drop database {} with (force)", name)


def with_database(dsn: str, name: str) -> str:
    """The same server, another database; as a URL when it was one, since asyncpg reads nothing else."""
    if "://" not in dsn:
        return psycopg.conninfo.make_conninfo(dsn, dbname=name)
    head, _, query = dsn.partition("?")
    scheme, _, rest = head.partition("://")
    authority = rest.partition("/")[0]
    if "dbname" in conninfo_to_dict(f"postgresql:///?{query}"):
        query = "&".join(pair for pair in query.split("&") if not pair.startswith("dbname="))
    return f"{scheme}://{authority}/{name}" + (f"?{query}" if query else "")


def _execute(dsn: str, statement: str, name: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(sql.SQL(statement).format(sql.Identifier(name)))

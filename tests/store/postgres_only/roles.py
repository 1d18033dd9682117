"""SQL users: who may do what, and what PostgreSQL says when they may not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import psycopg
from psycopg import sql

Connection = psycopg.Connection[Any]


class User:
    """A connection to the SQL API, in a tenant of its own."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def rows(self, query: str, *arguments: object) -> list[tuple[Any, ...]]:
        return self.connection.execute(query.encode(), arguments).fetchall()

    def one(self, query: str, *arguments: object) -> Any:
        [[value]] = self.rows(query, *arguments)
        return value

    def become(self, role: str) -> None:
        self.connection.execute(sql.SQL("set role {}").format(sql.Identifier(role)))

    def refused(self, query: str, *arguments: object) -> str | None:
        """The code of the error the query must end in; whatever it did is undone."""
        return self.complaint(query, *arguments)[0]

    def complaint(self, query: str, *arguments: object) -> tuple[str | None, str | None]:
        """The code of the error, and the field it is about."""
        try:
            with self.connection.transaction():
                self.connection.execute(query.encode(), arguments).fetchall()
        except psycopg.Error as error:
            return error.sqlstate, error.diag.message_detail
        raise AssertionError(f"passed: {query}")


@contextmanager
def user_of(dsn: str) -> Iterator[User]:
    """Someone with every right, in a new tenant."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        name = f"tenant-{uuid4().hex}"
        connection.execute("insert into penstock.tenants (name) values (%s)", [name])
        connection.execute("select set_config('penstock.tenant', %s, false)", [name])
        yield User(connection)


@contextmanager
def role_in(dsn: str, *memberships: str) -> Iterator[str]:
    """A new role of these groups, gone afterwards with all it made."""
    name = f"penstock_test_{uuid4().hex}"
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(sql.SQL("create role {}").format(sql.Identifier(name)))
        for group in memberships:
            connection.execute(sql.SQL("grant {} to {}").format(sql.Identifier(group), sql.Identifier(name)))
        try:
            yield name
        finally:
            connection.execute(sql.SQL("drop owned by {0} cascade; drop role {0}").format(sql.Identifier(name)))

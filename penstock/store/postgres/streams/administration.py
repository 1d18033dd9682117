"""Streams of a database as the program `pgque` administers them, with or without a Penstock server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import asyncpg

from penstock.errors import Invalid, PenstockError, Unsupported
from penstock.store.postgres import sql
from penstock.store.postgres.connections import SQL, translated
from penstock.store.postgres.migrate import migrate_connection

Row = Mapping[str, Any]


class Administration:
    """A connection for one command."""

    def __init__(self, connection: asyncpg.Connection) -> None:
        self._connection = connection

    @classmethod
    async def open(cls, dsn: str | None, database: str | None = None) -> Self:
        """Without a DSN the variables of libpq, such as PGHOST, name the server."""
        try:
            options = {"database": database} if database is not None else {}
            name = {"application_name": "pgque"}
            return cls(await asyncpg.connect(dsn, server_settings=name, timeout=15, **options))
        except (TimeoutError, OSError, ValueError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
            raise PenstockError(f"cannot connect to PostgreSQL: {error or type(error).__name__}") from error

    async def rows(self, name: str, *arguments: Any) -> Sequence[Row]:
        """Run a statement of administration.sql."""
        try:
            with translated():
                return [dict(row) for row in await self._connection.fetch(SQL[name], *arguments)]
        except (asyncpg.UndefinedFunctionError, asyncpg.UndefinedTableError, asyncpg.InvalidSchemaNameError) as error:
            raise Unsupported("pgque is not installed in this database, or is too old; run: pgque install") from error
        except asyncpg.InvalidTextRepresentationError as error:
            raise Invalid(error.message) from error
        except asyncpg.PostgresError as error:
            raise PenstockError(". ".join(filter(None, (error.message, error.hint)))) from error

    async def install(self) -> str:
        """Install or upgrade streams, and with them the rest of a database that a server uses; the version."""
        [found] = await self.rows("pgque_installed")
        with translated():
            if found["has_server"]:
                # Its migrations say which functions it has: they must stay true.
                await migrate_connection(self._connection)
            else:
                async with self._connection.transaction():
                    await self._connection.execute(sql.whole("pgque"))
        [row] = await self.rows("pgque_version")
        return str(row["version"])

    async def close(self) -> None:
        await self._connection.close(timeout=5)

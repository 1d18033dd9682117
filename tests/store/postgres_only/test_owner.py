"""The role that a server connects as: the owner of its schemas, and on a managed database no superuser."""

from __future__ import annotations

import asyncpg

from penstock.store.postgres.migrate import migrate_connection


async def test_an_owner_who_is_no_superuser_can_migrate_and_send(fresh_database: str) -> None:
    connection = await asyncpg.connect(fresh_database)
    try:
        database = await connection.fetchval("select current_database()")
        owner = f"owner_{database}"
        await connection.execute(f'create role "{owner}"; grant create on database "{database}" to "{owner}"')
        try:
            await connection.execute(f'set role "{owner}"')

            assert "functions" in await migrate_connection(connection)

            await connection.execute("select penstock.create_queue('orders')")
            assert await connection.fetchval("""select penstock.send('orders', '{"total": 40}'::jsonb)""") == 1
        finally:
            await connection.execute("reset role")
            await connection.execute(f'drop owned by "{owner}" cascade; drop role "{owner}"')
    finally:
        await connection.close()

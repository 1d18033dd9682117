"""From an empty database to ours: once, with any number of starts.

`tests/store/schema.sql` shows the result, `docs/sql-reference.md` its functions for users. After a change of the
schema, write both anew and read the difference:

    PENSTOCK_WRITE_SCHEMA=1 make test ARGS="tests/store/postgres_only/test_migrations.py -n 0"
"""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
from pathlib import Path

import asyncpg
import psycopg
import pytest

from penstock.errors import Unsupported
from penstock.store.postgres import manual, sql
from penstock.store.postgres import migrate as migrating
from penstock.store.postgres.embedded.binaries import find_installation
from penstock.store.postgres.migrate import migrate

SCHEMA = Path(__file__).parent.parent / "schema.sql"
REFERENCE = Path(__file__).parents[3] / "docs" / "sql-reference.md"

HEADER = """\
-- A fresh database, as pg_dump shows it; the bodies of the functions are left out. Not applied anywhere.
-- Written by PENSTOCK_WRITE_SCHEMA=1 pytest tests/store/postgres_only/test_migrations.py

"""

Sources = list[tuple[str, str]]


def everything() -> list[str]:
    return [*(name for name, _ in sql.sources("migrations")), "streams", "functions"]


def with_sources(monkeypatch: pytest.MonkeyPatch, folder: str, *extra: tuple[str, str]) -> None:
    """As if a release had these files too."""
    known = sql.sources

    def sources(wanted: str) -> Sources:
        return sorted([*known(wanted), *(extra if wanted == folder else ())])

    monkeypatch.setattr(sql, "sources", sources)


def one(dsn: str, query: str) -> object:
    with psycopg.connect(dsn, autocommit=True) as connection:
        row = connection.execute(query.encode()).fetchone()
    return row and row[0]


async def test_an_empty_database_is_brought_up_to_date(fresh_database: str) -> None:
    assert await migrate(fresh_database) == everything()

    assert one(fresh_database, "select penstock.create_queue('work')") is True
    assert one(fresh_database, "select penstock.send('work', 'a')") == 1


async def test_running_again_applies_nothing_and_loses_nothing(fresh_database: str) -> None:
    await migrate(fresh_database)
    one(fresh_database, "select penstock.create_queue('work'), penstock.send('work', 'a')")

    assert await migrate(fresh_database) == []
    assert one(fresh_database, "select body from penstock.pop('work')") == "a"


async def test_twenty_at_once_do_it_once(fresh_database: str) -> None:
    applied = await asyncio.gather(*(migrate(fresh_database) for _ in range(20)))

    assert sorted(applied, key=len) == [[]] * 19 + [everything()]


async def test_a_dry_run_says_what_is_missing_and_does_nothing(fresh_database: str) -> None:
    assert await migrate(fresh_database, dry_run=True) == everything()
    assert one(fresh_database, "select to_regnamespace('penstock')") is None

    await migrate(fresh_database)
    assert await migrate(fresh_database, dry_run=True) == []


async def test_a_database_of_a_newer_release_is_refused_and_left_alone(fresh_database: str) -> None:
    await migrate(fresh_database)
    one(fresh_database, "insert into penstock.migrations values ('9999_future.sql', 'x') returning name")
    one(fresh_database, "update penstock.migrations set sha256 = 'newer' where name = 'functions' returning name")

    with pytest.raises(Unsupported, match=r"newer release of Penstock \(9999_future\.sql\)"):
        await migrate(fresh_database)
    assert one(fresh_database, "select sha256 from penstock.migrations where name = 'functions'") == "newer"


async def test_a_migration_that_was_edited_is_refused(fresh_database: str) -> None:
    await migrate(fresh_database)
    one(fresh_database, "update penstock.migrations set sha256 = 'x' where name like '0001%' returning name")

    with pytest.raises(Unsupported, match=r"0001_ground\.sql differs"):
        await migrate(fresh_database)


async def test_a_new_migration_is_applied_and_the_functions_after_it(
    fresh_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await migrate(fresh_database)
    one(fresh_database, "select penstock.create_queue('work'), penstock.send('work', 'a')")
    added = "alter table penstock.messages add column extra text; alter table penstock.queues add column extra text;"
    with_sources(monkeypatch, "migrations", ("9000_new.sql", added))

    assert await migrate(fresh_database) == ["9000_new.sql", "functions"]
    assert one(fresh_database, "select body from penstock.pop('work')") == "a"


async def test_functions_that_changed_are_applied_again(fresh_database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    await migrate(fresh_database)
    with_sources(
        monkeypatch,
        "penstock",
        ("950_new.sql", "create or replace function penstock.answer() returns integer language sql as 'select 42';"),
    )

    assert await migrate(fresh_database) == ["functions"]
    assert one(fresh_database, "select penstock.answer()") == 42
    assert one(fresh_database, "select has_function_privilege('public', 'penstock.answer()', 'execute')") is False
    assert await migrate(fresh_database) == []


async def test_a_migration_that_fails_leaves_nothing_half_done(
    fresh_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as broken:
        with_sources(broken, "migrations", ("9000_bad.sql", "create table penstock.half (id int); select 1 / 0;"))
        with pytest.raises(asyncpg.DivisionByZeroError):
            await migrate(fresh_database)

    assert one(fresh_database, "select to_regclass('penstock.half')") is None
    assert await migrate(fresh_database) == ["streams", "functions"]


async def test_a_postgresql_that_is_too_old_is_refused(fresh_database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migrating, "_OLDEST", 990000)

    with pytest.raises(Unsupported, match="too old; Penstock needs 14 or later"):
        await migrate(fresh_database)
    assert one(fresh_database, "select to_regnamespace('penstock')") is None


def test_the_oldest_postgresql_is_14() -> None:
    assert migrating._OLDEST == 140000


async def test_the_committed_schema_is_that_of_a_fresh_database(fresh_database: str) -> None:
    """A stale file is written anew with PENSTOCK_WRITE_SCHEMA=1."""
    pg_dump = find_installation()
    if int(str(one(fresh_database, "show server_version_num"))) // 10000 != pg_dump.version:
        pytest.skip("the committed schema is that of the embedded PostgreSQL")
    await migrate(fresh_database)
    dumped = HEADER + dump(pg_dump.program("pg_dump"), fresh_database)
    described = await manual.reference(fresh_database)

    if os.environ.get("PENSTOCK_WRITE_SCHEMA"):
        SCHEMA.write_text(dumped, encoding="utf-8")
        REFERENCE.write_text(described, encoding="utf-8")
    assert SCHEMA.read_text("utf-8") == dumped
    assert REFERENCE.read_text("utf-8") == described


async def test_every_function_for_users_has_a_comment(migrated_database: str) -> None:
    """Those that roles below the administrator may call; helpers of change triggers are granted with them."""
    helpers = "'^(row_|json_|url_|sql_|key_|trigger_|event_field|encode_|change_matters|check_|describe_|write_|log_c)'"
    missing = one(
        migrated_database,
        "select array_agg(p.proname order by p.proname)"
        " from pg_proc as p join pg_namespace as n on n.oid = p.pronamespace"
        " where n.nspname in ('penstock', 'pgque') and obj_description(p.oid, 'pg_proc') is null"
        f" and has_function_privilege(n.nspname || '_writer', p.oid, 'execute') and p.proname !~ {helpers}",
    )

    # delete and archive are inlined into the statement of the caller, which then calls these.
    assert missing == ["delete_one", "finish_batch"]


def dump(pg_dump: str, dsn: str) -> str:
    """The schema without what differs from one dump to the next, and without the bodies of functions."""
    text = subprocess.run(
        [pg_dump, "--schema-only", "--no-owner", "--schema=penstock", dsn], check=True, capture_output=True, text=True
    ).stdout
    text = re.sub(r"\n    AS (\$\w*\$).*?\1;", ";", text, flags=re.DOTALL)
    text = re.sub(r"^(--.*|SET .*|SELECT pg_catalog\..*|\\(un)?restrict .*)$", "", text, flags=re.MULTILINE)
    return re.sub(r"\n{2,}", "\n\n", text).strip() + "\n"

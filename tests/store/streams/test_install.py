"""One file, loaded with psql into a database without a server; loaded again it keeps what is there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from penstock.errors import Unsupported
from penstock.store.postgres.embedded.binaries import find_installation
from penstock.store.postgres.migrate import migrate
from tests.store.streams.queue import Queue


@pytest.fixture(scope="session")
def single_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("streams") / "pgque.sql"
    done = subprocess.run(
        [sys.executable, "-m", "penstock", "sql", "streams"], stdout=subprocess.PIPE, check=True, timeout=60
    )
    path.write_bytes(done.stdout)
    return path


def load(dsn: str, path: Path) -> None:
    program = find_installation().program("psql")
    command = [str(program), "-X", "-q", "-1", "-v", "ON_ERROR_STOP=1", "-f", str(path), dsn]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=dict(os.environ))
    assert done.returncode == 0, done.stderr
    assert "ERROR" not in done.stderr


def test_the_file_makes_streams_in_any_database(fresh_database: str, single_file: Path) -> None:
    load(fresh_database, single_file)
    with psycopg.connect(fresh_database, autocommit=True) as connection:
        connection.execute("select pgque.create_queue('q'), pgque.register_consumer('q', 'c')")
        connection.execute("select pgque.insert_event('q', 'type', 'data')")
        connection.execute("select pgque.tick_if_waiting('q')")
        queue = Queue(connection, "q")
        assert queue.take() == ["data"]
        assert queue.one("select pgque.version()")
        assert "up to date" in queue.one("select pgque.upgrade()")


def test_loading_it_again_keeps_queues_events_and_places(fresh_database: str, single_file: Path) -> None:
    load(fresh_database, single_file)
    with psycopg.connect(fresh_database, autocommit=True) as connection:
        connection.execute("select pgque.create_queue('q', '{\"max_retries\": 7}')")
        queue = Queue(connection, "q")
        queue.register("c", "other")
        queue.insert("a", "b")
        queue.tick()
        assert queue.take() == ["a", "b"]
        queue.insert("c")
        queue.tick()
        batch = queue.open()
        assert batch is not None
        query = "select * from pgque.subscription order by sub_member"
        before = queue.rows(query), queue.rows("select * from pgque.tick"), queue.rows("select * from pgque.queue")
        load(fresh_database, single_file)

        after = queue.rows(query), queue.rows("select * from pgque.tick"), queue.rows("select * from pgque.queue")
        assert after == before
        assert queue.data(batch) == ["c"]
        assert queue.drain("other") == ["a", "b", "c"]


def test_the_server_takes_over_what_the_file_has_made(fresh_database: str, single_file: Path) -> None:
    import asyncio

    load(fresh_database, single_file)
    with psycopg.connect(fresh_database, autocommit=True) as connection:
        connection.execute("select pgque.create_queue('q')")
        asyncio.run(migrate(fresh_database))
        assert Queue(connection, "q").id == 1


def test_somebody_elses_schema_is_refused_and_left_alone(fresh_database: str, single_file: Path) -> None:
    import asyncio

    with psycopg.connect(fresh_database, autocommit=True) as connection:
        connection.execute("create schema pgque create table queue (queue_id integer)")
        with pytest.raises(Unsupported, match="schema pgque that Penstock did not make"):
            asyncio.run(migrate(fresh_database))
        with pytest.raises(psycopg.Error, match="belongs to another product"):
            connection.execute(single_file.read_bytes())
        assert connection.execute("select to_regclass('pgque.subscriber')").fetchall() == [(None,)]


def test_an_owner_who_is_no_superuser_can_load_it(fresh_database: str, single_file: Path) -> None:
    """As on a managed database: the roles exist or may be created, and nothing else is asked for."""
    with psycopg.connect(fresh_database, autocommit=True) as connection:
        name = psycopg.sql.Identifier("owner_" + connection.info.dbname)
        database = psycopg.sql.Identifier(connection.info.dbname)
        connection.execute(psycopg.sql.SQL("create role {} createrole").format(name))
        connection.execute(psycopg.sql.SQL("grant create on database {} to {}").format(database, name))
        try:
            connection.execute(psycopg.sql.SQL("set role {}").format(name))
            with connection.transaction():
                connection.execute(single_file.read_bytes())
            connection.execute("select pgque.create_queue('q'), pgque.register_consumer('q', 'c')")
            connection.execute("select pgque.insert_event('q', 'type', 'data')")
            queue = Queue(connection, "q")
            queue.tick()
            assert queue.take() == ["data"]
            queue.rotate()
            queue.rows("select pgque.maint()")
        finally:
            connection.execute("reset role")
            connection.execute(psycopg.sql.SQL("drop schema if exists pgque cascade"))
            connection.execute(psycopg.sql.SQL("drop owned by {} cascade").format(name))
            connection.execute(psycopg.sql.SQL("drop role {}").format(name))

"""What the tests of streams may ask for."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import psycopg
import pytest

from penstock.store.postgres.migrate import migrate
from tests.store.streams.queue import Connection, Queue, queue_of


@pytest.fixture(scope="session")
def streams_dsn(postgres_dsn: str) -> str:
    """The shared database, up to date."""
    asyncio.run(migrate(postgres_dsn))
    return postgres_dsn


@pytest.fixture
def own_dsn(migrated_database: str) -> str:
    """A database up to date, for one test that counts or measures."""
    return migrated_database


@pytest.fixture
def queue(streams_dsn: str) -> Iterator[Queue]:
    """A queue of the test's own, with nobody subscribed."""
    with queue_of(streams_dsn) as queue:
        yield queue


@pytest.fixture
def other(streams_dsn: str) -> Iterator[Connection]:
    """A second session, which commits when it is told to."""
    with psycopg.connect(streams_dsn) as connection:
        yield connection
        connection.rollback()


@pytest.fixture
def own_queue(own_dsn: str) -> Iterator[Queue]:
    """A queue alone in its database."""
    with queue_of(own_dsn) as queue:
        yield queue

"""A store on PostgreSQL that tests share, one after another: a new connection would plan every statement again."""

from __future__ import annotations

import pytest

from penstock.store import WakeUp
from penstock.store.postgres.listener import Listener
from penstock.store.postgres.store import PostgresStore


class SharedPostgres(PostgresStore):
    """Its connections stay open between tests."""

    is_open = False

    def __init__(self, dsn: str) -> None:
        super().__init__(dsn)
        self._listeners: list[Listener] = []
        """One for each server that uses the store: a test may start a second one, and stops it first."""

    async def watch(self, wake_up: WakeUp) -> None:
        await super().watch(wake_up)
        assert self._listener is not None
        self._listeners.append(self._listener)
        self._listener = None

    async def open(self) -> None:
        if not self.is_open:
            await super().open()
            self.is_open = True

    async def close(self) -> None:
        if self._listeners:
            await self._listeners.pop().close()
        await self._stop_listening()

    async def finish(self) -> None:
        if self.is_open:
            await super().close()


def shared_postgres(request: pytest.FixtureRequest) -> SharedPostgres:
    """The store on the database of this test process. Tests keep apart by tenant or by name."""
    found: SharedPostgres = request.getfixturevalue("postgres_store")
    return found

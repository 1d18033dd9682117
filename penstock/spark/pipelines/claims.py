"""Claims: names that one run locks, so that no second run on the same database works on the same data.

A claim is an advisory lock of a session in PostgreSQL. It ends with the process that took it, however that ends. A
restart of the database releases all locks: the run takes them again, or stops when another run was faster.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from penstock.queries import parse
from penstock.spark.connection import Connection
from penstock.spark.database import FAILURES, Database

SQL = parse(Path(__file__).with_suffix(".sql").read_text("utf-8"))

_SESSION_PREFIX = "penstock: "
"""What the application name of a session with claims begins with; the name of the run follows."""


class ClaimedError(RuntimeError):
    """Another run works on the same data."""


class Claims:
    """The claims of one run. Safe to use from several threads."""

    def __init__(self, url: str, claimant: str) -> None:
        self._database = Database(url)
        self._session: Connection | None = None
        self._claimant = claimant
        self._names: list[str] = []
        self._lock = threading.Lock()

    def rename(self, claimant: str) -> None:
        """Change the name that other runs see; the next `take` or `keep` passes it to PostgreSQL."""
        with self._lock:
            self._claimant = claimant

    def take(self, names: Sequence[str]) -> None:
        """Hold these names until `close`; raises `ClaimedError` when another run holds one of them."""
        with self._lock:
            # Includes the names held already: the session may be a new one.
            wanted = list(dict.fromkeys([*self._names, *names]))
            self._claim(wanted)
            self._names = wanted

    @contextmanager
    def taken(self, name: str) -> Iterator[None]:
        """Hold a name for the block only: PostgreSQL has memory for thousands of locks, not for millions."""
        self.take([name])
        try:
            yield
        finally:
            with self._lock:
                self._names.remove(name)
                self._release(SQL["release"], name)

    def keep(self) -> None:
        """Take again what was lost with an earlier session. Call it every few seconds."""
        with self._lock:
            self._claim(self._names)

    def close(self) -> None:
        """Release explicitly: PostgreSQL may notice the end of a session later than the next run starts."""
        with self._lock:
            self._names = []
            self._release(SQL["release_all"])
            self._disconnect()

    def _claim(self, names: Sequence[str]) -> None:
        if not names:
            return
        own = _SESSION_PREFIX + self._claimant
        for name, holder in self._database.retry(partial(self._ask, SQL["claim"], own, json.dumps(list(names)))):
            # After a network failure PostgreSQL may still count an earlier session of this run as alive.
            if holder != own:
                other = (holder or "").removeprefix(_SESSION_PREFIX) or "another run"
                raise ClaimedError(f"{name} is locked by {other}: wait until it has ended, or stop it")

    def _release(self, query: str, *values: str) -> None:
        # A session that fails holds no locks any more.
        with suppress(*FAILURES):
            if self._session is not None:
                self._ask(query, *values)

    def _ask(self, query: str, *values: str) -> list[tuple[Any, ...]]:
        if self._session is None:
            self._session = self._database.connect()
        try:
            found = self._session.rows(query, *values)
            self._session.commit()
            return found
        except FAILURES:
            self._disconnect()
            raise

    def _disconnect(self) -> None:
        session, self._session = self._session, None
        with suppress(*FAILURES):
            if session is not None:
                session.close()


def in_lake(what: str, lake: str) -> str:
    """The name of a claim on a part of a lake. Symbolic links are followed, so that one folder has one name."""
    return f"{what} in {lake.rstrip('/') if '://' in lake else os.path.realpath(lake)}"

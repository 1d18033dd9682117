"""What a run works on is its own: another run on the same database is refused it.

A claim is a lock of a session in PostgreSQL, so it ends with the process that made it, however that ends. When the
database restarts, its locks are gone: the run takes them again, or finds that another was faster, and ends.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from penstock.spark.connection import Connection
from penstock.spark.database import FAILURES, Database

_CLAIM = """
    select c.name, c.claimant
    from penstock.claim_for_run($1, array(select n from jsonb_array_elements_text($2::text::jsonb) as n)) as c
"""
_RELEASE = "select pg_advisory_unlock(penstock.claim_key($1))"
_RELEASE_ALL = "select pg_advisory_unlock_all()::text"
_CALLED = "penstock: "
"""How a session is called that holds claims, before what the run is called."""


class ClaimedError(RuntimeError):
    """Another run works on the same."""


class Claims:
    """Of one run. May be used by several threads."""

    def __init__(self, url: str, claimant: str) -> None:
        self._database = Database(url)
        self._session: Connection | None = None
        self._claimant = claimant
        self._names: list[str] = []
        self._lock = threading.Lock()

    def take(self, names: Sequence[str]) -> None:
        """Until the end; raises `ClaimedError` when another has one of them."""
        with self._lock:
            # With those that it has: its session may be a new one.
            self._claim([*self._names, *names])
            self._names += names

    @contextmanager
    def taken(self, name: str) -> Iterator[None]:
        """For as long as the block lasts: PostgreSQL has room for thousands of locks, and not for more."""
        self.take([name])
        try:
            yield
        finally:
            with self._lock:
                self._names.remove(name)
                self._release(_RELEASE, name)

    def keep(self) -> None:
        """To be called now and then: what was lost with a session is taken again."""
        with self._lock:
            self._claim(self._names)

    def close(self) -> None:
        """Not by the end of the session alone, which PostgreSQL may notice later than the next run begins."""
        with self._lock:
            self._release(_RELEASE_ALL)
            self._disconnect()

    def _claim(self, names: Sequence[str]) -> None:
        if not names:
            return
        called = _CALLED + self._claimant
        for name, holder in self._database.patiently(partial(self._ask, _CLAIM, called, json.dumps(list(names)))):
            # An earlier session of ours may be alive to PostgreSQL, after the network failed between us.
            if holder != called:
                other = (holder or "").removeprefix(_CALLED) or "another run"
                raise ClaimedError(f"{other} works on {name} already: wait until it has ended, or stop it")

    def _release(self, query: str, *values: str) -> None:
        # A session that fails has no locks any more.
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
    """A claim by one name for all who see the lake: a folder is the one that links lead to."""
    return f"{what} in {lake.rstrip('/') if '://' in lake else os.path.realpath(lake)}"

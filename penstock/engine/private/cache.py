"""Records of private queues in memory, coherent with the database.

A record is kept under all its ids at once: everything here happens between two awaits, so no reader sees half of a
change. Of two copies the one with the higher version stays; a change that another node announces drops older copies
and keeps a load that began before it from bringing one back. A copy is trusted for a few seconds only, so that a lost
announcement costs no more than that. Ids that do not exist are remembered too: asking for one again is as fast as
asking for one that does.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from time import monotonic

from penstock.model.private import Party, PrivateRecord

Key = tuple[Party, bytes]
Load = Callable[[Party, Sequence[bytes]], Awaitable[Sequence[PrivateRecord]]]

MOST_RECORDS = 100_000
MOST_AGE_S = 5.0
ANNOUNCED_S = 60.0
"""How long an announced version is remembered: longer than any load takes."""


@dataclass(slots=True)
class _Entry:
    record: PrivateRecord | None
    loaded_at: float
    keys: tuple[Key, ...]


class RecordCache:
    def __init__(
        self,
        load: Load,
        *,
        most: int = MOST_RECORDS,
        age_s: float = MOST_AGE_S,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        """With `most` 0 nothing is kept and every look-up asks the database."""
        self._load = load
        self._most = most
        self._age_s = age_s
        self._clock = clock
        self._entries: OrderedDict[Key, _Entry] = OrderedDict()
        """By the key an entry was stored under first, least recently used first."""
        self._keys: dict[Key, _Entry] = {}
        self._numbers: dict[int, _Entry] = {}
        self._announced: OrderedDict[int, tuple[int, float]] = OrderedDict()
        self._locks: dict[object, tuple[asyncio.Lock, int]] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def peek(self, party: Party, party_id: bytes) -> tuple[bool, PrivateRecord | None]:
        """Whether the answer is known without a look-up, and what it is."""
        entry = self._keys.get((party, party_id))
        if entry is None or self._clock() - entry.loaded_at > self._age_s:
            return False, None
        self._entries.move_to_end(entry.keys[0])
        return True, entry.record

    async def find(self, party: Party, party_id: bytes) -> PrivateRecord | None:
        known, record = self.peek(party, party_id)
        if known:
            return record
        async with self.lock((party, party_id)):
            # Someone else may have loaded it while this one waited for the lock.
            known, record = self.peek(party, party_id)
            if known:
                return record
            return (await self.load(party, [party_id]))[party_id]

    async def find_many(self, party: Party, ids: Sequence[bytes]) -> dict[bytes, PrivateRecord | None]:
        """One statement for all that are not known."""
        found: dict[bytes, PrivateRecord | None] = {}
        missing = []
        for party_id in dict.fromkeys(ids):
            known, found[party_id] = self.peek(party, party_id)
            if not known:
                missing.append(party_id)
        if missing:
            found |= await self.load(party, missing)
        return found

    async def load(self, party: Party, ids: Sequence[bytes]) -> dict[bytes, PrivateRecord | None]:
        """Ask the database, whatever is known."""
        found: dict[bytes, PrivateRecord | None] = dict.fromkeys(ids)
        for record in await self._load(party, ids):
            party_id = record.id_of(party)
            assert party_id is not None
            found[party_id] = self.store(record)
        for party_id, record_or_none in found.items():
            if record_or_none is None:
                self._store_missing((party, party_id))
        return found

    def store(self, record: PrivateRecord) -> PrivateRecord:
        """Keep a record that came from the database; the newest copy known."""
        have = self._numbers.get(record.number)
        if have is not None and have.record is not None and have.record.version > record.version:
            return have.record
        announced = self._announced.get(record.number)
        if announced is not None and announced[0] > record.version:
            return record
        if have is not None:
            self._remove(have)
        ids = ((party, record.id_of(party)) for party in Party)
        keys = tuple((party, party_id) for party, party_id in ids if party_id is not None)
        self._add(_Entry(record, self._clock(), keys))
        return record

    def drop(self, record: PrivateRecord) -> None:
        """The record is gone: forget it and every id of it."""
        self.announce(record.number, record.version)

    def announce(self, number: int | None, version: int) -> None:
        """Another node changed a record; with None, anything may have changed."""
        if number is None:
            self._entries.clear()
            self._keys.clear()
            self._numbers.clear()
            return
        now = self._clock()
        self._announced[number] = (version, now)
        self._announced.move_to_end(number)
        while self._announced and next(iter(self._announced.values()))[1] < now - ANNOUNCED_S:
            self._announced.popitem(last=False)
        entry = self._numbers.get(number)
        if entry is not None and entry.record is not None and entry.record.version < version:
            self._remove(entry)

    @asynccontextmanager
    async def lock(self, key: object) -> AsyncIterator[None]:
        """One at a time for a key; a lock is gone when nobody holds or waits for it."""
        lock, users = self._locks.get(key, (None, 0))
        lock = lock or asyncio.Lock()
        self._locks[key] = (lock, users + 1)
        try:
            async with lock:
                yield
        finally:
            lock, users = self._locks[key]
            if users == 1:
                del self._locks[key]
            else:
                self._locks[key] = (lock, users - 1)

    @property
    def locks(self) -> int:
        return len(self._locks)

    def _store_missing(self, key: Key) -> None:
        have = self._keys.get(key)
        if have is not None:
            self._remove(have)
        self._add(_Entry(None, self._clock(), (key,)))

    def _add(self, entry: _Entry) -> None:
        if self._most <= 0:
            return
        for key in entry.keys:
            other = self._keys.get(key)
            if other is not None:
                self._remove(other)
        for key in entry.keys:
            self._keys[key] = entry
        self._entries[entry.keys[0]] = entry
        if entry.record is not None:
            self._numbers[entry.record.number] = entry
        while len(self._entries) > self._most:
            self._remove(next(iter(self._entries.values())))

    def _remove(self, entry: _Entry) -> None:
        for key in entry.keys:
            if self._keys.get(key) is entry:
                del self._keys[key]
        if self._entries.get(entry.keys[0]) is entry:
            del self._entries[entry.keys[0]]
        if entry.record is not None and self._numbers.get(entry.record.number) is entry:
            del self._numbers[entry.record.number]

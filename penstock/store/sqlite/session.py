"""One transaction: its queries, the queues it has looked up, and what it owes before it commits."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from penstock.errors import QueueNotFound
from penstock.model import TenantId
from penstock.store.sqlite.queries import SQL

READY: Final = 0
IN_FLIGHT: Final = 1
DELAYED: Final = 2
BLOCKED: Final = 3


@dataclass(slots=True)
class QueueRow:
    """What the hot verbs need to know of a queue. The flags are SQLite's 0 and 1."""

    id: int
    tenant: TenantId
    name: str
    fifo: int
    bin_id: int
    visibility_timeout_s: int
    delay_s: int
    retention_s: int
    max_message_bytes: int
    max_length: int | None
    max_receives: int | None
    dead_letter_queue_id: int | None
    lifo: int
    archive: int
    content_dedup: int
    dedup_window_s: int
    dedup_scope: str
    total: int
    """Kept up to date by `Session.count`."""
    last_sequence: int | None
    """The last number given to a message; None in a queue that does not number them."""


class Session:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._queues: dict[tuple[TenantId, str], QueueRow] = {}
        self._by_bin: dict[int, QueueRow] = {}
        self._totals: defaultdict[int, int] = defaultdict(int)
        self._sent: defaultdict[int, int] = defaultdict(int)
        self._touched: dict[tuple[int, str], None] = {}
        self._numbered: dict[int, QueueRow] = {}
        self.released: set[int] = set()
        """Bins that have no due message left. A transaction has one time, so they stay as they are to its end."""

    def run(self, query: str, /, **values: Any) -> sqlite3.Cursor:
        return self._connection.execute(SQL[query], values)

    def run_many(self, query: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """The same statement for each of these values, prepared once."""
        self._connection.executemany(SQL[query], rows)

    def all(self, query: str, /, **values: Any) -> list[sqlite3.Row]:
        return self._connection.execute(SQL[query], values).fetchall()

    def each(self, query: str, /, **values: Any) -> Iterator[sqlite3.Row]:
        """The rows one by one, for a caller that may not want all of them."""
        return iter(self._connection.execute(SQL[query], values))

    def first(self, query: str, /, **values: Any) -> sqlite3.Row | None:
        row: sqlite3.Row | None = self._connection.execute(SQL[query], values).fetchone()
        return row

    def value(self, query: str, /, **values: Any) -> Any:
        """The first column of the first row; None without one."""
        row = self.first(query, **values)
        return None if row is None else row[0]

    def queue(self, tenant: TenantId, name: str) -> QueueRow:
        found = self._queues.get((tenant, name))
        if found is None:
            row = self.first("queue", tenant=tenant, name=name)
            if row is None:
                raise QueueNotFound(name)
            found = self._remember(QueueRow(*row))
        return found

    def queue_by_id(self, queue_id: int) -> QueueRow | None:
        row = self.first("queue_by_id", id=queue_id)
        if row is None:
            return None
        fresh = QueueRow(*row)
        return self._queues.get((fresh.tenant, fresh.name)) or self._remember(fresh)

    def _remember(self, queue: QueueRow) -> QueueRow:
        queue.total += self._totals[queue.bin_id]
        self._queues[queue.tenant, queue.name] = queue
        self._by_bin[queue.bin_id] = queue
        return queue

    def count(self, bin_id: int, total: int, sent: int = 0) -> None:
        """Note a change in the number of messages; the rows of the bins are written once, at the end."""
        self._totals[bin_id] += total
        self._sent[bin_id] += sent
        if bin_id in self._by_bin:
            self._by_bin[bin_id].total += total

    def next_sequence(self, queue: QueueRow) -> int | None:
        """The number of the next message; the last one of each queue is written once, at the end."""
        if queue.last_sequence is None:
            return None
        queue.last_sequence += 1
        self._numbered[queue.id] = queue
        return queue.last_sequence

    def touch(self, bin_id: int, group_id: str) -> None:
        """Note that a FIFO group has changed; `settle` decides what it may hand out now."""
        self._touched[bin_id, group_id] = None

    def settle(self) -> None:
        """Keep the rule of FIFO groups: the oldest message alone is ready, unless it is hidden.

        While any is in flight, the oldest must have been received before: then it is one of a batch that came back
        early, and none that the batch should have waited for.
        """
        for bin_id, group_id in self._touched:
            self._settle(bin_id, group_id)
        self._touched.clear()

    def _settle(self, bin_id: int, group_id: str) -> None:
        heads = self.first("group_heads", bin_id=bin_id, group_id=group_id)
        ready, in_flight, delayed, blocked = heads or (None, None, None, None)
        target = min((head for head in (ready, blocked) if head is not None), default=None)
        hidden = min((head for head in (in_flight, delayed) if head is not None), default=None)
        if target is not None and hidden is not None:
            early = in_flight is None or self.value("was_received", id=target)
            if hidden < target or not early:
                target = None
        if target == ready:
            return
        if ready is not None:
            self.run("set_state", id=ready, state=BLOCKED)
        if target is not None:
            self.run("set_state", id=target, state=READY)

    def finish(self) -> None:
        """Pay what is owed; the transaction commits next."""
        self.settle()
        for bin_id, total in self._totals.items():
            if total or self._sent[bin_id]:
                self.run("count_bin", bin_id=bin_id, total=total, sent=self._sent[bin_id])
        for queue in self._numbered.values():
            self.run("set_sequence", queue_id=queue.id, last=queue.last_sequence)

"""Foreign queues: which ones a database has, and the SQL that reads each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import adbc_driver_manager as adbc

from penstock.queries import parse
from penstock.spark.database import Database, literal
from penstock.spark.pipelines.pipeline import PipelineError

SQL = parse((Path(__file__).parent / "importing.sql").read_text("utf-8"))


_WAITING = "and s.state <> 'finished'"
_FINISHED = "and s.state = 'finished'"
_OWN = "__pgboss__"
"""Prefix of the queues that pg-boss uses internally."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A queue of the source. Each is read, and recorded in the ledger, on its own."""

    queue: str
    query: str
    wanted: str
    """Condition for waiting or for finished work. They are separate parts, so that either may be imported alone."""
    label: str
    """Identifies the part within its source, in this import and in later ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    database: Database
    schema: str
    consumer: str | None
    left_out: list[str] = field(default_factory=list)
    """Internal queues that are not imported."""

    def identity(self) -> str:
        """An identifier that is unique to the database and does not change."""
        try:
            return str(self.database.value(SQL["identity"]))
        except adbc.ProgrammingError as error:
            if error.sqlstate != "42501":
                raise
            raise PipelineError(
                "no permission to call pg_control_system() in the source database: identify it with --source-name"
            ) from None

    def columns(self, table: str) -> set[str]:
        return {row[0] for row in self.database.rows(SQL["columns"], self.schema, table)}

    def names(self, query: str) -> list[tuple[Any, ...]]:
        return self.database.rows(filled(query, schema=quoted(self.schema)))

    def part(self, query: str, queue: str, label: str = "", **values: str) -> Part:
        text = filled(query, schema=quoted(self.schema), queue=literal(queue), **values)
        return Part(queue=queue, query=text, wanted=_WAITING, label=f"{self.schema}/{query}/{label or queue}")


def pgmq(source: Source) -> Iterator[Part]:
    for (queue,) in source.names("pgmq_queues"):
        yield _pgmq_part(source, "pgmq", queue, f"q_{queue}".lower())
        yield _pgmq_part(source, "pgmq_archive", queue, f"a_{queue}".lower())


def _pgmq_part(source: Source, query: str, queue: str, table: str) -> Part:
    # Headers came with version 1.5.
    headers = "m.headers" if "headers" in source.columns(table) else "null::jsonb"
    return source.part(query, queue, table=quoted(table), headers=headers)


def pgq(source: Source) -> Iterator[Part]:
    for queue, number in source.names("pgq_queues"):
        unread = "true"
        if source.consumer is not None:
            position = filled("pgq_position", schema=quoted(source.schema))
            snapshot = source.database.value(position, number, source.consumer)
            if snapshot is None:
                continue
            # Events that the consumer's last tick did not see are those it has not read.
            unread = f"not txid_visible_in_snapshot(e.ev_txid, {literal(snapshot)}::txid_snapshot)"
        yield source.part("pgq", queue, str(number), table=quoted(f"event_{number}"), unread=unread)


def river(source: Source) -> Iterator[Part]:
    for (queue,) in source.names("river_queues"):
        yield source.part("river", queue)


def boss(source: Source) -> Iterator[Part]:
    new = "created_on" in source.columns("job")
    created, start = ("created_on", "start_after") if new else ("createdon", "startafter")
    for (queue,) in source.names("boss_queues"):
        if queue.startswith(_OWN):
            source.left_out.append(queue)
        else:
            yield source.part("boss", queue, created=created, start=start)


def graphile(source: Source) -> Iterator[Part]:
    query = "graphile" if source.columns("_private_jobs") else "old_graphile"
    for (queue,) in source.names(f"{query}_queues"):
        yield source.part(query, queue)


PARTS: dict[str, tuple[str, Callable[[Source], Iterator[Part]]]] = {
    "pgmq": ("pgmq", pgmq),
    "pgq": ("pgq", pgq),
    "river": ("public", river),
    "pg-boss": ("pgboss", boss),
    "graphile-worker": ("graphile_worker", graphile),
}
"""Kinds of sources in a database: their default schema, and the function that finds their queues."""


def find_parts(kind: str, source: Source, queues: Sequence[str], *, finished: bool) -> list[Part]:
    """The parts of the named queues, or all; raises for a queue that the source does not have."""
    try:
        found = list(PARTS[kind][1](source))
    except adbc.ProgrammingError as error:
        if error.sqlstate not in ("42P01", "3F000"):
            raise
        raise PipelineError(f"there is no {kind} in schema {source.schema!r} of the source database") from None
    if source.consumer is not None and not found:
        raise PipelineError(f"the source has no consumer {source.consumer!r}")
    if missing := sorted(set(queues) - {part.queue for part in found}):
        raise PipelineError(f"the source has no queue {', '.join(missing)}")
    chosen = [part for part in found if not queues or part.queue in queues]
    if finished:
        chosen += [replace(part, wanted=_FINISHED, label=f"{part.label}/finished") for part in chosen]
    return chosen


def filled(query: str, **values: str) -> str:
    return SQL[query].rstrip(";").format(**values)


def quoted(name: str) -> str:
    if "\0" in name or not name:
        raise PipelineError(f"{name!r} is not a name that PostgreSQL accepts")
    return '"' + name.replace('"', '""') + '"'

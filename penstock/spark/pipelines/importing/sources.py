"""Other people's queues: which there are in a database, and the SQL that reads each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import adbc_driver_manager as adbc

from penstock.queries import parse
from penstock.spark.database import Database, literal
from penstock.spark.pipelines.run import PipelineError

SQL = parse((Path(__file__).parent / "importing.sql").read_text("utf-8"))


_WAITING = "and s.state <> 'finished'"
_FINISHED = "and s.state = 'finished'"
_OWN = "__pgboss__"
"""How the names begin of what pg-boss does for itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A queue of the source, read by itself and written down by itself."""

    queue: str
    query: str
    wanted: str
    """A condition: waiting work and finished work are read apart, so that one may be imported without the other."""
    label: str
    """What tells it from every other part of this source, now and at the next import."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    database: Database
    schema: str
    consumer: str | None
    left_out: list[str] = field(default_factory=list)
    """Queues that are nobody's work."""

    def identity(self) -> str:
        """What no other database has, and what this one keeps."""
        try:
            return str(self.database.value(SQL["identity"]))
        except adbc.ProgrammingError as error:
            if error.sqlstate != "42501":
                raise
            raise PipelineError(
                "this user may not ask the source who it is (pg_control_system), so give it a name: --source-name"
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
            # What the consumer's last tick did not see, it has yet to be given.
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
"""The kinds of sources in a database: their usual schema, and what finds their queues."""


def find_parts(kind: str, source: Source, queues: Sequence[str], *, finished: bool) -> list[Part]:
    """Those of the named queues, or all; raises when a name is none of the source's."""
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
        raise PipelineError("a name of the source cannot be used")
    return '"' + name.replace('"', '""') + '"'

"""The pipeline `import`: what other queues hold, or files, becomes messages, events or jobs, each once."""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, ClassVar

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from penstock import limits
from penstock.spark import lake
from penstock.spark.database import Database
from penstock.spark.pipelines.importing import files, reader
from penstock.spark.pipelines.importing.checks import COLUMNS, Target, prepared
from penstock.spark.pipelines.importing.sources import PARTS, SQL, Part, Source, filled, find_parts
from penstock.spark.pipelines.run import PipelineError, Run

CHUNK = 100_000
PIECES = 4
EXAMPLES = 3
MOST_NAMES = 1000
QUEUE_BYTES = 1_048_576
"""What a queue takes that is not made yet."""

SOURCES = (*PARTS, *files.KINDS)
TARGETS = ("queue", "stream", "jobs")


@dataclass(frozen=True, slots=True, kw_only=True)
class Import:
    """Work of other queues, or files, into queues, streams or jobs."""

    name: ClassVar[str] = "import"
    source: str
    """One of `SOURCES`."""
    target: str = "queue"
    into: str | None = None
    """One name for everything; else each queue of the source keeps its own."""
    rename: tuple[str, ...] = ()
    """`old=new`."""
    from_url: str | None = None
    """The database of the source, when it is another."""
    schema: str | None = None
    queues: tuple[str, ...] = ()
    consumer: str | None = None
    """Of PgQ: only what this consumer has yet to read."""
    paths: tuple[str, ...] = ()
    value: str | None = None
    """Of files: the column that is the payload; else the whole row is."""
    finished: bool = False
    dry_run: bool = False
    skip_rejects: bool = False
    again: str = ""
    """A word that makes it another import: what was imported before is imported again."""
    tenant: str = "default"
    chunk: int = CHUNK

    def run(self, run: Run) -> None:
        self._check()
        if run.follow:
            raise PipelineError("an import ends by itself; run it again for what has come since")
        tally = _Tally()
        with closing(self._portions(run)) as portions:
            for portion in portions:
                run.check()
                run.note(f"{portion.queue} → {self.target}: {tally.good:,} rows, {tally.bad:,} rejected")
                self._take(run, portion, tally)
        run.results = tally.rows()
        done = "would be imported" if self.dry_run else "imported"
        run.note(f"{tally.good:,} rows {done}, {tally.bad:,} rejected")
        if tally.bad and not (self.dry_run or self.skip_rejects):
            raise PipelineError(f"{tally.good:,} rows imported; {tally.bad:,} rejected, see {run.place('rejects')}")

    def _check(self) -> None:
        if self.source not in SOURCES:
            raise PipelineError(f"the source {self.source!r} is none of {', '.join(SOURCES)}")
        if self.target not in TARGETS:
            raise PipelineError(f"the target {self.target!r} is none of {', '.join(TARGETS)}")
        if self.source in files.KINDS and not (self.paths and (self.into or self.value)):
            raise PipelineError(
                "files need paths, and a name to send to (or a column with the payload, and one `name`)"
            )
        if self.source in PARTS and self.paths:
            raise PipelineError(f"paths are for files; {self.source} is read from a database")
        if self.target == "stream" and self.tenant != "default":
            raise PipelineError("streams are imported for the default tenant only")
        if bad := [text for text in self.rename if "=" not in text]:
            raise PipelineError(f"{bad[0]!r} is not of the form old=new")

    # Where rows come from

    def _portions(self, run: Run) -> Generator[_Portion]:
        with closing(Database(run.url)) as target:
            if self.source in files.KINDS:
                yield from self._of_files(run, target)
                return
            with closing(Database(self.from_url or run.url)) as database:
                yield from self._of_tables(run, database, target)

    def _of_tables(self, run: Run, database: Database, target: Database) -> Iterator[_Portion]:
        found = Source(database=database, schema=self.schema or PARTS[self.source][0], consumer=self.consumer)
        identity = str(database.value(SQL["identity"]))
        parts = find_parts(self.source, found, self.queues, finished=self.finished)
        reader.register(run.spark)
        with reader.kept(database) as moment:
            for part in parts:
                name = self._named(part.queue)
                app = self._app(identity, part.label, name)
                bounds = [self._done(target, app)]
                while len(bounds := self._bounds(moment, part, bounds[-1])) > 1:
                    rows = reader.read(
                        run.spark, url=self.from_url or run.url, snapshot=moment.snapshot, query=part.query,
                        wanted=part.wanted, bounds=bounds,
                    ).withColumn("name", f.lit(name))  # fmt: skip
                    yield _Portion(queue=part.queue, names=(name,), rows=rows, app=app, version=bounds[-1])

    def _bounds(self, moment: reader.Moment, part: Part, after: int) -> list[int]:
        query = filled(
            "chunk", source=part.query, wanted=part.wanted, after=str(after), rows=str(self.chunk), pieces=str(PIECES)
        )
        return [after, *sorted({int(until) for _, until in moment.rows(query)})]

    def _of_files(self, run: Run, target: Database) -> Iterator[_Portion]:
        for file in files.find_files(run.spark, self.paths):
            app = self._app(self.source, file.label, self.into or "")
            if self._done(target, app):
                continue
            rows = files.read(run.spark, self.source, file.path, self.value)
            if self.into is not None:
                rows = rows.withColumn("name", f.lit(self.into))
            named = rows.select("name").distinct().limit(MOST_NAMES + 1).collect()
            names = tuple(sorted(self._named(row[0]) for row in named if row[0] is not None))
            if len(names) > MOST_NAMES:
                raise PipelineError(f"{file.path} names more than {MOST_NAMES} targets")
            for old, new in (text.split("=", 1) for text in self.rename):
                rows = rows.withColumn("name", f.when(f.col("name") == old, f.lit(new)).otherwise(f.col("name")))
            yield _Portion(queue=file.path, names=names, rows=rows, app=app, version=1)

    def _named(self, queue: str) -> str:
        return self.into or dict(text.split("=", 1) for text in self.rename).get(queue, queue)

    def _app(self, *parts: str) -> str:
        """The same for the same work to the same place, so that what is done is known when it is asked for again."""
        told = "\0".join((self.source, self.target, self.tenant, self.again, *parts))
        return f"import-{hashlib.sha256(told.encode()).hexdigest()[:32]}"

    def _done(self, target: Database, app: str) -> int:
        return int(target.value(SQL["ledger"], app) or 0)

    # Where they go to

    def _take(self, run: Run, portion: _Portion, tally: _Tally) -> None:
        """Rejects first: once the rows are written, the portion counts as done and is not looked at again."""
        target = self._target(run, portion)
        frame = prepared(portion.rows, target, portion.app.removeprefix("import-")[:12]).persist()
        try:
            counted = frame.groupBy("name", "reason").agg(f.count("*"), f.min_by("id", "position"))
            bad = tally.add(portion.queue, self.target, counted.limit(MOST_NAMES).collect())
            if not self.dry_run:
                if bad:
                    lake.append(
                        self._rejects(frame, portion), run.place("rejects"), app=portion.app, version=portion.version
                    )
                good = frame.where(f.col("reason").isNull()).select(*COLUMNS)
                good.write.format("penstock").mode("append").options(
                    url=run.url, target=self.target, tenant=self.tenant, txnAppId=portion.app,
                    txnVersion=str(portion.version),
                ).save()  # fmt: skip
            run.count(tally.last)
        finally:
            frame.unpersist()

    def _target(self, run: Run, portion: _Portion) -> Target:
        if self.target == "jobs":
            return Target(kind="jobs", most_bytes=limits.JOB_PAYLOAD_BYTES)
        with closing(Database(run.url)) as database:
            known = [self._prepare(database, name) for name in portion.names]
        return Target(kind=self.target, most_bytes=min(known, default=limits.MESSAGE_BYTES[1]))

    def _prepare(self, database: Database, name: str) -> int:
        """Make the queue or stream when it is not there, and say how many bytes it takes."""
        if self.target == "stream":
            if not self.dry_run and limits.STREAM_NAME.fullmatch(name):
                database.rows(SQL["make_stream"], name)
        elif limits.QUEUE_NAME.fullmatch(name):
            if not self.dry_run:
                database.rows(SQL["make_queue"], self.tenant, name)
            return int(database.value(SQL["queue_bytes"], self.tenant, name) or QUEUE_BYTES)
        return limits.MESSAGE_BYTES[1]

    def _rejects(self, frame: DataFrame, portion: _Portion) -> DataFrame:
        return frame.where(f.col("reason").isNotNull()).select(
            f.lit(self.source).alias("source"),
            f.lit(portion.queue).alias("queue"),
            f.lit(self.target).alias("target"),
            "name",
            "id",
            "reason",
            # Every reader of the lake expects UTF-8; what is none keeps its place at least.
            f.make_valid_utf8("value").alias("value"),
            "deliver_at",
            f.current_timestamp().alias("rejected_at"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Portion:
    """Rows that are written together, once."""

    queue: str
    names: tuple[str, ...]
    rows: DataFrame
    app: str
    version: int


@dataclass(slots=True)
class _Tally:
    good: int = 0
    bad: int = 0
    last: int = 0
    """Rows of the portion added last."""
    _counts: dict[tuple[str, str, str], tuple[int, list[str]]] = field(default_factory=dict)

    def add(self, queue: str, target: str, counted: list[Any]) -> int:
        """How many of these are rejected."""
        bad = 0
        self.last = 0
        for name, reason, count, example in counted:
            key = (queue, f"{target} {name}", reason or "")
            before, shown = self._counts.get(key, (0, []))
            self._counts[key] = (before + count, [*shown, *([example] if reason else [])][:EXAMPLES])
            self.last += count
            bad += count if reason else 0
        self.good += self.last - bad
        self.bad += bad
        return bad

    def rows(self) -> list[dict[str, Any]]:
        return [
            {"from": queue, "to": name, "rows": count, "rejected because": reason, "such as": ", ".join(examples)}
            for (queue, name, reason), (count, examples) in sorted(self._counts.items())
        ]

"""The pipeline `import`: what other queues hold, or files, becomes messages, events or jobs, each once."""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass
from typing import ClassVar

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from penstock import limits
from penstock.spark import lake
from penstock.spark.database import Database
from penstock.spark.pipelines.importing import files, reader
from penstock.spark.pipelines.importing.checks import Target, lawful_json, prepared
from penstock.spark.pipelines.importing.sources import PARTS, SQL, Part, Source, filled, find_parts
from penstock.spark.pipelines.importing.tally import Tally
from penstock.spark.pipelines.run import PipelineError, Run
from penstock.spark.writer import TAKEN

CHUNK = 100_000
PIECES = 4
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
    source_name: str | None = None
    """What the database is known by, in place of what it says of itself."""
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
        self.check(run.follow)
        tally = Tally()
        with lawful_json(run.spark), closing(self._portions(run, tally)) as portions:
            for portion in portions:
                run.check()
                run.note(f"{portion.queue} → {self.target}: {tally.good:,} rows, {tally.bad:,} rejected")
                self._take(run, portion, tally)
        run.results = tally.rows()
        done = "would be imported" if self.dry_run else "imported"
        run.note(f"{tally.good:,} rows {done}, {tally.bad:,} rejected{tally.remarks()}")
        if tally.bad and not (self.dry_run or self.skip_rejects):
            raise PipelineError(f"{tally.good:,} rows imported; {tally.bad:,} rejected, see {run.place('rejects')}")

    def check(self, follow: bool) -> None:
        if follow:
            raise PipelineError("an import ends by itself; run it again for what has come since")
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

    def _portions(self, run: Run, tally: Tally) -> Generator[_Portion]:
        with closing(Database(run.url)) as target:
            if self.source in files.KINDS:
                yield from self._of_files(run, target)
                return
            with closing(Database(self.from_url or run.url)) as database:
                found = Source(database=database, schema=self.schema or PARTS[self.source][0], consumer=self.consumer)
                tally.left_out = found.left_out
                yield from self._of_tables(run, found, target)

    def _of_tables(self, run: Run, found: Source, target: Database) -> Iterator[_Portion]:
        identity = self.source_name or found.identity()
        parts = find_parts(self.source, found, self.queues, finished=self.finished)
        reader.register(run.spark)
        with reader.kept(found.database) as moment:
            for part in parts:
                name = self._named(part.queue)
                app = self._app(identity, part.label, name)
                with self._claimed(run, part.label, app):
                    yield from self._of_part(run, part, moment, name, app, self._done(target, app))

    def _of_part(
        self, run: Run, part: Part, moment: reader.Moment, name: str, app: str, done: int
    ) -> Iterator[_Portion]:
        bounds = [done]
        while len(bounds := self._bounds(moment, part, bounds[-1])) > 1:
            rows = reader.read(
                run.spark, url=self.from_url or run.url, snapshot=moment.snapshot, query=part.query,
                wanted=part.wanted, bounds=bounds,
            ).withColumn("name", f.lit(name))  # fmt: skip
            yield _Portion(queue=part.queue, names=(name,), rows=rows, app=app, version=bounds[-1])

    def _claimed(self, run: Run, label: str, app: str) -> AbstractContextManager[None]:
        """Two who import the same at once would each write what the other has, in chunks that end elsewhere."""
        return nullcontext() if self.dry_run else run.claimed(f"the import of {self.source} {label} ({app})")

    def _bounds(self, moment: reader.Moment, part: Part, after: int) -> list[int]:
        query = filled(
            "chunk", source=part.query, wanted=part.wanted, after=str(after), rows=str(self.chunk), pieces=str(PIECES)
        )
        return [after, *sorted({int(until) for _, until in moment.rows(query)})]

    def _of_files(self, run: Run, target: Database) -> Iterator[_Portion]:
        for file in files.find_files(run.spark, self.paths):
            app = self._app(self.source, file.label, self.into or "")
            with self._claimed(run, file.path, app):
                if not self._done(target, app):
                    yield self._of_file(run, file, app)

    def _of_file(self, run: Run, file: files.File, app: str) -> _Portion:
        rows = files.read(run.spark, self.source, file.path, self.value).withColumn("name", self._renamed())
        named = rows.select("name").distinct().limit(MOST_NAMES + 1).collect()
        names = tuple(sorted(row[0] for row in named if row[0] is not None))
        if len(names) > MOST_NAMES:
            raise PipelineError(f"{file.path} names more than {MOST_NAMES} targets")
        return _Portion(queue=file.path, names=names, rows=rows, app=app, version=1)

    def _named(self, queue: str) -> str:
        return self.into or self._names().get(queue, queue)

    def _renamed(self) -> Column:
        """As `_named` has it, of rows. All at once: names may change places."""
        if self.into is not None:
            return f.lit(self.into)
        name = f.col("name")
        return f.coalesce(*(f.when(name == old, f.lit(new)) for old, new in self._names().items()), name)

    def _names(self) -> dict[str, str]:
        pairs = (text.partition("=") for text in self.rename)
        return {old: new for old, _, new in pairs}

    def _app(self, *parts: str) -> str:
        """The same for the same work to the same place, so that what is done is known when it is asked for again."""
        told = "\0".join((self.source, self.target, self.tenant, self.again, *parts))
        return f"import-{hashlib.sha256(told.encode()).hexdigest()[:32]}"

    def _done(self, target: Database, app: str) -> int:
        return int(target.value(SQL["ledger"], app) or 0)

    # Where they go to

    def _take(self, run: Run, portion: _Portion, tally: Tally) -> None:
        """Rejects first: once the rows are written, the portion counts as done and is not looked at again."""
        target = self._target(run, portion)
        frame = prepared(portion.rows, target, portion.app.removeprefix("import-")[:12]).persist()
        try:
            # There are few: a portion has a thousand names at most, and reasons are a dozen.
            counted = frame.groupBy("name", "reason").agg(f.count("*"), f.min_by("id", "position"))
            bad = tally.add(portion.queue, self.target, counted.collect())
            if not self.dry_run:
                if bad:
                    lake.append(
                        self._rejects(frame, portion), run.place("rejects"), app=portion.app, version=portion.version
                    )
                good = frame.where(f.col("reason").isNull()).select(*TAKEN[self.target])
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
            known = {name: self._prepare(database, name) for name in portion.names}
        usual = limits.MESSAGE_BYTES[1] if self.target == "stream" else QUEUE_BYTES
        return Target(
            kind=self.target, most_bytes=usual, others={name: most for name, most in known.items() if most != usual}
        )

    def _prepare(self, database: Database, name: str) -> int:
        """Make the queue or stream when it is not there, and say how many bytes it takes."""
        if self.target == "stream":
            if not self.dry_run and limits.STREAM_NAME.fullmatch(name):
                database.rows(SQL["make_stream"], name)
            return limits.MESSAGE_BYTES[1]
        if limits.QUEUE_NAME.fullmatch(name):
            if not self.dry_run:
                database.rows(SQL["make_queue"], self.tenant, name)
            return int(database.value(SQL["queue_bytes"], self.tenant, name) or QUEUE_BYTES)
        return QUEUE_BYTES

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

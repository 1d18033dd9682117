"""The pipeline `import`: work of other queues, or rows of files, become messages, events or jobs, exactly once."""

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
from penstock.spark.pipelines.importing.checks import Target, allow_repeated_members, prepared
from penstock.spark.pipelines.importing.sources import PARTS, SQL, Part, Source, filled, find_parts
from penstock.spark.pipelines.importing.tally import Tally
from penstock.spark.pipelines.pipeline import Pipeline, PipelineError
from penstock.spark.pipelines.run import Run
from penstock.spark.writing.writer import TAKEN

CHUNK = 100_000
PIECES = 4
CONNECT_S = 5.0
"""How long the check before Spark starts waits for the source database."""
MOST_NAMES = 1000
QUEUE_BYTES = 1_048_576
"""Message size limit of a queue that does not exist yet."""

SOURCES = (*PARTS, *files.KINDS)
TARGETS = ("queue", "stream", "jobs")


@dataclass(frozen=True, slots=True, kw_only=True)
class Import(Pipeline):
    """Work of other queues, or files, into queues, streams or jobs."""

    name: ClassVar[str] = "import"
    source: str
    """One of `SOURCES`."""
    target: str = "queue"
    into: str | None = None
    """Name of the target for all rows; by default each source queue keeps its name."""
    rename: tuple[str, ...] = ()
    """`old=new`."""
    from_url: str | None = None
    """Database of the source, when it is not Penstock's own."""
    source_name: str | None = None
    """Name that identifies the source database, instead of its system identifier."""
    schema: str | None = None
    queues: tuple[str, ...] = ()
    consumer: str | None = None
    """PgQ only: import what this consumer has not read."""
    paths: tuple[str, ...] = ()
    value: str | None = None
    """Files only: the column that holds the payload; by default the whole row is the payload."""
    finished: bool = False
    dry_run: bool = False
    skip_rejects: bool = False
    again: str = ""
    """A word that makes it a different import, so that rows imported before are imported again."""
    tenant: str = "default"
    chunk: int = CHUNK

    @property
    def owner(self) -> str:
        return self.tenant

    def run(self, run: Run) -> None:
        self.check(run.follow)
        tally = Tally()
        with allow_repeated_members(run.spark), closing(self._portions(run, tally)) as portions:
            for portion in portions:
                run.check()
                run.note(f"{portion.queue} → {self.target}: {tally.good:,} rows, {tally.bad:,} rejected")
                self._take(run, portion, tally)
        run.results = tally.rows()
        done = "would be imported" if self.dry_run else "imported"
        run.note(f"{tally.good:,} rows {done}, {tally.bad:,} rejected{tally.remarks()}")
        if tally.bad and not (self.dry_run or self.skip_rejects):
            raise PipelineError(f"{tally.good:,} rows imported; {tally.bad:,} rejected, see {run.path('rejects')}")

    def check(self, follow: bool) -> None:
        if follow:
            raise PipelineError("import ends when all is imported: omit --follow, and run it again for new rows")
        if self.source not in SOURCES:
            raise PipelineError(f"unknown source {self.source!r}: use one of {', '.join(SOURCES)}")
        if self.target not in TARGETS:
            raise PipelineError(f"unknown target {self.target!r}: use one of {', '.join(TARGETS)}")
        if self.source in files.KINDS and not (self.paths and (self.into or self.value)):
            raise PipelineError("files need paths and --into (or --value for the payload column, and a column `name`)")
        if self.source in PARTS and self.paths:
            raise PipelineError(f"paths are for files, but {self.source} is read from a database")
        if self.target == "stream" and self.tenant != "default":
            raise PipelineError("only the default tenant can import into streams")
        if bad := [text for text in self.rename if "=" not in text]:
            raise PipelineError(f"--rename {bad[0]!r} is not of the form old=new")

    # Where rows come from

    def check_database(self, url: str) -> None:
        if self.source in PARTS:
            with closing(Database(self.from_url or url, patience_s=CONNECT_S)) as database:
                find_parts(self.source, self._source(database), self.queues, finished=self.finished)

    def check_files(self, url: str, lake: str) -> None:
        if self.source in files.KINDS:
            files.check_paths(self.paths)

    def _source(self, database: Database) -> Source:
        return Source(database=database, schema=self.schema or PARTS[self.source][0], consumer=self.consumer)

    def _portions(self, run: Run, tally: Tally) -> Generator[_Portion]:
        with closing(Database(run.url)) as target:
            if self.source in files.KINDS:
                yield from self._of_files(run, target)
                return
            with closing(Database(self.from_url or run.url)) as database:
                found = self._source(database)
                tally.left_out = found.left_out
                yield from self._of_tables(run, found, target)

    def _of_tables(self, run: Run, found: Source, target: Database) -> Iterator[_Portion]:
        identity = self.source_name or found.identity()
        parts = find_parts(self.source, found, self.queues, finished=self.finished)
        reader.register(run.spark)
        with reader.source_snapshot(found.database) as snapshot:
            for part in parts:
                name = self._named(part.queue)
                app = self._app(identity, part.label, name)
                with self._claimed(run, part.label, app):
                    yield from self._of_part(run, part, snapshot, name, app, self._done(target, app))

    def _of_part(
        self, run: Run, part: Part, snapshot: reader.SourceSnapshot, name: str, app: str, done: int
    ) -> Iterator[_Portion]:
        bounds = [done]
        while len(bounds := self._bounds(snapshot, part, bounds[-1])) > 1:
            rows = reader.read(
                run.spark, url=self.from_url or run.url, snapshot=snapshot.snapshot, query=part.query,
                wanted=part.wanted, bounds=bounds,
            ).withColumn("name", f.lit(name))  # fmt: skip
            yield _Portion(queue=part.queue, names=(name,), rows=rows, app=app, version=bounds[-1])

    def _claimed(self, run: Run, label: str, app: str) -> AbstractContextManager[None]:
        """Two imports of the same queue at once would both write the same rows, in chunks with different borders."""
        return nullcontext() if self.dry_run else run.claimed(f"the import of {self.source} {label} ({app})")

    def _bounds(self, snapshot: reader.SourceSnapshot, part: Part, after: int) -> list[int]:
        query = filled(
            "chunk", source=part.query, wanted=part.wanted, after=str(after), rows=str(self.chunk), pieces=str(PIECES)
        )
        return [after, *sorted({int(until) for _, until in snapshot.rows(query)})]

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
        """The same as `_named`, as a column. All renames apply at once, so that names may be swapped."""
        if self.into is not None:
            return f.lit(self.into)
        name = f.col("name")
        return f.coalesce(*(f.when(name == old, f.lit(new)) for old, new in self._names().items()), name)

    def _names(self) -> dict[str, str]:
        pairs = (text.partition("=") for text in self.rename)
        return {old: new for old, _, new in pairs}

    def _app(self, *parts: str) -> str:
        """An id that is the same for the same source and target, by which the ledger knows what was imported."""
        identity = "\0".join((self.source, self.target, self.tenant, self.again, *parts))
        return f"import-{hashlib.sha256(identity.encode()).hexdigest()[:32]}"

    def _done(self, target: Database, app: str) -> int:
        return int(target.value(SQL["ledger"], app) or 0)

    # Where they go to

    def _take(self, run: Run, portion: _Portion, tally: Tally) -> None:
        """Write rejected rows first: once the good rows are written, the portion counts as done and is not repeated."""
        target = self._target(run, portion)
        frame = prepared(portion.rows, target, portion.app.removeprefix("import-")[:12]).persist()
        try:
            # Few rows: a portion has at most a thousand names, and there are a dozen reasons.
            counted = frame.groupBy("name", "reason").agg(f.count("*"), f.min_by("id", "position"))
            bad = tally.add(portion.queue, self.target, counted.collect())
            if not self.dry_run:
                if bad:
                    lake.append(
                        self._rejects(frame, portion), run.path("rejects"), app=portion.app, version=portion.version
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
        """Create the queue or stream when it is missing; returns its message size limit."""
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
            # Readers of the lake expect UTF-8; invalid bytes are replaced.
            f.make_valid_utf8("value").alias("value"),
            "deliver_at",
            f.current_timestamp().alias("rejected_at"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Portion:
    """Rows that are written in one transaction."""

    queue: str
    names: tuple[str, ...]
    rows: DataFrame
    app: str
    version: int

"""What Spark's tasks do: decode payloads, and write the rows of each type into files of its table.

The files belong to no table until the driver commits them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as compute
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import DateType, LongType, StringType, StructField, StructType, TimestampType
from pyspark.taskcontext import TaskContext

from penstock.spark.lake import partitions
from penstock.spark.lake.files import AddedFile, TaskFiles
from penstock.spark.lake.schemas import arrow_schema, spark_schema
from penstock.spark.lake.storage import below, filesystem, is_folder, make, remove
from penstock.spark.lake.table import exists, open_table
from penstock.spark.pipelines.pipeline import PipelineError
from penstock.spark.pipelines.tables.settings import table_name
from penstock.spark.pipelines.tables.shapes import OWN, Decoder, Misfit, Samples, Shape, evolved, unknown_reason

DECIDING = 1000
"""Rows that do not fit and wait until they are this many, so that a few bad payloads do not decide about columns."""
MOST_TABLES = 500
JSON_COLUMNS = "penstock.json"
"""Property of a table: the columns whose text is JSON."""
OWN_FIELDS = (
    StructField("_stream", StringType()),
    StructField("_offset", LongType()),
    StructField("_timestamp", TimestampType()),
    StructField("_key", StringType()),
)
DATE_FIELD = StructField("_date", DateType())
QUARANTINE = StructType(
    [
        StructField("stream", StringType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("type", StringType()),
        StructField("key", StringType()),
        StructField("value", StringType()),
        StructField("table", StringType()),
        StructField("reason", StringType()),
    ]
)
EVENT_COLUMNS = ("stream", "offset", "timestamp", "type", "key", "value")


@dataclass(frozen=True, slots=True)
class Plan:
    """Where the rows of one type go."""

    table: str
    path: str
    shape: Shape
    partition_by: tuple[str, ...] = ()
    evolve: bool = True
    key: tuple[str, ...] = ()

    def encode(self) -> dict[str, Any]:
        return {
            "table": self.table, "path": self.path, "shape": self.shape.encode(), "partition_by": self.partition_by,
            "evolve": self.evolve, "key": self.key,
        }  # fmt: skip

    @classmethod
    def decode(cls, plan: dict[str, Any]) -> Plan:
        return cls(
            plan["table"], plan["path"], Shape.decode(plan["shape"]), tuple(plan["partition_by"]), plan["evolve"],
            tuple(plan["key"]),
        )  # fmt: skip

    def schema(self) -> StructType:
        more = [DATE_FIELD] if DATE_FIELD.name in self.partition_by else []
        return StructType([*self.shape.schema.fields, *OWN_FIELDS, *more])


@dataclass
class Outcome:
    """What a task found of one type."""

    files: list[AddedFile] = field(default_factory=list)
    bad: list[AddedFile] = field(default_factory=list)
    rows: int = 0
    bad_rows: int = 0
    shapes: list[dict[str, Any]] = field(default_factory=list)
    """Shapes that files were written with, and last the one that the task came to."""


Outcomes = list[tuple[str | None, Outcome]]
"""The outcome of each event type, in any order and of any task."""


@dataclass
class Written(WriterCommitMessage):
    outcomes: Outcomes


class TablesSink(DataSource):
    """Options: `plans`, the plan of each type as JSON; `quarantine`; `unplanned`, the reason for which events of other
    types go there, or nothing to skip them; `others`, the folder where they become tables instead; and `outcomes`, the
    file that gets the outcomes of all tasks.

    A data source, since Spark's functions on Arrow batches need pandas.
    """

    @classmethod
    def name(cls) -> str:
        return "penstock_tables"

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        plans = {kind: Plan.decode(plan) for kind, plan in json.loads(self.options["plans"]).items()}
        options = self.options
        return TablesWriter(
            plans, options["quarantine"], options.get("unplanned") or None, options["outcomes"],
            others=options.get("others") or None,
        )  # fmt: skip


class TablesWriter(DataSourceArrowWriter):
    def __init__(
        self,
        plans: Mapping[str, Plan],
        quarantine: str,
        unplanned: str | None,
        outcomes: str,
        *,
        others: str | None = None,
    ) -> None:
        self._plans, self._quarantine, self._unplanned, self._outcomes = plans, quarantine, unplanned, outcomes
        self._others = others

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        context = TaskContext.get()
        task = f"{context.partitionId():05d}" if context is not None else "00000"
        writers: dict[str | None, _TypeWriter] = {}
        try:
            for batch in iterator:
                self._write(batch, writers, task)
            return Written([(name, writer.close()) for name, writer in writers.items()])
        except BaseException:
            for writer in writers.values():
                writer.discard()
            raise

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """In a process of its own, so the outcomes are passed on in a file."""
        found = [each for message in messages if isinstance(message, Written) for each in message.outcomes]
        folder, _, name = self._outcomes.rpartition("/")
        make(folder)
        text = msgspec.json.encode(found)
        # What is larger than the buffer would be passed on as it is, and deltalake does not accept Python's bytes.
        with pa.BufferedOutputStream(filesystem(folder, {}).open_output_stream(name), len(text) + 1) as stream:
            stream.write(text)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """The files belong to no table: `vacuum` deletes them."""

    def _write(self, batch: pa.RecordBatch, writers: dict[str | None, _TypeWriter], task: str) -> None:
        kinds = batch.column("type")
        for name in kinds.unique().to_pylist():
            if name not in writers:
                plan = self._plan(name)
                if plan is None and self._unplanned is None:
                    continue
                if len(writers) >= MOST_TABLES:
                    raise PipelineError(f"a batch has more than {MOST_TABLES} event types: declare those that you want")
                writers[name] = _TypeWriter(plan, self._quarantine, task, self._unplanned or "")
            rows = batch.filter(compute.is_null(kinds) if name is None else compute.equal(kinds, name))
            writers[name].add(rows)

    def _plan(self, name: str | None) -> Plan | None:
        """A type that the driver has not heard of begins with the columns of its table, or none."""
        if name is None or name in self._plans or self._others is None:
            return None if name is None else self._plans.get(name)
        table = table_name(name)
        path = below(self._others, table)
        return Plan(table, path, stored_shape(path))


def stored_shape(path: str) -> Shape:
    """The columns of a table besides those that every table has."""
    if not exists(path):
        return Shape(StructType([]))
    table = open_table(path)
    schema = StructType([each for each in spark_schema(table).fields if each.name not in OWN])
    marked = json.loads(table.metadata().configuration.get(JSON_COLUMNS, "[]"))
    return Shape(schema, frozenset(marked) & set(schema.names))


def take_outcomes(path: str) -> Outcomes:
    """Read the file of outcomes, and delete it."""
    folder, _, name = path.rpartition("/")
    place = filesystem(folder, {})
    with place.open_input_file(name) as stream:
        found = msgspec.json.decode(stream.read(), type=Outcomes)
    remove(place, [name])
    return found


class _TypeWriter:
    def __init__(self, plan: Plan | None, quarantine: str, task: str, reason: str) -> None:
        self._plan, self._reason = plan, reason
        self._bad = _files(quarantine, QUARANTINE, (), task)
        self._found = Outcome()
        self._task = task
        self._doubtful: list[pa.RecordBatch] = []
        if plan is not None:
            self._fit(plan.shape)

    def _fit(self, shape: Shape) -> None:
        """Write the rows that follow with this shape."""
        assert self._plan is not None
        self._shape = shape
        plan = replace(self._plan, shape=shape)
        self._decoder = Decoder(shape)
        self._schema = arrow_schema(plan.schema())
        self._good = _files(plan.path, plan.schema(), plan.partition_by, self._task)

    def _finish(self) -> None:
        if files := self._good.close():
            self._found.files += files
            self._found.shapes.append(self._shape.encode())

    def add(self, rows: pa.RecordBatch) -> None:
        if self._plan is None:
            self._quarantine(rows, [*range(rows.num_rows)], [self._reason] * rows.num_rows)
            return
        decoded, kept, wrong, reasons = self._decoded(_texts(rows))
        if decoded:
            self._keep(rows, decoded, kept)
        if not self._plan.evolve:
            self._quarantine(rows, wrong, reasons)
        elif wrong:
            self._doubtful.append(rows.take(pa.array(wrong, pa.int64())))
            if sum(each.num_rows for each in self._doubtful) >= DECIDING:
                self._decide()

    def _decide(self) -> None:
        """Add the columns that most of the waiting rows ask for, as long as they do; then sort them out."""
        if not self._doubtful:
            return
        [rows] = pa.Table.from_batches(self._doubtful).combine_chunks().to_batches()
        self._doubtful = []
        texts = _texts(rows)
        misfits = texts
        while (shape := self._grown(misfits)) != self._shape:
            self._finish()
            self._fit(shape)
            _, _, wrong, _ = self._decoded(texts)
            misfits = [texts[number] for number in wrong]
        decoded, kept, wrong, reasons = self._decoded(texts, decided=True)
        if decoded:
            self._keep(rows, decoded, kept)
        self._quarantine(rows, wrong, reasons)

    def _decoded(
        self, texts: list[str | None], *, decided: bool = False
    ) -> tuple[list[object], list[int], list[int], list[str]]:
        """The rows that fit and their numbers, and the numbers of the others with the reasons.

        When columns are decided, fields without one do not matter if they say nothing.
        """
        decoded: list[object] = []
        wrong: list[int] = []
        reasons: list[str] = []
        left = iter(texts)
        while True:
            try:
                # Keeps what was decoded before a row that does not fit.
                decoded.extend(map(self._decoder.decode, left))
                break
            except Misfit as error:
                number = len(decoded) + len(wrong)
                if decided and (row := self._decoder.decode_known(texts[number])) is not None:
                    decoded.append(row)
                    continue
                wrong.append(number)
                reasons.append(str(error))
        misfits = set(wrong)
        kept = [number for number in range(len(texts)) if number not in misfits] if wrong else [*range(len(texts))]
        return decoded, kept, wrong, reasons

    def _grown(self, misfits: list[str | None]) -> Shape:
        """The shape that most of the payloads that do not fit ask for."""
        assert self._plan is not None
        if not self._plan.evolve:
            return self._shape
        samples = Samples()
        for text in misfits:
            samples.look(text)
        return evolved(self._shape, samples).keyed(self._plan.key)

    def _keep(self, rows: pa.RecordBatch, decoded: list[object], kept: list[int]) -> None:
        try:
            columns = self._decoder.columns(decoded, self._schema)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, ValueError):
            # Rare: a value of the right kind that its type cannot hold. Find the rows one by one.
            fitting: list[tuple[object, int]] = []
            wrong: list[int] = []
            reasons: list[str] = []
            for row, number in zip(decoded, kept, strict=True):
                try:
                    self._decoder.columns([row], self._schema)
                    fitting.append((row, number))
                except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, ValueError) as error:
                    wrong.append(number)
                    reasons.append(" ".join(str(error).split()))
            self._quarantine(rows, wrong, reasons)
            decoded, kept = [row for row, _ in fitting], [number for _, number in fitting]
            columns = self._decoder.columns(decoded, self._schema)
        chosen = rows if len(kept) == rows.num_rows else rows.take(pa.array(kept, pa.int64()))
        for each in [*self._schema][len(columns) :]:
            given = chosen.column("timestamp" if each.name == DATE_FIELD.name else each.name.removeprefix("_"))
            columns.append(given.cast(each.type))
        self._good.add(pa.RecordBatch.from_arrays(columns, schema=self._schema))
        self._found.rows += len(kept)

    def _quarantine(self, rows: pa.RecordBatch, wrong: list[int], reasons: list[str]) -> None:
        if not wrong:
            return
        chosen = rows.take(pa.array(wrong, pa.int64()))
        if self._plan is not None and self._plan.evolve:
            texts = chosen.column("value").to_pylist()
            reasons = [self._explained(text, reason) for text, reason in zip(texts, reasons, strict=True)]
        table = None if self._plan is None else self._plan.table
        more = [pa.array([table] * len(wrong), pa.string()), pa.array(reasons, pa.string())]
        columns = [chosen.column(name) for name in EVENT_COLUMNS]
        named = pa.RecordBatch.from_arrays([*columns, *more], names=[*EVENT_COLUMNS, "table", "reason"])
        self._bad.add(named)
        self._found.bad_rows += len(wrong)

    def _explained(self, text: str | None, reason: str) -> str:
        return unknown_reason(text, self._shape) or reason if text is not None and "unknown field" in reason else reason

    def close(self) -> Outcome:
        if self._plan is not None:
            self._decide()
            self._finish()
            self._found.shapes.append(self._shape.encode())
        self._found.bad = self._bad.close()
        return self._found

    def discard(self) -> None:
        if self._plan is not None:
            self._good.discard()
            remove(filesystem(self._plan.path, {}), [each.path for each in self._found.files])
        self._bad.discard()


def _texts(rows: pa.RecordBatch) -> list[str | None]:
    found: list[str | None] = rows.column("value").to_numpy(zero_copy_only=False).tolist()
    return found


def _files(path: str, schema: StructType, partition_by: tuple[str, ...], task: str) -> TaskFiles:
    make(path)
    named = partitions.folder_name if is_folder(path) else partitions.key_name
    return TaskFiles(filesystem(path, {}), arrow_schema(schema), partition_by, "", task, named)

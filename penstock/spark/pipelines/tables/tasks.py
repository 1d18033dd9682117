"""What Spark's tasks do: decode payloads, and write the rows of each type into files of its table.

The files belong to no table until the driver commits them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as compute
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import DateType, LongType, StringType, StructField, StructType, TimestampType
from pyspark.taskcontext import TaskContext

from penstock.spark.lake import partitions
from penstock.spark.lake.files import AddedFile, TaskFiles
from penstock.spark.lake.schemas import arrow_schema
from penstock.spark.lake.storage import filesystem, is_folder, make, remove
from penstock.spark.pipelines.tables.shapes import Decoder, Misfit, Samples, Shape, evolved, unknown_reason

SAMPLES = 2000
"""Payloads per task and type that decide about columns."""
SAMPLES_PER_BATCH = 200
"""Payloads of each Arrow batch that are looked at when the rows of a type will be written again anyway."""
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
    last: bool = False
    """Whether payloads that need other columns are bad rows now: the columns were decided before."""

    def encode(self) -> dict[str, Any]:
        shape = self.shape
        return {
            "table": self.table, "path": self.path, "schema": shape.schema.jsonValue(), "json": sorted(shape.json),
            "open": shape.open, "partition_by": self.partition_by, "evolve": self.evolve, "last": self.last,
        }  # fmt: skip

    @classmethod
    def decode(cls, plan: dict[str, Any]) -> Plan:
        shape = Shape(StructType.fromJson(plan["schema"]), frozenset(plan["json"]), plan["open"])
        return cls(plan["table"], plan["path"], shape, tuple(plan["partition_by"]), plan["evolve"], plan["last"])

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
    samples: Samples | None = None
    """Set when payloads need other columns."""
    unknown: bool = False
    """Whether the driver has to plan this type first."""


Outcomes = list[tuple[str | None, Outcome]]
"""The outcome of each event type, in any order and of any task."""


@dataclass
class Written(WriterCommitMessage):
    outcomes: Outcomes


class TablesSink(DataSource):
    """Options: `plans`, the plan of each type as JSON; `quarantine`; `unplanned`, the reason for which events of other
    types go there, or nothing to skip them; `discover`, whether to report other types instead; and `outcomes`, the file
    that gets the outcomes of all tasks.

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
            discover=options.get("discover") == "true",
        )  # fmt: skip


class TablesWriter(DataSourceArrowWriter):
    def __init__(
        self,
        plans: Mapping[str, Plan],
        quarantine: str,
        unplanned: str | None,
        outcomes: str,
        *,
        discover: bool = False,
    ) -> None:
        self._plans, self._quarantine, self._unplanned, self._outcomes = plans, quarantine, unplanned, outcomes
        self._discover = discover

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        context = TaskContext.get()
        task = f"{context.partitionId():05d}" if context is not None else "00000"
        writers: dict[str | None, _TypeWriter | _Looker] = {}
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
        with pa.BufferedOutputStream(filesystem(folder, {}).open_output_stream(name), 65536) as stream:
            stream.write(msgspec.json.encode(found))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """The files belong to no table: `vacuum` deletes them."""

    def _write(self, batch: pa.RecordBatch, writers: dict[str | None, _TypeWriter | _Looker], task: str) -> None:
        kinds = batch.column("type")
        for name in kinds.unique().to_pylist():
            plan = self._plans.get(name)
            discover = self._discover and plan is None and name is not None
            if plan is None and self._unplanned is None and not discover:
                continue
            if name not in writers:
                made = _Looker() if discover else _TypeWriter(plan, self._quarantine, task, self._unplanned or "")
                writers[name] = made
            rows = batch.filter(compute.is_null(kinds) if name is None else compute.equal(kinds, name))
            writers[name].add(rows)


def take_outcomes(path: str) -> Outcomes:
    """Read the file of outcomes, and delete it."""
    folder, _, name = path.rpartition("/")
    place = filesystem(folder, {})
    with place.open_input_file(name) as stream:
        found = msgspec.json.decode(stream.read(), type=Outcomes)
    remove(place, [name])
    return found


class _Looker:
    """Looks at payloads of a type that the driver has not planned yet, spread over all rows, and writes nothing."""

    def __init__(self) -> None:
        self._samples, self._looked = Samples(), 0

    def add(self, rows: pa.RecordBatch) -> None:
        for text in rows.column("value")[:: max(rows.num_rows // SAMPLES_PER_BATCH, 1)].to_pylist():
            self._looked += self._samples.look(text)

    def close(self) -> Outcome:
        return Outcome(samples=self._samples if self._looked else None, unknown=True)

    def discard(self) -> None:
        """Nothing was written."""


class _TypeWriter:
    def __init__(self, plan: Plan | None, quarantine: str, task: str, reason: str) -> None:
        self._plan, self._reason = plan, reason
        self._bad = _files(quarantine, QUARANTINE, (), task)
        self._found = Outcome()
        self._samples, self._looked = Samples(), 0
        self._again = False
        """Whether the rows will be written again with other columns: then only samples matter."""
        if plan is not None:
            self._decoder = Decoder(plan.shape)
            self._schema = arrow_schema(plan.schema())
            self._good = _files(plan.path, plan.schema(), plan.partition_by, task)

    def add(self, rows: pa.RecordBatch) -> None:
        if self._plan is None:
            self._quarantine(rows, [*range(rows.num_rows)], [self._reason] * rows.num_rows)
            return
        if self._again:
            self._look(rows)
            return
        decoded, kept, wrong, reasons = [], [], [], []
        decode = self._decoder.decode
        for number, text in enumerate(rows.column("value").to_pylist()):
            try:
                decoded.append(decode(text))
                kept.append(number)
            except Misfit as error:
                wrong.append(number)
                reasons.append(self._misfit(text, str(error)))
        if wrong and self._plan.evolve and not self._plan.last:
            # More samples can only ask for more.
            self._again = evolved(self._plan.shape, self._samples) != self._plan.shape
            if self._again:
                return
        if decoded:
            self._keep(rows, decoded, kept, wrong, reasons)
        self._quarantine(rows, wrong, reasons)

    def _look(self, rows: pa.RecordBatch) -> None:
        for text in rows.column("value")[:: max(rows.num_rows // SAMPLES_PER_BATCH, 1)].to_pylist():
            try:
                self._decoder.decode(text)
            except Misfit:
                self._looked += self._samples.look(text)

    def _keep(
        self, rows: pa.RecordBatch, decoded: list[object], kept: list[int], wrong: list[int], reasons: list[str]
    ) -> None:
        try:
            columns = self._decoder.columns(decoded, self._schema)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, ValueError):
            # Rare: a value of the right kind that its type cannot hold. Find the rows one by one.
            fitting: list[tuple[object, int]] = []
            for row, number in zip(decoded, kept, strict=True):
                try:
                    self._decoder.columns([row], self._schema)
                    fitting.append((row, number))
                except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, ValueError) as error:
                    wrong.append(number)
                    reasons.append(" ".join(str(error).split()))
            decoded, kept = [row for row, _ in fitting], [number for _, number in fitting]
            columns = self._decoder.columns(decoded, self._schema)
        chosen = rows if len(kept) == rows.num_rows else rows.take(pa.array(kept, pa.int64()))
        for each in [*self._schema][len(columns) :]:
            given = chosen.column("timestamp" if each.name == DATE_FIELD.name else each.name.removeprefix("_"))
            columns.append(given.cast(each.type))
        self._good.add(pa.RecordBatch.from_arrays(columns, schema=self._schema))
        self._found.rows += len(kept)

    def _misfit(self, text: str | None, reason: str) -> str:
        assert self._plan is not None
        if not self._plan.evolve:
            return reason
        if not self._plan.last and self._looked < SAMPLES and self._samples.look(text):
            self._looked += 1
        if text is not None and "unknown field" in reason:
            return unknown_reason(text, self._plan.shape) or reason
        return reason

    def _quarantine(self, rows: pa.RecordBatch, wrong: list[int], reasons: list[str]) -> None:
        if not wrong:
            return
        chosen = rows.take(pa.array(wrong, pa.int64()))
        table = None if self._plan is None else self._plan.table
        more = [pa.array([table] * len(wrong), pa.string()), pa.array(reasons, pa.string())]
        columns = [chosen.column(name) for name in EVENT_COLUMNS]
        named = pa.RecordBatch.from_arrays([*columns, *more], names=[*EVENT_COLUMNS, "table", "reason"])
        self._bad.add(named)
        self._found.bad_rows += len(wrong)

    def close(self) -> Outcome:
        if self._plan is not None:
            self._found.files = self._good.close()
        self._found.bad = self._bad.close()
        self._found.samples = self._samples if self._looked else None
        return self._found

    def discard(self) -> None:
        if self._plan is not None:
            self._good.discard()
        self._bad.discard()


def _files(path: str, schema: StructType, partition_by: tuple[str, ...], task: str) -> TaskFiles:
    make(path)
    named = partitions.folder_name if is_folder(path) else partitions.key_name
    return TaskFiles(filesystem(path, {}), arrow_schema(schema), partition_by, "", task, named)

"""Applies a micro-batch of events to the tables, each once: every commit records the query and the batch.

Tasks write files with the columns that the tables have, and add columns that payloads need. The driver joins what the
tasks came to. Where tasks differ, the files of the type are thrown away, and the type is written again with the joined
columns. A column that a table has is never decided again; so a batch that is repeated after a crash splits good rows
from bad ones in the same way.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from uuid import uuid4

import pyarrow as pa
import pyarrow.dataset as dataset
import pyarrow.parquet as parquet
from deltalake import DeltaTable
from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import DoubleType, IntegerType, LongType, StructField, StructType

from penstock.spark import lake
from penstock.spark.lake.files import AddedFile
from penstock.spark.lake.reader import table_files
from penstock.spark.lake.rewriting import rewrite
from penstock.spark.lake.schemas import arrow_schema, delta_schema, nullable, spark_schema
from penstock.spark.lake.storage import below, filesystem, remove
from penstock.spark.lake.table import Commit, exists, is_done, open_table
from penstock.spark.pipelines.change_data.columns import fits
from penstock.spark.pipelines.checkpoint_ids import query_id
from penstock.spark.pipelines.pipeline import PipelineError
from penstock.spark.pipelines.tables.settings import TablesSettings, TypeSettings
from penstock.spark.pipelines.tables.shapes import EXACT, Shape, joined
from penstock.spark.pipelines.tables.tasks import (
    EVENT_COLUMNS,
    JSON_COLUMNS,
    QUARANTINE,
    Outcome,
    Plan,
    TablesSink,
    stored_shape,
    take_outcomes,
)

PASSES = 6
"""How often the types of a batch are written at most until their columns are decided."""
UNPLANNED = "no table is declared for this type"
QUARANTINE_FOLDER = "_quarantine"
_STAGING = "_staging"
_BOUNDS = ("minValues", "maxValues")


@dataclass(slots=True)
class TypeResult:
    plan: Plan | None
    outcomes: list[Outcome]

    @property
    def files(self) -> list[AddedFile]:
        return [each for outcome in self.outcomes for each in outcome.files]

    @property
    def bad(self) -> list[AddedFile]:
        return [each for outcome in self.outcomes for each in outcome.bad]

    def shapes(self) -> list[Shape]:
        """The shapes of all files, and what each task came to; those with most rows first."""
        ordered = sorted(self.outcomes, key=lambda each: (-each.rows, json.dumps(each.shapes)))
        return [Shape.decode(shape) for outcome in ordered for shape in reversed(outcome.shapes)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyEvents:
    """For `foreachBatch`. Spark Connect pickles it, so it has plain fields only."""

    root: str
    """Folder of the tables."""
    settings: TablesSettings
    checkpoint: str
    seen: set[str] = field(default_factory=set)
    """Types of the batch before, whose tables tasks need not look at."""

    @property
    def quarantine(self) -> str:
        return below(self.root, QUARANTINE_FOLDER)

    def __call__(self, events: DataFrame, batch: int) -> None:
        query = query_id(events.sparkSession, self.checkpoint)
        rows = events.select(*EVENT_COLUMNS)
        results = self._written(rows)
        for kind in sorted(results, key=lambda name: name or ""):
            plan, found = results[kind].plan, results[kind].files
            if plan is not None and (found or exists(plan.path)):
                self._commit(plan, self._type(kind), found, query, batch)
        bad = [each for result in results.values() for each in result.bad]
        if bad:
            _append(self.quarantine, QUARANTINE, (), bad, query, batch)

    def _written(self, rows: DataFrame) -> dict[str | None, TypeResult]:
        """What tasks have written of each type, with its final columns."""
        done: dict[str | None, TypeResult] = {}
        plans = self._plans([*self.settings.types, *self.seen])
        for number in range(PASSES):
            last = number == PASSES - 1
            outcomes = self._run(rows, plans, first=number == 0, last=last)
            if number == 0 and self.settings.others == "tables":
                self.seen.clear()
                self.seen.update(kind for kind in outcomes if kind is not None)
            again: dict[str, Plan] = {}
            for kind, result in outcomes.items():
                wanted = None if last else _settled(result)
                if wanted is None:
                    done[kind] = result
                else:
                    assert kind is not None
                    again[kind] = wanted
                    self._discard(result)
            if not again:
                break
            plans = again
            rows = rows.where(f.col("type").isin([*again]))
        return done

    def _run(
        self, rows: DataFrame, plans: Mapping[str, Plan], *, first: bool, last: bool
    ) -> dict[str | None, TypeResult]:
        if last:
            plans = {kind: replace(plan, evolve=False) for kind, plan in plans.items()}
        others = self.settings.others if first else "skip"
        outcomes = below(self.root, _STAGING, f"{uuid4().hex}.json")
        rows.sparkSession.dataSource.register(TablesSink)
        rows.write.format(TablesSink.name()).options(
            plans=json.dumps({kind: plan.encode() for kind, plan in plans.items()}), quarantine=self.quarantine,
            unplanned=UNPLANNED if others == "quarantine" else "", others=self.root if others == "tables" else "",
            outcomes=outcomes,
        ).mode("append").save()  # fmt: skip
        found: dict[str | None, TypeResult] = {}
        for kind, outcome in take_outcomes(outcomes):
            if kind not in found:
                plan = None if kind is None else plans.get(kind) or self._plan(kind)
                found[kind] = TypeResult(plan, [])
            found[kind].outcomes.append(outcome)
        return found

    def _plans(self, kinds: Iterable[str]) -> dict[str, Plan]:
        return {kind: plan for kind in kinds if (plan := self._plan(kind)) is not None}

    def _type(self, kind: str | None) -> TypeSettings:
        found = self.settings.of(kind or "")
        assert found is not None
        return found

    def _plan(self, kind: str) -> Plan | None:
        settings = self.settings.of(kind)
        if settings is None:
            return None
        path = below(self.root, settings.table)
        shape = shape_of(path, settings)
        return Plan(settings.table, path, shape, settings.partition_by, settings.evolve, settings.key)

    def _discard(self, result: TypeResult) -> None:
        if result.plan is not None:
            remove(filesystem(result.plan.path, {}), [each.path for each in result.files])
        if result.bad:
            remove(filesystem(self.quarantine, {}), [each.path for each in result.bad])

    def _commit(self, plan: Plan, settings: TypeSettings, files: list[AddedFile], query: str, batch: int) -> None:
        prepare(plan)
        if missing := [name for name in settings.key if name not in plan.shape.schema.names]:
            raise PipelineError(f"table {plan.table}: no payload has the key {missing[0]!r}, or its case differs")
        if settings.key:
            _upsert(plan, settings, files, query, batch)
        elif files:
            _append(plan.path, plan.schema(), plan.partition_by, files, query, batch)


def _settled(result: TypeResult) -> Plan | None:
    """Give a type the columns that its tasks came to; or the plan to write it with again, when they differ."""
    if result.plan is None:
        return None
    shapes, given = result.shapes(), result.plan.shape
    plan = replace(result.plan, shape=joined(given, shapes).keyed(result.plan.key))
    if exact := {name for name in _grown(plan.shape, [given, *shapes]) if _has_large(name, result)}:
        given = replace(given, exact=given.exact | exact)
        plan = replace(plan, shape=joined(given, shapes).keyed(plan.key))
    if all(plan.shape.holds(each) for each in shapes):
        result.plan = plan
        return None
    return plan


def _grown(to: Shape, shapes: Iterable[Shape]) -> set[str]:
    """The columns that are doubles now, and were whole numbers in one of the shapes."""
    doubles = {each.name for each in to.schema.fields if isinstance(each.dataType, DoubleType)}
    whole = {each.name for shape in shapes for each in shape.schema.fields if isinstance(each.dataType, LongType)}
    return doubles & whole


def _has_large(name: str, result: TypeResult) -> bool:
    """Whether the table, or a file of the batch, has a whole number in the column that a double cannot hold."""
    bounds = [json.loads(each.statistics)[bound].get(name) for each in result.files for bound in _BOUNDS]
    if any(isinstance(bound, int) and abs(bound) > EXACT for bound in bounds):
        return True
    assert result.plan is not None
    if not exists(result.plan.path):
        return False
    table = open_table(result.plan.path)
    if StructField(name, LongType()) not in spark_schema(table).fields:
        return False
    column = dataset.field(name)
    large = (column > EXACT) | (column < -EXACT)
    return bool(table.to_pyarrow_dataset().head(1, columns=[name], filter=large).num_rows)


def shape_of(path: str, settings: TypeSettings) -> Shape:
    """The columns of the table, and those that its declaration adds."""
    found = stored_shape(path)
    schema = found.schema
    if settings.schema is not None:
        schema = _declared(settings.table, schema, nullable(settings.schema), settings.schema)
    return replace(found, schema=schema, json=found.json & set(schema.names), open=settings.evolve).keyed(settings.key)


def _declared(table: str, there: StructType, relaxed: StructType, declared: StructType) -> StructType:
    """Declared columns first. One whose type has grown in the table keeps the wider type."""
    known = {each.name: each.dataType for each in there.fields}
    found = []
    for each, kind in zip(declared.fields, (each.dataType for each in relaxed.fields), strict=True):
        old = known.pop(each.name, None)
        if old is None or old == kind or fits(old, kind):
            found.append(each)
        elif fits(kind, old) or (isinstance(kind, LongType | IntegerType) and isinstance(old, DoubleType)):
            found.append(StructField(each.name, old, each.nullable))
        else:
            raise PipelineError(
                f"table {table}: column {each.name!r} is {old.simpleString()}, which cannot become"
                f" {kind.simpleString()}: declare another table for it"
            )
    return StructType([*found, *(each for each in there.fields if each.name in known)])


def prepare(plan: Plan) -> None:
    """Bring the columns of a table up to date, before rows are committed. Repeating it changes nothing."""
    if not exists(plan.path):
        made = delta_schema(plan.schema())
        config = {JSON_COLUMNS: json.dumps(sorted(plan.shape.json))} if plan.shape.json else None
        DeltaTable.create(
            plan.path, made, mode="ignore", partition_by=[*plan.partition_by], configuration=config,
            raise_if_key_not_exists=False,
        )  # fmt: skip
        return
    table = open_table(plan.path)
    known = set(json.loads(table.metadata().configuration.get(JSON_COLUMNS, "[]")))
    if not plan.shape.json <= known:
        # Before the columns are there: a text column that is not known to hold JSON would refuse it.
        named = {JSON_COLUMNS: json.dumps(sorted(known | plan.shape.json))}
        table.alter.set_table_properties(named, raise_if_not_exists=False)
        table = open_table(plan.path)
    there = {each.name: each.dataType for each in spark_schema(table).fields}
    wanted = nullable(plan.schema())
    grown = {each.name for each in wanted.fields if each.name in there and there[each.name] != each.dataType}
    if grown:
        rewrite(table, arrow_schema(wanted), grown)


def _append(
    path: str, schema: StructType, partition_by: Sequence[str], files: list[AddedFile], query: str, batch: int
) -> None:
    commit = Commit(
        path, {}, delta_schema(schema), partition_by=partition_by, app=query, app_version=batch, merge_schema=True
    )
    if not commit.add(files):
        named = {each.path for each in table_files(open_table(path))}
        remove(filesystem(path, {}), [each.path for each in files if each.path not in named])


def _upsert(plan: Plan, settings: TypeSettings, files: list[AddedFile], query: str, batch: int) -> None:
    """Merge the newest row of each key. The files of the tasks are read back and deleted."""
    if not files:
        return
    place = filesystem(plan.path, {})
    names = [each.path for each in files]
    if not is_done(open_table(plan.path), query, batch):
        rows = _read_back(plan, files)
        newest = _newest(rows, settings.key)
        columns = {f"`{name}`": f"source.`{name}`" for name in newest.column_names}
        same = " and ".join(f"target.`{name}` = source.`{name}`" for name in settings.key)
        lake.merge(
            plan.path, newest, same,
            lambda merger: merger.when_matched_update(columns, "source.`_offset` > target.`_offset`")
            .when_not_matched_insert(columns),
            app=query, version=batch, merge_schema=True,
        )  # fmt: skip
    remove(place, names)


def _read_back(plan: Plan, files: list[AddedFile]) -> pa.Table:
    schema = arrow_schema(plan.schema())
    place = filesystem(plan.path, {})
    tables = []
    for each in files:
        with place.open_input_file(each.path) as opened:
            table = parquet.read_table(opened)
        for name, value in each.values.items():
            values = pa.array([value], pa.string()).cast(schema.field(name).type)
            table = table.append_column(name, pa.repeat(values[0], table.num_rows))
        for missing in schema.names:
            if missing not in table.column_names:
                table = table.append_column(missing, pa.nulls(table.num_rows, schema.field(missing).type))
        tables.append(table.select(schema.names).cast(schema))
    return pa.concat_tables(tables)


def _newest(rows: pa.Table, key: Sequence[str]) -> pa.Table:
    numbered = rows.append_column("__row", pa.array(range(rows.num_rows), pa.int64()))
    ordered = numbered.select([*key, "_offset", "__row"]).sort_by([("_offset", "ascending")])
    last = ordered.group_by([*key], use_threads=False).aggregate([("__row", "last")])
    return rows.take(last.column("__row_last"))

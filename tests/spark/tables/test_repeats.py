"""A batch of tables that is killed anywhere and repeated: each good row once and typed, each bad one once aside.

Without Spark: tasks run in this process, and a repeated batch has other tasks and other Arrow batches.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import wraps
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars
import pyarrow as pa
import pytest

from penstock.spark.lake.schemas import arrow_schema
from penstock.spark.pipelines.tables import batch as batches
from penstock.spark.pipelines.tables.batch import ApplyEvents
from penstock.spark.pipelines.tables.settings import TablesSettings, TypeSettings
from penstock.spark.pipelines.tables.shapes import Decoder, Misfit
from penstock.spark.pipelines.tables.tasks import TablesSink, stored_shape

MOMENT = datetime(2026, 11, 18, tzinfo=UTC)
EVENTS, BATCHES, TYPES = 400, 5, 3

BAD = ("nonsense", '{"id": "x"}', "[1]", '{"ID": 1}', '{"id": null, "_offset": 1}', '{"id": 1} x')

Event = tuple[int, str, str]


class Killed(Exception):
    pass


class Frame:
    """As much of a DataFrame as a batch uses: its rows in some tasks, each with some Arrow batches."""

    def __init__(self, events: list[Event], chance: random.Random) -> None:
        self._events, self._chance = events, chance
        self.sparkSession = SimpleNamespace(dataSource=SimpleNamespace(register=lambda source: None))

    def select(self, *columns: str) -> Frame:
        return self

    def where(self, kinds: list[str]) -> Frame:
        return Frame([each for each in self._events if each[1] in kinds], self._chance)

    @property
    def write(self) -> Frame:
        return self

    def format(self, name: str) -> Frame:
        return self

    def options(self, **options: str) -> Frame:
        self._options = options
        return self

    def mode(self, mode: str) -> Frame:
        return self

    def save(self) -> None:
        writer = TablesSink(self._options).writer(None, False)  # type: ignore[arg-type]
        size = self._chance.randint(1, len(self._events))
        tasks = [self._events[first : first + size] for first in range(0, len(self._events), size)]
        writer.commit([writer.write(self._arrow(task)) for task in tasks])

    def _arrow(self, events: list[Event]) -> Iterator[pa.RecordBatch]:
        size = self._chance.randint(5, 200)
        for first in range(0, len(events), size):
            part = events[first : first + size]
            yield pa.record_batch({
                "stream": ["s"] * len(part), "offset": pa.array([offset for offset, _, _ in part], pa.int64()),
                "timestamp": pa.array([MOMENT] * len(part), pa.timestamp("us", "UTC")),
                "type": [kind for _, kind, _ in part], "key": ["k"] * len(part), "value": [text for _, _, text in part],
            })  # fmt: skip


def payload(number: int, chance: random.Random) -> str:
    """New fields come, whole numbers become fractions, and some payloads are bad; some fields have several kinds."""
    if chance.random() < 0.05:
        return chance.choice(
            ["nonsense", '{"id": "x"}', "[1]", '{"ID": 1}', '{"id": null, "_offset": 1}', '{"id": 1} x']
        )
    found: dict[str, Any] = {"id": number % 50, "total": number + (0.5 if number > EVENTS // 2 else 0)}
    found["serial"] = 2**60 + number if number > EVENTS // 3 else number
    if chance.random() < 0.02:
        found["serial"] = 0.5
    if number > EVENTS // 4:
        found["note"] = f"note {number}"
    if number > EVENTS * 3 // 4:
        found["tags"] = [["a", "b"], [], None][number % 3]
    if chance.random() < 0.1:
        found[chance.choice(["late", "Late"])] = chance.choice([1, 1.5, "x", {"a": 1}, [1], [1.5]])
    return json.dumps(found)


def kill(monkeypatch: pytest.MonkeyPatch, chance: random.Random) -> None:
    """Before or after each step that changes a table."""

    def killing(work: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(work)
        def run(*given: Any, **named: Any) -> Any:
            if chance.random() < 0.08:
                raise Killed
            found = work(*given, **named)
            if chance.random() < 0.08:
                raise Killed
            return found

        return run

    for name in ("prepare", "_append", "_upsert", "rewrite"):
        monkeypatch.setattr(batches, name, killing(getattr(batches, name)))


@pytest.mark.parametrize("seed", [5, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(5))])
def test_each_event_is_in_one_place_once_however_often_its_batch_is_killed(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    monkeypatch.setattr(batches, "f", SimpleNamespace(col=lambda name: SimpleNamespace(isin=list)))
    monkeypatch.setattr(batches, "query_id", lambda session, checkpoint: "query")
    kill(monkeypatch, chance)
    settings = TablesSettings(types={"keyed": TypeSettings(table="keyed", key=("id",))})
    kinds = ["keyed", *(f"type {number}" for number in range(TYPES - 1))]
    events = [(number, chance.choice(kinds), payload(number, chance)) for number in range(1, EVENTS + 1)]
    kills = 0
    apply = ApplyEvents(root=str(tmp_path), settings=settings, checkpoint="")
    for number in range(BATCHES):
        part = events[number * EVENTS // BATCHES : (number + 1) * EVENTS // BATCHES]
        while True:
            try:
                apply(Frame(part, chance), number)  # type: ignore[arg-type]
                break
            except Killed:
                kills += 1
                # A new process knows nothing of earlier batches.
                apply = ApplyEvents(root=str(tmp_path), settings=settings, checkpoint="")

    assert kills > 3
    aside = polars.read_delta(str(tmp_path / "_quarantine"))["offset"].to_list()
    expected_aside = []
    for kind in kinds:
        given = settings.of(kind)
        assert given is not None
        path = str(tmp_path / given.table)
        expected, bad = recomputed(path, given.key, [each for each in events if each[1] == kind])
        rows = polars.read_delta(path).drop("_stream", "_timestamp", "_key").to_dicts()
        assert sorted(map(without_empty, rows), key=lambda row: row["_offset"]) == expected
        expected_aside += bad
    assert sorted(aside) == sorted(expected_aside)


@pytest.mark.parametrize("apart", [False, True])
def test_fractions_go_aside_when_whole_numbers_would_lose_digits(
    apart: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(1)
    monkeypatch.setattr(batches, "f", SimpleNamespace(col=lambda name: SimpleNamespace(isin=list)))
    monkeypatch.setattr(batches, "query_id", lambda session, checkpoint: "query")
    apply = ApplyEvents(root=str(tmp_path), settings=TablesSettings(types={}), checkpoint="")
    large, fraction = (1, "made", '{"id": 9007199254740993, "n": 1}'), (2, "made", '{"id": 0.5, "n": 1.5}')

    for number, part in enumerate([[large], [fraction]] if apart else [[large, fraction]]):
        apply(Frame(part, chance), number)  # type: ignore[arg-type]

    rows = polars.read_delta(str(tmp_path / "made")).select("id", "n", "_offset").rows()
    assert rows == [(9007199254740993, 1.0, 1)]
    [reason] = polars.read_delta(str(tmp_path / "_quarantine"))["reason"]
    assert reason == "Expected `int | null`, got `float` - at `$.id`"


def without_empty(row: dict[str, Any]) -> dict[str, Any]:
    """An empty list adds no column: a row that came before the column has null there."""
    return {name: None if value == [] else value for name, value in row.items()}


def recomputed(path: str, key: tuple[str, ...], events: list[Event]) -> tuple[list[dict[str, Any]], list[int]]:
    """The rows of all events of a type with the final columns of its table, and the events that do not fit them."""
    shape = stored_shape(path).keyed(key)
    decoder, names = Decoder(shape), shape.schema.names
    schema = pa.schema([(name, arrow_schema(shape.schema).field(name).type) for name in names])
    rows: dict[Any, dict[str, Any]] = {}
    bad = []
    for offset, _, text in events:
        try:
            found = decoder.decode(text)
        except Misfit:
            found = decoder.decode_known(text)
        if found is None:
            bad.append(offset)
            continue
        columns = decoder.columns([found], schema)
        row = {name: column[0].as_py() for name, column in zip(names, columns, strict=True)} | {"_offset": offset}
        row = without_empty(row)
        rows[tuple(row[name] for name in key) if key else offset] = row
    return sorted(rows.values(), key=lambda row: int(row["_offset"])), bad

"""The row of a run in the database, for dashboards and other observers."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penstock.queries import parse
from penstock.spark.database import Database

SQL = parse(Path(__file__).with_suffix(".sql").read_text("utf-8"))

TEXT_LENGTH = 2000
_SECRET_NAMES = re.compile(r"url|password|secret|token|credential", re.IGNORECASE)
_SECRET_PARTS = re.compile(r"(://)[^/@\s]+@|(password|pwd|secret|token)(\s*[=:]\s*)\S+", re.IGNORECASE)


class RunLog:
    def __init__(self, database: Database, run_id: int) -> None:
        self.run_id = run_id
        self._database = database

    @classmethod
    def start(cls, url: str, tenant: str, pipeline: str, settings: Mapping[str, Any]) -> RunLog:
        database = Database(url)
        return cls(database, int(database.value(SQL["start"], tenant, pipeline, json.dumps(settings))))

    def report(
        self,
        state: str,
        *,
        rows: int,
        batches: int,
        lag: tuple[int | None, float | None],
        note: str | None,
        error: str | None,
        progress: Mapping[str, Any],
    ) -> None:
        """Safe to repeat: each report is complete."""
        self._database.rows(
            SQL["report"], self.run_id, state, rows, batches, *lag, note and scrubbed(note)[:TEXT_LENGTH],
            error and scrubbed(error)[:TEXT_LENGTH], json.dumps(progress, default=str),
        )  # fmt: skip

    def lag(self, positions: Mapping[str, Mapping[str, int]]) -> tuple[int | None, float | None]:
        """The number of events after these ticks, and the seconds that the oldest of them has waited."""
        if not positions:
            return None, None
        row = self._database.row(SQL["lag"], json.dumps(positions))
        return (None, None) if row is None else (row[0], row[1])

    def close(self) -> None:
        self._database.close()


def described(pipeline: Any) -> dict[str, Any]:
    """The settings of a pipeline without secrets, to be stored and shown."""
    found = {}
    for field in dataclasses.fields(pipeline):
        value = getattr(pipeline, field.name)
        if value in (None, (), "", {}):
            continue
        found[field.name] = "…" if _SECRET_NAMES.search(field.name) else _plain(value)
    return found


def scrubbed(text: str) -> str:
    return _SECRET_PARTS.sub(lambda match: f"{match[1] or match[2] + match[3]}…" + ("@" if match[1] else ""), text)


def _plain(value: Any) -> Any:
    if isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, (tuple, list, frozenset, set)):
        return [_plain(each) for each in value]
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    return scrubbed(str(value))

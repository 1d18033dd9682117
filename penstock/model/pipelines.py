"""Pipelines, and their runs as the database knows them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

PIPELINES: Mapping[str, str] = {
    "archive": "Streams, or the message archive, into the lake.",
    "cdc": "Tables of PostgreSQL into the lake: their current rows, and the history of every row.",
    "import": "Work of other queues, or files, into queues, streams or jobs.",
    "insights": "Throughput, latencies, retries, dead letters and errors, per name and hour.",
    "replay": "A part of the lake back into a stream or a queue.",
    "tables": "Events into typed tables, one for each event type; those that do not fit into a quarantine.",
}
"""What can be run, and in a line what it does. Here and not in the room of Spark, which may not be installed."""


class RunState(StrEnum):
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    STOPPED = "stopped"
    LOST = "lost"
    """It gives no sign of life: killed, or cut off from the database."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineRun:
    id: int
    pipeline: str
    settings: Mapping[str, Any]
    state: RunState
    started_at: datetime
    seen_at: datetime
    finished_at: datetime | None
    rows: int
    batches: int
    lag_events: int | None
    """Events that lie behind what the run has read; None for what reads no stream."""
    lag_s: float | None
    note: str | None
    error: str | None
    progress: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineStatus:
    name: str
    summary: str
    last_run: PipelineRun | None

"""`penstock status`, `top` and `check`: everything on one screen, and what looks wrong."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from penstock.cli.options import on_server, seconds
from penstock.cli.output import Output, Row, say
from penstock.cli.remote import Server

StuckAfter = Annotated[
    str, typer.Option(metavar="DURATION", help="Wait after which a message, job, consumer or schedule is stuck.")
]
PARTS: dict[str, tuple[str, ...]] = {
    "queues": ("queue", "visible", "in_flight", "delayed", "oldest_age"),
    "jobs": ("queue", "pending", "processing", "dead", "oldest_wait"),
    "consumers": ("stream", "consumer", "pending", "lag"),
    "endpoints": ("endpoint", "pending", "failing", "exhausted", "last_error"),
    "schedules": ("schedule", "status", "overdue", "consecutive_failures", "last_error"),
}
PROBLEM_COLUMNS = ("kind", "name", "problem")
LINES = 20
"""Rows of each part: the fullest first."""


@on_server()
def status(
    server: Server,
    out: Output,
    stuck_after: StuckAfter = "5m",
    whole: Annotated[bool, typer.Option("--all", help="Print all rows, not only the fullest 20 of each part.")] = False,
) -> None:
    """Show queues, jobs, consumers, endpoints and schedules on one screen, with what looks wrong."""
    found = server.get("/v1/status", stuck_after=seconds(stuck_after))
    if out.as_json:
        out.record(found)
    else:
        _print(out.picked(found), server.where, None if whole else LINES)


@on_server()
def top(
    server: Server,
    out: Output,
    every: Annotated[str, typer.Option(metavar="DURATION", help="Time between refreshes.")] = "2s",
    count: Annotated[int, typer.Option(metavar="N", min=0, help="Number of refreshes; 0 means no limit.")] = 0,
    stuck_after: StuckAfter = "5m",
) -> None:
    """Show the status again and again. Stop with Ctrl-C."""
    looks = 0
    while True:
        found = server.get("/v1/status", stuck_after=seconds(stuck_after))
        if out.as_json:
            out.record(found)
        else:
            if sys.stdout.isatty():
                print("\x1b[2J\x1b[H", end="")
            _print(out.picked(found), server.where, LINES)
        sys.stdout.flush()
        looks += 1
        if count and looks >= count:
            return
        time.sleep(seconds(every))


@on_server()
def check(
    server: Server,
    out: Output,
    stuck_after: StuckAfter = "5m",
    ignore: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KIND",
            help="Kind of problem to ignore: queue, dead letters, jobs, dead jobs, consumer, endpoint or schedule; "
            "repeatable.",
        ),
    ] = None,
) -> None:
    """Print what looks wrong, for probes. Exits with 0 if nothing does, else with 1."""
    found = server.get("/v1/status", stuck_after=seconds(stuck_after))["problems"]
    problems = [one for one in found if one["kind"] not in (ignore or ())]
    out.rows(problems, PROBLEM_COLUMNS, "No problems.")
    if problems:
        raise typer.Exit(1)


def _print(found: dict[str, Any], where: str, most: int | None) -> None:
    """The parts that are asked for, in the usual order."""
    print(f"{where} at {found['at']}" if "at" in found else where)
    for part, columns in PARTS.items():
        rows: Sequence[Row] = found.get(part, ())
        if not rows:
            continue
        ordered = sorted(rows, key=lambda row: -sum(value for value in row.values() if isinstance(value, int)))
        print(f"\n{part} ({len(rows)})")
        Output().rows(ordered[:most], columns, "")
        if most is not None and len(rows) > most:
            say(f"{len(rows) - most} more {part}; --all shows them")
    if "problems" not in found:
        return
    problems = found["problems"]
    print(f"\nproblems ({len(problems)})")
    if problems:
        Output().rows(problems, PROBLEM_COLUMNS, "")

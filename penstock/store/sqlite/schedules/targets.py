"""What a schedule fires at on SQLite, and how."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import datetime, timedelta

from penstock.errors import PenstockError, Unsupported
from penstock.model import Send
from penstock.model.jobs import NewJob
from penstock.model.schedules import Schedule, TargetKind, headers_of, mark, stamp
from penstock.model.topics import Fanout, Published
from penstock.store.sqlite.jobs import rules as job_rules
from penstock.store.sqlite.moments import moment
from penstock.store.sqlite.queues import messages
from penstock.store.sqlite.session import Session
from penstock.store.sqlite.topics import publishing

Ids = tuple[int | str, ...]


def fire_target(
    session: Session,
    schedule: Schedule,
    times: Sequence[datetime],
    fanouts: Sequence[Fanout],
    now: int,
    *,
    out_of_band: bool,
) -> Ids:
    """Make one message for each time; their ids."""
    marks = [mark(schedule.name, time, out_of_band=out_of_band, trace=schedule.trace) for time in times]
    match schedule.settings.target_kind:
        case TargetKind.QUEUE:
            return _queue(session, schedule, times, marks, now)
        case TargetKind.TOPIC:
            return _topic(session, fanouts, now)
        case TargetKind.JOB:
            return _jobs(session, schedule, marks, now)
        case TargetKind.STREAM:
            raise Unsupported("streams require PostgreSQL; this server runs without it")


def _queue(session: Session, schedule: Schedule, times: Sequence[datetime], marks: Sequence[str], now: int) -> Ids:
    settings = schedule.settings
    fifo = settings.target.endswith(".fifo")
    entries = [
        Send(
            tenant=schedule.tenant,
            queue=settings.target,
            body=settings.body,
            json=settings.json,
            delay_s=settings.delay_s,
            priority=settings.priority,
            # A FIFO queue asks for a group and an id; the schedule and its time are what they would be.
            group_id=settings.group_id or (schedule.name if fifo else None),
            dedup_id=f"{schedule.name}@{stamp(time)}" if fifo else None,
            headers=headers_of(settings.headers, text),
        )
        for time, text in zip(times, marks, strict=True)
    ]
    ids: list[int | str] = []
    for answer in messages.send_many(session, entries, now):
        if isinstance(answer, PenstockError):
            raise answer
        ids.append(answer.id)
    return tuple(ids)


def _topic(session: Session, fanouts: Sequence[Fanout], now: int) -> Ids:
    ids: list[int | str] = []
    for answer in publishing.publish_many(session, fanouts, now):
        # They were made with routes read a moment ago, and ask for no particular version of them.
        assert isinstance(answer, Published)
        ids.append(answer.id)
    return tuple(ids)


def _jobs(session: Session, schedule: Schedule, marks: Sequence[str], now: int) -> Ids:
    """A job has a payload and no headers: where that is an object, the mark of the schedule is put into it."""
    settings = schedule.settings
    body = settings.body if settings.json else json.dumps(settings.body)
    run_at = None if settings.delay_s is None else moment(now) + timedelta(seconds=settings.delay_s)
    entries = [
        NewJob(
            tenant=schedule.tenant,
            queue=settings.target,
            payload=_marked(body, text),
            priority=settings.priority or 0,
            run_at=run_at,
        )
        for text in marks
    ]
    return tuple(made.id for made in job_rules.enqueue_many(session, entries, now))


def _marked(body: str, text: str) -> str:
    if not body.startswith("{"):
        return body
    return headers_of("{}" if re.fullmatch(r"\{\s*\}", body) else body, text)

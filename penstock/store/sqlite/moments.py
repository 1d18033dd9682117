"""Moments as SQLite keeps them: whole microseconds since 1970, UTC."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

SECOND = 1_000_000

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def micros(moment: datetime) -> int:
    return (moment - _EPOCH) // _MICROSECOND


def moment(value: int) -> datetime:
    return _EPOCH + timedelta(microseconds=value)


def maybe_micros(moment: datetime | None) -> int | None:
    return None if moment is None else micros(moment)


def maybe_moment(value: int | None) -> datetime | None:
    return None if value is None else moment(value)

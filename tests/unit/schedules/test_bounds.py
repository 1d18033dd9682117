"""Schedules at the ends of the calendar: what is no moment, or none that can be kept, is refused."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from penstock import limits
from penstock.engine.schedules.settings import read_timetable
from penstock.errors import Invalid

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    "given",
    [
        {"when": "²"},
        {"when": "at ٣pm"},
        {"when": "every ² minutes"},
        {"when": "on 9999-12-31 at 23:59 America/New_York"},
        {"when": "on 0001-01-01 at 0:00 Asia/Tokyo"},
        {"when": "on 0000-00-00"},
        {"when": "in 1000000 weeks"},
        {"every": "²h"},
        {"every": "٣h"},
        {"every": "999999999w"},
        {"every": "P999999999W"},
        {"every": "999999999d999999999h999999999m"},
        {"cron": "² * * * *"},
        {"cron": "0 0 1 1 *", "timezone": "²"},
        {"fire_at": "0001-01-01T00:00:00+23:59"},
        {"fire_at": "0001-01-01T00:00:00", "timezone": "Asia/Tokyo"},
        {"fire_at": "9999-12-31T23:59:59", "timezone": "America/New_York"},
        {"fire_at": "²030-01-01T00:00:00Z"},
        {"fire_at": "\0"},
    ],
    ids=str,
)
def test_an_expression_that_means_no_moment_is_refused(given: dict[str, str]) -> None:
    with pytest.raises(Invalid):
        read_timetable(given, NOW)


def test_the_last_fire_is_before_the_last_moment() -> None:
    table = read_timetable({"every": "3660d", "start_at": limits.MOMENT[1] - timedelta(days=1)}, NOW)

    assert table.fires(NOW, 10) == [limits.MOMENT[1] - timedelta(days=1)]

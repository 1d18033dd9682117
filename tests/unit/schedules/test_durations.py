"""Durations: read whole or refused, written in one form."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.schedules import durations
from penstock.engine.schedules.errors import ScheduleTextError


@pytest.mark.parametrize(
    ("text", "seconds", "short", "words"),
    [
        ("90s", 90, "1m30s", "1 minute 30 seconds"),
        ("1h30m", 5400, "1h30m", "1 hour 30 minutes"),
        ("1 hour and 30 minutes", 5400, "1h30m", "1 hour 30 minutes"),
        ("2 Days", 172_800, "2d", "2 days"),
        ("1w", 604_800, "7d", "7 days"),
        ("500ms", 0.5, "500ms", "500 milliseconds"),
        ("PT5M", 300, "5m", "5 minutes"),
        ("P1DT12H", 129_600, "1d12h", "1 day 12 hours"),
        ("pt90s", 90, "1m30s", "1 minute 30 seconds"),
        ("P2W", 1_209_600, "14d", "14 days"),
    ],
)
def test_durations_that_are_understood(text: str, seconds: float, short: str, words: str) -> None:
    read = durations.parse(text)

    assert (read.total_seconds(), durations.short(read), durations.words(read)) == (seconds, short, words)


@pytest.mark.parametrize(
    "text",
    ["", "5", "m", "-5s", "5s5s", "5s 1h", "1.5h", "0s", "PT", "P", "P1H", "PT5", "5 fortnights", "1h!", "9" * 50],
)
def test_durations_that_are_not(text: str) -> None:
    with pytest.raises(ScheduleTextError):
        durations.parse(text)


@given(st.timedeltas(timedelta(milliseconds=1), timedelta(days=9999)))
def test_what_is_written_reads_as_itself(duration: timedelta) -> None:
    duration -= timedelta(microseconds=duration.microseconds % 1000)
    if duration:
        assert durations.parse(durations.short(duration)) == duration

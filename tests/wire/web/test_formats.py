"""How the pages write values."""

from __future__ import annotations

from datetime import UTC, datetime

from penstock.web.formats import NARROW_SPACE, elapsed, number, weekday


def shown(text: str) -> str:
    return text.replace(NARROW_SPACE, " ")


def test_short_times_are_shown_in_parts_of_a_second() -> None:
    assert [shown(elapsed(seconds)) for seconds in (0, 0.0004, 0.12, 0.9996, 3.44, 12.5, 75)] == [
        "0 ms", "0 ms", "120 ms", "1.0 s", "3.4 s", "12 s", "1 min 15 s",
    ]  # fmt: skip


def test_large_numbers_are_shown_in_full_and_small_ones_in_three_digits() -> None:
    assert [shown(number(value)) for value in (0, 0.05123, 1.5, 413.4, 5200.0, 142300.4, 2.18e7)] == [
        "0", "0.0512", "1.5", "413", "5 200", "142 300", "21 800 000",
    ]  # fmt: skip


def test_a_day_is_that_of_its_time_zone() -> None:
    moment = datetime(2026, 11, 18, 23, 30, tzinfo=UTC)

    assert weekday(moment, "UTC") == "Wednesday"
    assert weekday(moment, "Europe/Berlin") == "Thursday 00:30 in Europe/Berlin"

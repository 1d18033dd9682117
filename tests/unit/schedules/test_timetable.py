"""When schedules fire: cron, rhythms and phrases, over both changes of the clocks in three zones.

Berlin jumps 02:00 → 03:00 on 29 March 2026 and 03:00 → 02:00 on 25 October; New York 02:00 → 03:00 on 8 March and
02:00 → 01:00 on 1 November; Lord Howe, by half an hour, 02:00 → 02:30 on 4 October and 02:00 → 01:30 on 5 April.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine.schedules import cron, timetable
from penstock.engine.schedules.errors import ScheduleTextError
from penstock.engine.schedules.timetable import Timetable
from penstock.engine.schedules.zones import zone
from tests.effort import examples

BERLIN, NEW_YORK, LORD_HOWE = "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def local(text: str, name: str) -> datetime:
    return datetime.fromisoformat(f"2026-{text}").replace(tzinfo=ZoneInfo(name)).astimezone(UTC)


def shown(table: Timetable, start: str, count: int) -> list[str]:
    """The next fires as the wall shows them, each with its distance from UTC."""
    fires = table.fires(local(start, table.timezone), count)
    return [fire.astimezone(zone(table.timezone)).strftime("%d %H:%M %z") for fire in fires]


CHANGES = [
    # A fixed time that is jumped over happens at the jump.
    ("30 2 * * *", BERLIN, "03-28 12:00", ["29 03:00 +0200", "30 02:30 +0200"]),
    ("30 2 * * *", NEW_YORK, "03-07 12:00", ["08 03:00 -0400", "09 02:30 -0400"]),
    ("15 2 * * *", LORD_HOWE, "10-03 12:00", ["04 02:30 +1100", "05 02:15 +1100"]),
    # A fixed time that is shown twice happens the first time.
    ("30 2 * * *", BERLIN, "10-24 12:00", ["25 02:30 +0200", "26 02:30 +0100"]),
    ("30 1 * * *", NEW_YORK, "10-31 12:00", ["01 01:30 -0400", "02 01:30 -0500"]),
    ("45 1 * * *", LORD_HOWE, "04-04 12:00", ["05 01:45 +1100", "06 01:45 +1030"]),
    # Seconds make no difference to that.
    ("0 30 2 * * *", BERLIN, "03-28 12:00", ["29 03:00 +0200", "30 02:30 +0200"]),
    ("0 30 2 * * *", BERLIN, "10-24 12:00", ["25 02:30 +0200", "26 02:30 +0100"]),
    # Two fixed times that meet at the jump are one.
    ("0,30 2 * * *", BERLIN, "03-28 12:00", ["29 03:00 +0200", "30 02:00 +0200"]),
    ("0 2,3 * * *", BERLIN, "03-28 12:00", ["29 03:00 +0200", "30 02:00 +0200"]),
    # What follows the clock leaves out what is jumped over, and happens twice when the clock shows it twice.
    ("*/30 * * * *", BERLIN, "03-29 01:00", ["29 01:30 +0100", "29 03:00 +0200", "29 03:30 +0200"]),
    ("*/30 * * * *", BERLIN, "10-25 02:00", ["25 02:30 +0200", "25 02:00 +0100", "25 02:30 +0100", "25 03:00 +0100"]),
    ("*/30 * * * *", NEW_YORK, "03-08 01:00", ["08 01:30 -0500", "08 03:00 -0400"]),
    ("*/30 * * * *", NEW_YORK, "11-01 01:00", ["01 01:30 -0400", "01 01:00 -0500", "01 01:30 -0500", "01 02:00 -0500"]),
    ("*/15 * * * *", LORD_HOWE, "10-04 01:30", ["04 01:45 +1030", "04 02:30 +1100", "04 02:45 +1100"]),
    (
        "*/15 * * * *",
        LORD_HOWE,
        "04-05 01:30",
        ["05 01:45 +1100", "05 01:30 +1030", "05 01:45 +1030", "05 02:00 +1030"],
    ),
    ("0 * * * *", LORD_HOWE, "10-04 00:30", ["04 01:00 +1030", "04 03:00 +1100"]),
    ("*/15 3 * * *", LORD_HOWE, "10-04 00:00", ["04 03:00 +1100", "04 03:15 +1100", "04 03:30 +1100"]),
    ("* 2 * * *", LORD_HOWE, "04-05 01:00", ["05 02:00 +1030", "05 02:01 +1030"]),
    # The day after is as ever.
    ("0 9 * * 1-5", BERLIN, "03-27 12:00", ["30 09:00 +0200"]),
    ("0 9 * * *", NEW_YORK, "11-01 00:00", ["01 09:00 -0500"]),
]


@pytest.mark.parametrize(("text", "name", "start", "expected"), CHANGES, ids=[f"{c[0]}-{c[1]}-{c[2]}" for c in CHANGES])
def test_cron_where_clocks_change(text: str, name: str, start: str, expected: list[str]) -> None:
    assert shown(timetable.from_cron(text, name), start, len(expected)) == expected


PHRASES = [
    ("every day at 2:30am", BERLIN, "03-28 12:00", ["29 03:00 +0200", "30 02:30 +0200"]),
    ("every day at 2:30am", BERLIN, "10-24 12:00", ["25 02:30 +0200", "26 02:30 +0100"]),
    ("every sunday at 2:30am", NEW_YORK, "03-07 12:00", ["08 03:00 -0400", "15 02:30 -0400"]),
    ("every sunday at 1:30am", NEW_YORK, "10-31 12:00", ["01 01:30 -0400", "08 01:30 -0500"]),
    ("first sunday of the month at 02:10", LORD_HOWE, "10-01 12:00", ["04 02:30 +1100", "01 02:10 +1100"]),
    ("first sunday of the month at 01:40", LORD_HOWE, "04-01 12:00", ["05 01:40 +1100", "03 01:40 +1030"]),
    ("every hour", BERLIN, "10-25 01:30", ["25 02:00 +0200", "25 02:00 +0100", "25 03:00 +0100"]),
    ("every 30 minutes", LORD_HOWE, "04-05 01:00", ["05 01:30 +1100", "05 01:30 +1030", "05 02:00 +1030"]),
]


@pytest.mark.parametrize(("phrase", "name", "start", "expected"), PHRASES, ids=[f"{p[0]}-{p[2]}" for p in PHRASES])
def test_phrases_where_clocks_change(phrase: str, name: str, start: str, expected: list[str]) -> None:
    assert shown(timetable.from_phrase(phrase, NOW, name), start, len(expected)) == expected


@pytest.mark.parametrize("name", [BERLIN, NEW_YORK, LORD_HOWE])
@pytest.mark.parametrize("text", ["30m", "1h", "90m", "1d"])
def test_a_rhythm_knows_no_clocks(text: str, name: str) -> None:
    table = timetable.from_every(text, name)
    period = table.fires(NOW, 2)[1] - table.fires(NOW, 2)[0]

    fires = table.fires(NOW, 366 * 24 * 2 if text == "30m" else 400)

    assert {right - left for left, right in pairwise(fires)} == {period}


def test_a_rhythm_is_counted_from_a_monday_or_from_its_start() -> None:
    start = datetime(2026, 3, 1, 9, 17, tzinfo=UTC)

    assert timetable.from_every("7d").fires(NOW, 1) == [datetime(2026, 1, 5, tzinfo=UTC)]
    assert timetable.from_every("7d", None, start).fires(NOW, 2) == [start, start + timedelta(days=7)]


def test_what_cronsim_loses_where_clocks_move_by_half_an_hour() -> None:
    """Why times without a zone are what we ask of it. Should this fail, it has been put right."""
    start = datetime(2026, 10, 4, tzinfo=ZoneInfo(LORD_HOWE))

    assert next(CronSim("*/15 3 * * *", start)).strftime("%H:%M") == "03:30"


@given(
    text=st.sampled_from(["*/7 * * * *", "0 */3 * * *", "30 2 * * *", "15 1,2 * * *", "0 0 * * 0", "* * * * *"]),
    name=st.sampled_from([BERLIN, NEW_YORK, LORD_HOWE, "UTC", "Asia/Kolkata"]),
    start=st.datetimes(datetime(2026, 1, 1), datetime(2027, 1, 1)),
)
@settings(max_examples=examples(200), deadline=None)
def test_fires_only_rise_and_no_start_misses_one(text: str, name: str, start: datetime) -> None:
    table = timetable.from_cron(text, name)
    moment = start.replace(tzinfo=UTC)

    fires = table.fires(moment, 4)

    assert fires == sorted(set(fires))
    assert fires[0] > moment
    between = moment + (fires[0] - moment) / 2
    assert table.next_after(between) == fires[0]
    assert table.next_after(fires[0]) == fires[1]


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("@daily", "0 0 * * *"),
        ("  0   9 * *  mon-fri ", "0 9 * * MON-FRI"),
        ("0 0 ? * 2", "0 0 * * 2"),
        ("0 12 1 * ?", "0 12 1 * *"),
        ("*/10 * * * * *", "*/10 * * * * *"),
        ("0 9 * * *|30 17 * * *", "0 9 * * * | 30 17 * * *"),
        ("0 0 L * *", "0 0 L * *"),
    ],
)
def test_cron_has_one_canonical_form_which_reads_as_itself(text: str, canonical: str) -> None:
    assert cron.parse(text).text == canonical
    assert cron.parse(canonical).text == canonical


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("0 0 1--100000000 * *", "day of month cannot be"),
        ("0 0 1-100000000 * *", "day of month cannot be"),
        ("*/99999999999999999999 * * * *", "minute cannot be"),
        ("60 * * * *", "minute cannot be '60'"),
        ("0 24 * * *", "hour cannot be '24'"),
        ("0 9 * * fri-mon", "day of week cannot be"),
        ("0 0 15W * *", "day of month cannot be"),
        ("0 0 30 2 *", "no date matches"),
        ("0 9 *", "did you mean '0 9 * * *'"),
        ("0 9 * * * * *", "this has 7"),
        ("", "this has 0"),
        ("@reboot", "unknown alias"),
        ("0 0 * * *|" * 9, "at most 8"),
        ("* " * 500, "at most 300 characters"),
        (",".join(["1"] * 100) + " * * * *", "minute cannot be"),
    ],
    ids=range(15),
)
def test_a_bad_cron_text_is_refused_at_once(text: str, says: str) -> None:
    began = time.process_time()
    with pytest.raises(ScheduleTextError, match=says.replace("(", r"\(").replace("*", r"\*")):
        cron.parse(text)
    assert time.process_time() - began < 0.5


def test_a_day_that_never_comes_is_known_after_a_while() -> None:
    assert timetable.from_cron("0 0 * 2 MON#5").next_after(NOW) == datetime(2044, 2, 29, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "name", "expected"),
    [
        ("2026-03-29T02:30:00", BERLIN, "2026-03-29T01:00:00Z"),
        ("2026-10-25T02:30:00", BERLIN, "2026-10-25T00:30:00Z"),
        ("2026-10-25T02:30:00+01:00", BERLIN, "2026-10-25T01:30:00Z"),
        ("2026-07-01", NEW_YORK, "2026-07-01T04:00:00Z"),
    ],
)
def test_a_moment_is_that_of_its_zone(text: str, name: str, expected: str) -> None:
    assert timetable.from_moment(text, name).expression == expected


@pytest.mark.parametrize("text", ["", "soon", "2026-13-01", "9" * 50, "0001-01-01T00:00:00+14:00"])
def test_a_bad_moment_is_refused(text: str) -> None:
    with pytest.raises(ScheduleTextError):
        timetable.from_moment(text)


def test_a_bad_zone_is_answered_with_a_good_one() -> None:
    with pytest.raises(ScheduleTextError, match="did you mean 'Europe/Berlin'"):
        timetable.from_cron("0 0 * * *", "Europe/Berlim")
    with pytest.raises(ScheduleTextError):
        timetable.from_cron("0 0 * * *", "../../etc/passwd")

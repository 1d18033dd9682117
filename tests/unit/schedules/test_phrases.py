"""The grammar of `when`: every phrase of the documentation, and phrases that are refused with a suggestion."""

from __future__ import annotations

import re
import string
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine.schedules import timetable
from penstock.engine.schedules.errors import ScheduleTextError
from penstock.engine.schedules.phrases import reader as phrases
from penstock.engine.schedules.phrases.words import EXAMPLES, VOCABULARY
from tests.effort import examples

NOW = datetime(2026, 11, 16, 10, tzinfo=UTC)
"""A Monday; the documentation says so."""
PAGE = Path(__file__).parents[3] / "docs" / "schedules.md"


def documented() -> list[tuple[str, str, str]]:
    text = PAGE.read_text(encoding="utf-8").partition("\n## Phrases\n")[2].partition("\n## ")[0]
    found = re.findall(r"^\| `(.+?)` \| `(.+?)` \| (.+) \|$", text, re.MULTILINE)
    return [(phrase, kept.replace(r"\|", "|"), meaning) for phrase, kept, meaning in found]


def test_at_least_sixty_phrases_are_documented() -> None:
    assert len({phrase for phrase, _, _ in documented()}) >= 60


@pytest.mark.parametrize(("phrase", "kept", "meaning"), documented(), ids=[row[0] for row in documented()])
def test_a_documented_phrase_means_what_the_page_says(phrase: str, kept: str, meaning: str) -> None:
    table = timetable.from_phrase(phrase, NOW)

    assert (table.expression, table.sentence()) == (kept, meaning)
    assert table.next_after(NOW) is not None


@pytest.mark.parametrize(
    ("phrase", "fires"),
    [
        ("every weekday at 9am", ["17 Nov 09:00", "18 Nov 09:00", "19 Nov 09:00", "20 Nov 09:00", "23 Nov 09:00"]),
        ("first monday of the month at 08:30 Europe/Berlin", ["07 Dec 07:30", "04 Jan 07:30", "01 Feb 07:30"]),
        ("last friday of the month at 4pm", ["27 Nov 16:00", "25 Dec 16:00", "29 Jan 16:00", "26 Feb 16:00"]),
        ("last day of the month at 23:00", ["30 Nov 23:00", "31 Dec 23:00", "31 Jan 23:00", "28 Feb 23:00"]),
        ("the last weekday of the month at 17:00", ["30 Nov 17:00", "31 Dec 17:00", "29 Jan 17:00"]),
        ("every day at 9:00 and 17:30", ["16 Nov 17:30", "17 Nov 09:00", "17 Nov 17:30"]),
        ("every 30 minutes from 22:00 to 23:00", ["16 Nov 22:00", "16 Nov 22:30", "16 Nov 23:00", "17 Nov 22:00"]),
        ("every 3 months on the 1st at 07:00", ["01 Jan 07:00", "01 Apr 07:00", "01 Jul 07:00", "01 Oct 07:00"]),
        ("every 7 minutes", ["16 Nov 10:02", "16 Nov 10:09", "16 Nov 10:16"]),
        ("friday to monday at 6am", ["20 Nov 06:00", "21 Nov 06:00", "22 Nov 06:00", "23 Nov 06:00", "27 Nov 06:00"]),
        ("every month on the 31st", ["31 Dec 00:00", "31 Jan 00:00", "31 Mar 00:00"]),
        ("12am every day", ["17 Nov 00:00"]),
        ("12pm every day", ["16 Nov 12:00"]),
        ("in 1 hour and 5 minutes", ["16 Nov 11:05"]),
        ("next monday at 8:00", ["23 Nov 08:00"]),
        ("next sunday", ["22 Nov 00:00"]),
    ],
)
def test_phrases_fire_when_a_reader_would_expect(phrase: str, fires: list[str]) -> None:
    found = timetable.from_phrase(phrase, NOW).fires(NOW, len(fires))

    assert [fire.strftime("%d %b %H:%M") for fire in found] == fires


@pytest.mark.parametrize(
    ("phrase", "understood", "rest", "suggestion"),
    [
        ("evry weekdya at 9am", "", "evry weekdya at 9am", "every weekday at 9am"),
        ("every weekday at nein", "every weekday at", "nein", "every weekday at 9am"),
        ("every mondy at 9am", "every", "mondy at 9am", "every monday at 9am"),
        ("every day at 9am Europe/Berlni", "every day at 9am", "Europe/Berlni", "every day at 9am Europe/Berlin"),
        ("every weekday at 9am except holidays", "every weekday at 9am", "except holidays", "every weekday at 9am"),
        (
            "every second monday at 9",
            "every second monday",
            "every second monday at 9",
            "every second monday of the month",
        ),
        ("gibberish", "", "gibberish", "every weekday at 9am"),
        ("", "", "", "every weekday at 9am"),
    ],
)
def test_what_is_not_understood_is_told_with_a_suggestion(
    phrase: str, understood: str, rest: str, suggestion: str
) -> None:
    with pytest.raises(ScheduleTextError) as caught:
        timetable.from_phrase(phrase, NOW)

    error = caught.value
    assert (error.understood, error.suggestion) == (understood, suggestion)
    assert error.rest in (rest, "")


@pytest.mark.parametrize(
    "phrase",
    [
        "every other friday",
        "every 3 days at 9am",
        "every monday on the 15th",
        "every 15 minutes at 9am",
        "every day at 25:00",
        "every day at 13pm",
        "every 0 minutes",
        "every 5 months",
        "every 13 months",
        "every 2 years",
        "every day every hour",
        "every 7 minutes on weekdays",
        "at 9am between 8am and 10am",
        "tomorrow at 9am and 10am",
        "tomorrow every hour",
        "in 10 minutes at 9am",
        "on 2026-02-30 at 9am",
        "Europe/Berlin",
        "every day at 9am UTC Europe/Berlin",
        "every 1 minutes from 0:00 to 23:58 at 9am",
        "every 11 minutes from 1:00 to 23:00",
        "x" * 300,
        "every day at 9am " * 20,
    ],
    ids=range(23),
)
def test_what_contradicts_itself_or_cannot_be_kept_is_refused(phrase: str) -> None:
    with pytest.raises(ScheduleTextError) as caught:
        timetable.from_phrase(phrase, NOW)

    assert caught.value.sentence


def test_a_zone_in_the_phrase_and_another_beside_it_disagree() -> None:
    with pytest.raises(ScheduleTextError, match="Europe/Berlin"):
        timetable.from_phrase("every day at 9am Europe/Berlin", NOW, "Asia/Tokyo")

    same = timetable.from_phrase("every day at 9am Europe/Berlin", NOW, "europe/berlin")
    assert same.timezone == "Europe/Berlin"


@pytest.mark.parametrize("phrase", EXAMPLES)
def test_every_suggestion_can_be_read(phrase: str) -> None:
    assert timetable.from_phrase(phrase, NOW).fires(NOW, 1)


@given(st.lists(st.sampled_from([*VOCABULARY, "9am", "17:30", ":15", "1st", "3", ",", "Europe/Berlin"]), max_size=12))
@settings(max_examples=examples(300), deadline=None)
def test_any_words_are_either_understood_or_refused(words: list[str]) -> None:
    try:
        told = timetable.from_phrase(" ".join(words), NOW).sentence()
    except ScheduleTextError as error:
        told = error.sentence

    assert told


@given(st.text(string.printable, max_size=60))
@settings(max_examples=examples(200), deadline=None)
def test_any_text_is_either_understood_or_refused(text: str) -> None:
    try:
        found: object = phrases.read(text)
    except ScheduleTextError as error:
        found = error.suggestion

    assert found


@pytest.mark.parametrize("text", ["*/5 * * * *", "0 9 * * 1-5", "@daily"])
def test_cron_in_place_of_a_phrase_is_told_apart(text: str) -> None:
    with pytest.raises(ScheduleTextError, match="give it as cron") as caught:
        timetable.from_phrase(text, NOW)

    assert caught.value.rest == text

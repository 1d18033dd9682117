"""When a call is tried again, when it is not, and what its errors are."""

from __future__ import annotations

from typing import Any

import pytest

from penstock import errors
from penstock.client.exchange import (
    BY_NAME,
    Answer,
    Call,
    Failure,
    Pause,
    Request,
    Retries,
    error_of,
    exchange,
)
from penstock.client.transport import drive
from tests.client.fakes import Scripted, answer, fault

GET = Call(Request("GET", "/jobs/1"), lambda found: found)
ENQUEUE = Call(Request("POST", "/jobs", body=b"{}", repeatable=False), lambda found: found)

RETRIES = Retries(attempts=3, base_s=1.0, cap_s=10.0, spread=lambda: 0.0)


class Outcome:
    """What a call came to, with the pauses it kept."""

    def __init__(self, call: Call[Any], *outcomes: Answer | Failure, retries: Retries = RETRIES) -> None:
        self.pauses: list[float] = []
        self.script = Scripted(*outcomes)
        self.result: Any = None
        self.error: Exception | None = None
        try:
            self.result = drive(exchange(call, retries), self.script, self.pauses.append)
        except errors.PenstockError as error:
            self.error = error

    @property
    def sent(self) -> int:
        return len(self.script.requests)


def test_an_answer_is_read() -> None:
    assert Outcome(GET, answer(200, {"status": "pending"})).result == {"status": "pending"}


def test_an_empty_answer_is_nothing() -> None:
    assert Outcome(GET, answer(204)).result is None


@pytest.mark.parametrize("status", [408, 502, 503, 504])
def test_a_passing_trouble_is_tried_again(status: int) -> None:
    found = Outcome(GET, answer(status), answer(200, 1))

    assert (found.result, found.sent, found.pauses) == (1, 2, [1.0])


def test_pauses_grow_and_attempts_end() -> None:
    found = Outcome(GET, *[answer(503)] * 3)

    assert isinstance(found.error, errors.Unavailable)
    assert (found.sent, found.pauses) == (3, [1.0, 2.0])


def test_pauses_are_capped_and_spread() -> None:
    retries = Retries(base_s=1.0, cap_s=3.0, spread=lambda: 1.0)

    assert [retries.pause_s(attempt) for attempt in (1, 2, 3, 30)] == [0.5, 1.0, 1.5, 1.5]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 413, 500, 501])
def test_what_will_not_pass_is_not_tried_again(status: int) -> None:
    assert Outcome(GET, answer(status)).sent == 1


def test_a_job_is_not_enqueued_again_when_it_may_have_arrived() -> None:
    assert Outcome(ENQUEUE, Failure("cut off", sent=True)).sent == 1
    assert Outcome(ENQUEUE, answer(503)).sent == 1


def test_a_job_that_never_left_is_enqueued_again() -> None:
    assert Outcome(ENQUEUE, Failure("refused", sent=False), answer(201, 1)).result == 1


def test_what_is_repeatable_is_sent_again_after_a_lost_answer() -> None:
    assert Outcome(GET, Failure("cut off", sent=True), answer(200, 1)).result == 1


def test_a_rate_limit_is_waited_for_even_by_an_enqueue() -> None:
    found = Outcome(ENQUEUE, fault(429, "RateLimited", retry_after="7"), answer(201, 1))

    assert (found.result, found.pauses) == (1, [7.0])


def test_a_server_cannot_make_us_wait_for_ever() -> None:
    assert Outcome(GET, fault(429, "RateLimited", retry_after="86400"), answer(200, 1)).pauses == [10.0]


def test_a_full_queue_is_not_a_rate_limit() -> None:
    found = Outcome(GET, fault(429, "QueueFull"))

    assert isinstance(found.error, errors.QueueFull)


@pytest.mark.parametrize("name", sorted(set(BY_NAME) - {"RateLimited"}))
def test_the_error_the_server_names_is_raised(name: str) -> None:
    error = error_of(fault(400, name, "what went wrong"))

    assert type(error) is BY_NAME[name]
    assert error.message == "what went wrong"


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, errors.Invalid),
        (401, errors.Forbidden),
        (403, errors.Forbidden),
        (404, errors.NotFound),
        (409, errors.Conflict),
        (413, errors.TooLarge),
        (418, errors.Invalid),
        (429, errors.RateLimited),
        (500, errors.PenstockError),
        (501, errors.Unsupported),
        (502, errors.Unavailable),
    ],
)
def test_an_error_without_a_name_is_told_by_its_status(status: int, kind: type[errors.PenstockError]) -> None:
    assert type(error_of(Answer(status, b"<html>from a proxy</html>"))) is kind


def test_no_answer_at_all_is_unavailable() -> None:
    error = error_of(Failure("the server did not answer: cut off", sent=True))

    assert type(error) is errors.Unavailable
    assert "cut off" in str(error)


def test_a_pause_is_asked_for_and_not_kept() -> None:
    steps = exchange(GET, RETRIES)
    assert next(steps) == GET.request
    assert steps.send(answer(503)) == Pause(1.0)
    assert steps.send(None) == GET.request

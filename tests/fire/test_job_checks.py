"""The checks of jobs on histories written by hand."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fire.checks.all import violations
from tests.fire.history import Call, History, Outcome
from tests.fire.test_queue_checks import fault


def enqueue(job: str = "j") -> Call:
    return Call("enqueue", "jobs", 1, 1.1, "ok", {}, {"ids": [job]})


def lease(at: float, attempt: int = 1, job: str | None = "j", queue: str = "jobs") -> Call:
    result = [] if job is None else [{"id": job, "attempt": attempt}]
    return Call("lease", queue, at, at + 0.1, "ok", {"lease_s": 5}, result)


def report(
    op: str, at: float, attempt: int = 1, outcome: Outcome = "ok", job: str = "j", accepted: bool = True
) -> Call:
    given = {"id": job, "attempt": attempt, "lease_s": 5}
    return Call(op, "jobs", at, at + 0.1, outcome, given, accepted if outcome == "ok" else None)


def final(status: str = "completed", *outcomes: str, retries: int = 3, job: str = "j") -> Call:
    attempts = [{"attempt": n + 1, "outcome": outcome} for n, outcome in enumerate(outcomes)]
    result = {"status": status, "attempts": attempts, "max_retries": retries}
    return Call("job", "jobs", 99, 99, "ok", {"id": job}, result)


def found(*calls: Call) -> list[str]:
    return [violation.check for violation in violations(History(calls))]


def test_a_job_that_fails_once_and_is_completed_is_fine() -> None:
    calls = (enqueue(), lease(2), report("nack", 3), lease(4, 2), report("ack", 5, 2))
    assert found(*calls, final("completed", "failed", "completed")) == []


@pytest.mark.parametrize("status", ["pending", "processing"])
def test_a_job_that_does_not_end_is_lost(status: str) -> None:
    assert found(enqueue(), final(status)) == ["job lost"]


def test_a_job_that_is_not_there_is_lost() -> None:
    assert found(enqueue()) == ["job lost"]


def test_an_ack_that_was_confirmed_completes() -> None:
    assert found(enqueue(), lease(2), report("ack", 3), final("dead", "lost", retries=0)) == ["job lost"]


def test_two_leases_at_one_time_are_named() -> None:
    calls = (enqueue(), lease(2), lease(4, 2), report("ack", 5, 2), final("completed", "lost", "completed"))
    assert found(*calls) == ["two leases"]


def test_a_heartbeat_lengthens_the_lease() -> None:
    calls = (enqueue(), lease(2), report("heartbeat", 6), lease(9, 2), report("ack", 10, 2))
    assert found(*calls, final("completed", "lost", "completed")) == ["two leases"]


def test_a_lease_after_the_end_of_another_is_fine() -> None:
    calls = (enqueue(), lease(2), lease(7.2, 2), report("ack", 8, 2), final("completed", "lost", "completed"))
    assert found(*calls) == []


def test_an_attempt_that_does_not_rise_is_named() -> None:
    calls = (enqueue(), lease(2), lease(9), report("ack", 10), final("completed", "completed"))
    assert found(*calls) == ["attempts"]


def test_a_lease_may_be_forgotten_by_a_crash_of_postgresql() -> None:
    calls = (
        enqueue(),
        lease(2),
        fault("kill postgres", 2.2, 3),
        lease(4),
        report("ack", 5),
        final("completed", "completed"),
    )
    assert found(*calls) == []


@pytest.mark.parametrize("op", ["ack", "nack", "heartbeat"])
def test_an_old_token_that_is_accepted_is_named(op: str) -> None:
    calls = (enqueue(), lease(2), lease(9, 2), report(op, 10, 1), final("completed", "lost", "completed"))
    assert "stale token" in found(*calls)


def test_an_old_token_that_is_refused_is_fine() -> None:
    calls = (enqueue(), lease(2), lease(9, 2), report("ack", 10, 1, accepted=False), report("ack", 11, 2))
    assert found(*calls, final("completed", "lost", "completed")) == []


@pytest.mark.parametrize(
    "job",
    [
        final("completed", "failed"),
        final("dead", "completed"),
        final("completed", "completed", "completed"),
        final("dead", "failed", "failed", retries=0),
    ],
)
def test_attempts_that_do_not_add_up_are_named(job: Call) -> None:
    assert "attempts" in found(enqueue(), job)


def test_a_cancelled_job_that_is_leased_is_named() -> None:
    cancel = Call("cancel", "jobs", 2, 2.1, "ok", {"id": "j"}, True)
    assert found(enqueue(), cancel, final("cancelled")) == []
    assert "cancel" in found(enqueue(), cancel, lease(3), final("cancelled"))
    assert "cancel" in found(enqueue(), cancel, final("completed", "completed"))


def test_a_report_of_an_earlier_attempt_does_not_excuse_two_leases() -> None:
    calls = (enqueue(), lease(2), report("nack", 3), lease(4, 2), lease(5, 3), report("ack", 6, 3))
    assert found(*calls, final("completed", "failed", "lost", "completed")) == ["two leases"]


def run(at: float, attempt: int = 1) -> Call:
    return Call("run", "jobs", at, at + 0.1, "ok", {"id": "j", "attempt": attempt})


def test_an_attempt_that_is_begun_twice_is_named() -> None:
    ends = (enqueue(), final("completed", "completed"))
    assert found(run(2), *ends) == []
    assert found(run(2), run(9), *ends) == ["attempts"]
    assert found(run(2), fault("kill postgres", 3, 4), run(9), *ends) == []


def test_a_cancelled_job_that_is_run_is_named() -> None:
    assert found(enqueue(), run(3), final("cancelled")) == ["attempts"]


def kept(*spans: tuple[int, int]) -> Call:
    """A job with attempts from one second to another."""
    attempts = [
        {"attempt": n, "outcome": "lost", "started_at": moment(began), "ended_at": moment(ended)}
        for n, (began, ended) in enumerate(spans, 1)
    ]
    attempts[-1]["outcome"] = "completed"
    return Call(
        "job", "jobs", 99, 99, "ok", {"id": "j"}, {"status": "completed", "attempts": attempts, "max_retries": 9}
    )


def moment(second: int) -> str:
    return f"2026-01-01T00:00:{second:02}Z"


def test_attempts_that_overlap_are_named() -> None:
    assert found(enqueue(), kept((1, 3), (3, 5))) == []
    assert found(enqueue(), kept((1, 3), (2, 5))) == ["attempts"]


def test_a_job_that_is_begun_before_the_one_it_comes_after_is_named() -> None:
    first = Call("job", "jobs", 99, 99, "ok", {"id": "first"}, kept((4, 6)).result)
    enqueued = (enqueue("first"), Call("enqueue", "jobs", 1, 1.1, "ok", {"after": "first"}, {"ids": ["j"]}))
    assert found(*enqueued, first, kept((6, 7))) == []
    assert found(*enqueued, first, kept((5, 7))) == ["after"]
    assert found(
        *enqueued,
        Call("job", "jobs", 99, 99, "ok", {"id": "first"}, final("dead", "failed", retries=0).result),
        kept((6, 7)),
    ) == ["after"]


def limited(*calls: Call, **settings: Any) -> list[str]:
    return found(Call("create", "jobs", 0, 0, "ok", settings), *calls)


def test_more_jobs_at_one_time_than_the_limit_are_named() -> None:
    calls = (lease(2, job="a"), lease(3, job="b"), report("ack", 4, job="a"), report("ack", 4, job="b"))
    ends = (final("completed", "completed", job="a"), final("completed", "completed", job="b"))
    assert limited(*calls, *ends, concurrency=1) == ["concurrency"]
    assert limited(*calls, *ends, concurrency=2) == []


def test_jobs_one_after_another_keep_the_limit() -> None:
    calls = (lease(2, job="a"), report("ack", 3, job="a"), lease(3.2, job="b"), report("ack", 4, job="b"))
    ends = (final("completed", "completed", job="a"), final("completed", "completed", job="b"))
    assert limited(*calls, *ends, concurrency=1) == []


def test_an_orphan_that_is_not_found_two_seconds_after_its_lease_is_named() -> None:
    calls = (enqueue(), lease(2), lease(10, job=None), lease(20, 2), final("dead", "lost", "lost", retries=1))
    assert found(*calls) == ["orphan"]


def test_an_orphan_that_is_not_found_at_once_is_fine() -> None:
    calls = (enqueue(), lease(2), lease(8, job=None), lease(9.5, 2), final("dead", "lost", "lost", retries=1))
    assert found(*calls) == []

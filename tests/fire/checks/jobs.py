"""What a history of jobs must satisfy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from tests.fire.checks import CLOCK_S, Check, Violation
from tests.fire.history import FORGETTING, Call, History

ORPHAN_S = 2.0
"""A job whose worker died can be leased this long after its lease has ended, at the latest."""

LONG_S = 10.0
"""A worker begins what it has leased so long after the lease, at most; it is stopped for shorter."""

ENDED = {"completed", "dead", "cancelled"}


@dataclass(frozen=True)
class Lease:
    call: Call
    id: str
    attempt: int

    @property
    def ends_at_least(self) -> float:
        end: float = self.call.began + self.call.given["lease_s"]
        return end


def leases(history: History) -> dict[str, list[Lease]]:
    """By job, in the order of the attempts."""
    found: dict[str, list[Lease]] = {}
    for call in history.of("lease"):
        for job in call.result if call.outcome == "ok" else []:
            found.setdefault(job["id"], []).append(Lease(call, job["id"], job["attempt"]))
    for each in found.values():
        each.sort(key=lambda lease: (lease.attempt, lease.call.ended))
    return found


def runs(history: History) -> dict[str, list[Lease]]:
    """What `penstock.Worker` began, by job: some time after its lease."""
    found: dict[str, list[Lease]] = {}
    for call in history.of("run"):
        found.setdefault(call.given["id"], []).append(Lease(call, call.given["id"], call.given["attempt"]))
    return found


def reports(history: History, *ops: str) -> dict[str, list[Call]]:
    """Reports that had or may have had an effect, by job."""
    found: dict[str, list[Call]] = {}
    for call in history.of(*ops):
        if call.outcome == "unknown" or (call.outcome == "ok" and call.result):
            found.setdefault(call.given["id"], []).append(call)
    return found


def final(history: History) -> dict[str, dict[str, Any]]:
    return {call.given["id"]: call.result for call in history.of("job") if call.outcome == "ok"}


def _moment(attempt: dict[str, Any], name: str) -> datetime:
    return datetime.fromisoformat(attempt.get(name) or "0001-01-01T00:00:00Z")


def jobs_end(history: History) -> list[Violation]:
    """An acknowledged job is completed, dead or cancelled in the end, and a confirmed ack means completed."""
    states = final(history)
    found = []
    for call in history.of("enqueue"):
        for job_id in call.result["ids"] if call.outcome == "ok" else []:
            state = states.get(job_id, {}).get("status", "absent")
            if state not in ENDED:
                found.append(Violation("job lost", f"job {job_id} of {call.target} ended {state}", (call,)))
    for call in history.of("ack"):
        state = states.get(call.given["id"], {}).get("status", "absent")
        if call.outcome == "ok" and call.result and state != "completed":
            found.append(Violation("job lost", f"job {call.given['id']} was acked and ended {state}", (call,)))
    return found


def one_lease(history: History) -> list[Violation]:
    """Nobody leases a job while another lease of it runs."""
    ends = reports(history, "ack", "nack")
    beats = reports(history, "heartbeat")
    found = []
    for job_id, each in leases(history).items():
        for first, second in pairwise(sorted(each, key=lambda lease: lease.call.ended)):
            until = first.ends_at_least
            for beat in beats.get(job_id, []):
                if beat.outcome == "ok" and beat.given["attempt"] == first.attempt and beat.ended < second.call.began:
                    until = beat.began + beat.given["lease_s"]
            reported = any(
                call.began < second.call.ended and call.given["attempt"] == first.attempt
                for call in ends.get(job_id, [])
            )
            skew = history.skew(first.call.began, second.call.ended)
            overlap = first.call.ended < second.call.began and second.call.ended < until - skew - CLOCK_S
            if overlap and not reported and not history.crashed(first.call.began - 1, second.call.ended):
                calls = (first.call, second.call)
                found.append(Violation("two leases", f"job {job_id} was leased twice at one time", calls))
    return found


def attempts_rise(history: History) -> list[Violation]:
    """Each lease of a job has a higher attempt than the one before. A crash of PostgreSQL may forget leases."""
    found = []
    begun = runs(history)
    for job_id, each in begun.items():
        for first, second in pairwise(sorted(each, key=lambda run: (run.attempt, run.call.began))):
            if first.attempt == second.attempt and not history.crashed(first.call.began - LONG_S, second.call.began):
                message = f"attempt {first.attempt} of job {job_id} was begun twice"
                found.append(Violation("attempts", message, (first.call, second.call)))
    for job_id, each in leases(history).items():
        for first, second in pairwise(each):
            since, until = min(first.call.began, second.call.began), max(first.call.ended, second.call.ended)
            wrong = first.attempt == second.attempt or second.call.ended < first.call.began
            if wrong and not history.crashed(since - 1, until):
                message = f"job {job_id} was leased as attempt {first.attempt}, then {second.attempt}"
                found.append(Violation("attempts", message, (first.call, second.call)))
    return found


def stale_tokens(history: History) -> list[Violation]:
    """A token of an earlier lease changes nothing once the job was leased again."""
    given = leases(history)
    found = []
    for call in history.of("ack", "nack", "heartbeat"):
        if call.outcome != "ok" or not call.result:
            continue
        for lease in given.get(call.given["id"], []):
            if lease.attempt > call.given["attempt"] and lease.call.ended < call.began:
                message = f"the token of attempt {call.given['attempt']} was accepted during attempt {lease.attempt}"
                found.append(Violation("stale token", message, (lease.call, call)))
                break
    return found


def attempts_add_up(history: History) -> list[Violation]:
    """The attempts of a job are numbered without gaps, within its retries, and one of them completed it.

    None began before the one before it had ended, and none was made that is not kept: not after a cancel either.
    """
    found = []
    given, begun = leases(history), runs(history)
    crashes = any(fault.target in FORGETTING for fault in history.faults)
    for call in history.of("job"):
        job = call.result
        if call.outcome != "ok" or job["status"] not in ENDED:
            continue
        numbers = [attempt["attempt"] for attempt in job["attempts"]]
        outcomes = [attempt["outcome"] for attempt in job["attempts"]]
        seen = {lease.attempt for each in (given, begun) for lease in each.get(call.given["id"], [])}
        times = [(_moment(each, "started_at"), _moment(each, "ended_at")) for each in job["attempts"]]
        wrong = None
        if numbers != list(range(1, len(numbers) + 1)):
            wrong = f"has the attempts {numbers}"
        elif outcomes.count("completed") != (job["status"] == "completed"):
            wrong = f"is {job['status']} with the outcomes {outcomes}"
        elif len(outcomes) > job["max_retries"] + 1:
            wrong = f"ran {len(outcomes)} times with {job['max_retries']} retries"
        elif any(began < ended for (_, ended), (began, _) in pairwise(times)):
            wrong = "has attempts that overlap"
        elif not crashes and not seen <= set(numbers):
            wrong = f"was leased as {sorted(seen)} and kept {numbers}"
        if wrong is not None:
            found.append(Violation("attempts", f"job {call.given['id']} {wrong}", (call,)))
    return found


def cancel_is_final(history: History) -> list[Violation]:
    """A cancelled job is never leased again and ends as cancelled."""
    found = []
    given, states = leases(history), final(history)
    for call in history.of("cancel"):
        if call.outcome != "ok" or not call.result:
            continue
        job_id = call.given["id"]
        later = [lease.call for lease in given.get(job_id, []) if lease.call.began > call.ended]
        if later:
            found.append(Violation("cancel", f"job {job_id} was leased after its cancel", (call, later[0])))
        if (state := states.get(job_id, {}).get("status")) not in ("cancelled", None):
            found.append(Violation("cancel", f"job {job_id} was cancelled and ended {state}", (call,)))
    return found


def order_holds(history: History) -> list[Violation]:
    """A job that comes after another one is not begun before that is completed."""
    found = []
    states = final(history)
    for call in history.of("enqueue"):
        after = call.given.get("after") or ""
        for job_id in call.result["ids"] if after and call.outcome == "ok" else []:
            job, other = states.get(job_id), states.get(after)
            if job is None or other is None or not job["attempts"]:
                continue
            completed = [_moment(each, "ended_at") for each in other["attempts"] if each["outcome"] == "completed"]
            skew = timedelta(seconds=history.skew(call.began, math.inf))
            if not completed or _moment(job["attempts"][0], "started_at") + skew < completed[0]:
                message = f"job {job_id} was begun before job {after}, which it comes after, was completed"
                found.append(Violation("after", message, (call,)))
    return found


def concurrency_holds(history: History) -> list[Violation]:
    """No more leases of a queue run at one time than its limit allows."""
    found = []
    ends = reports(history, "ack", "nack")
    crashes = [fault.began - 1 for fault in history.faults if fault.target in FORGETTING]
    for queue, settings in history.settings.items():
        limit = settings.get("concurrency")
        if limit is None:
            continue
        edges: list[tuple[float, int, Call]] = []
        for job_id, each in leases(history).items():
            for lease in each:
                if lease.call.target != queue:
                    continue
                until = lease.ends_at_least - history.skew(lease.call.began, lease.ends_at_least) - CLOCK_S
                until = min([until, *(call.began for call in ends.get(job_id, []) if call.began > lease.call.ended)])
                until = min([until, *(crash for crash in crashes if crash + 1 > lease.call.began)])
                if until > lease.call.ended:
                    edges += [(lease.call.ended, 1, lease.call), (until, -1, lease.call)]
        running: list[Call] = []
        for _, change, call in sorted(edges, key=lambda edge: (edge[0], edge[1])):
            if change > 0:
                running.append(call)
            else:
                running.remove(call)
            if len(running) > limit:
                message = f"{len(running)} jobs of {queue} ran at one time, {limit} may"
                found.append(Violation("concurrency", message, tuple(running)))
                break
    return found


def orphans_run_again(history: History) -> list[Violation]:
    """A lease that finds nothing proves that no lease had ended more than two seconds before."""
    ends = reports(history, "ack", "nack")
    beats = reports(history, "heartbeat")
    empty: dict[str, list[Call]] = {}
    for call in history.of("lease"):
        if call.outcome == "ok" and not call.result:
            empty.setdefault(call.target, []).append(call)
    found = []
    for job_id, each in leases(history).items():
        for first, second in pairwise(each):
            # Workers that write no history may have had the attempts in between.
            if second.attempt != first.attempt + 1:
                continue
            reported = any(call.given["attempt"] == first.attempt for call in ends.get(job_id, []))
            if reported or history.settings.get(first.call.target, {}).get("concurrency") is not None:
                continue
            skew = history.skew(first.call.began, second.call.ended)
            expiry = first.call.ended + first.call.given["lease_s"] + ORPHAN_S + skew
            expiry = max([expiry, *(beat.ended + beat.given["lease_s"] + ORPHAN_S for beat in beats.get(job_id, []))])
            for call in empty.get(first.call.target, []):
                if call.began > expiry and call.ended < second.call.began:
                    message = f"job {job_id} was not leased again although its lease had ended"
                    found.append(Violation("orphan", message, (first.call, call, second.call)))
                    break
    return found


CHECKS: tuple[Check, ...] = (
    jobs_end,
    one_lease,
    attempts_rise,
    stale_tokens,
    attempts_add_up,
    cancel_is_final,
    order_holds,
    concurrency_holds,
    orphans_run_again,
)

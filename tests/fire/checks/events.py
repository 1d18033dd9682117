"""What a history of streams, schedules, topics and webhooks must satisfy."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from tests.fire.checks import Check, Violation
from tests.fire.history import Call, Delivery, History

PAUSE_S = 15.0
"""A schedule may be so late when it is paused, at most."""
TOGETHER_S = 2.0
"""Attempts at one delivery that succeeds are so close only if two nodes make the same one: a timeout lasts longer."""


def _events(history: History, stream: str) -> tuple[dict[str, Call], dict[str, Call]]:
    """The events that were certainly committed, and all that may have been."""
    certain: dict[str, Call] = {}
    possible: dict[str, Call] = {}
    for call in history.of("event"):
        if call.target == stream and call.outcome != "fail":
            for key in call.given["keys"]:
                possible[key] = call
                if call.outcome == "ok":
                    certain[key] = call
    return certain, possible


def events_once(history: History) -> list[Violation]:
    """Every consumer of a stream gets every committed event, in one batch, and no others."""
    found = []
    for stream, settings in history.settings.items():
        certain, possible = _events(history, stream)
        for consumer in settings.get("consumers", []):
            batches = [
                call
                for call in history.of("batch")
                if call.target == stream and call.given["consumer"] == consumer and call.outcome == "ok" and call.result
            ]
            seen = {key: call for call in batches for key in call.result["keys"]}
            for key in certain.keys() - seen.keys():
                message = f"{key} was committed to {stream}, and {consumer} never got it"
                found.append(Violation("event lost", message, (certain[key],)))
            for key in seen.keys() - possible.keys():
                found.append(
                    Violation("phantom event", f"{key} came to {consumer} but was never committed", (seen[key],))
                )
            found += _twice(history, stream, consumer, batches)
    return found


def _twice(history: History, stream: str, consumer: str, batches: list[Call]) -> list[Violation]:
    """Events that were received again after their batch was acknowledged, or acknowledged in two batches."""
    acks = {
        call.given["batch"]: call
        for call in reversed(history.of("ack batch"))
        if call.target == stream and call.given["consumer"] == consumer and call.outcome == "ok"
    }
    where: dict[str, list[Call]] = {}
    for call in batches:
        for key in call.result["keys"]:
            where.setdefault(key, []).append(call)
    found = []
    for key, calls in where.items():
        done = {call.result["batch"]: call for call in calls if call.result["batch"] in acks}
        if len(done) > 1:
            message = f"{key} was acknowledged by {consumer} in the batches {sorted(done)}"
            found.append(Violation("event twice", message, tuple(done.values())))
            continue
        for first in calls:
            ack = acks.get(first.result["batch"])
            later = [call for call in calls if ack is not None and call.began > ack.ended]
            if ack is not None and later:
                message = f"{key} came to {consumer} again after its batch was acknowledged"
                found.append(Violation("event twice", message, (first, ack, later[0])))
                break
    return found


def sink_equals_events(history: History) -> list[Violation]:
    """The rows that a transactional consumer wrote are the committed events, each once."""
    found = []
    for call in history.of("sink"):
        certain, possible = _events(history, call.target)
        rows = Counter(call.result)
        missing = sorted(certain.keys() - rows.keys())
        extra = sorted(rows.keys() - possible.keys())
        twice = sorted(key for key, count in rows.items() if count > 1)
        for what, keys in (("missing", missing), ("never committed", extra), ("written twice", twice)):
            if keys:
                shown = tuple(possible[key] for key in keys[:3] if key in possible)
                found.append(Violation("sink", f"{len(keys)} rows {what}: {', '.join(keys[:3])}", shown))
    return found


def _occurrences(history: History) -> dict[tuple[str, str], dict[datetime, list[Delivery]]]:
    """What fired, by queue and schedule."""
    found: dict[tuple[str, str], dict[datetime, list[Delivery]]] = {}
    for (queue, _), deliveries in history.deliveries.items():
        for delivery in deliveries:
            mark = delivery.headers.get("_schedule")
            if mark is not None and not mark["out_of_band"]:
                moment = datetime.fromisoformat(mark["scheduled_for"])
                found.setdefault((queue, mark["name"]), {}).setdefault(moment, []).append(delivery)
    return found


def occurrences_once(history: History) -> list[Violation]:
    """A schedule fires once for each of its times; with `catchup` it leaves none out, from its first to its pause."""
    found = []
    schedules: dict[str, dict[str, Any]] = {call.target: call.given for call in history.of("schedule")}
    fired = _occurrences(history)
    for (queue, name), occurrences in fired.items():
        for moment, deliveries in occurrences.items():
            ids = {delivery.id for delivery in deliveries}
            if len(ids) > 1:
                message = f"{name} fired {len(ids)} times for {moment.isoformat()}"
                found.append(Violation("fired twice", message, tuple(delivery.call for delivery in deliveries[:2])))
        step = schedules.get(name, {}).get("step_s")
        if step is not None:
            moment, last = _span(history, name, step, occurrences)
            while moment <= last:
                if moment not in occurrences:
                    found.append(Violation("not fired", f"{name} left out {moment.isoformat()} in {queue}"))
                moment += timedelta(seconds=step)
    names = {name for _, name in fired}
    found += [Violation("not fired", f"{name} never fired") for name in schedules if name not in names]
    return found


def _span(
    history: History, name: str, step: float, occurrences: dict[datetime, list[Delivery]]
) -> tuple[datetime, datetime]:
    """From the first fire after it was made to the last that is not excused by the pause, as far as these are known."""
    first, last = min(occurrences), max(occurrences)
    made = [call.given["at"] for call in history.of("schedule") if call.target == name and "at" in call.given]
    paused = [call.given["at"] for call in history.of("pause") if call.target == name]
    while made and first - timedelta(seconds=2 * step) > datetime.fromisoformat(made[0]):
        first -= timedelta(seconds=step)
    while paused and last + timedelta(seconds=step + PAUSE_S) < datetime.fromisoformat(paused[0]):
        last += timedelta(seconds=step)
    return first, last


def published_arrives(history: History) -> list[Violation]:
    """A publish reaches each subscribed queue as one message, and each webhook at least once, or is exhausted."""
    found = []
    arrived = {call.given["id"] for call in history.of("arrival")}
    states = {call.given["id"]: call for call in history.of("delivery")}
    for call in history.of("publish"):
        if call.outcome != "ok":
            continue
        for queue in call.given["queues"]:
            ids = {delivery.id for delivery in history.deliveries.get((queue, call.given["key"]), [])}
            if len(ids) != 1:
                message = f"{call.given['key']} came to {queue} as {len(ids)} messages"
                found.append(Violation("publish", message, (call,)))
        if not call.given["webhook"]:
            continue
        last = states.get(call.result["id"])
        state = "absent" if last is None else last.result["state"]
        if state not in ("delivered", "exhausted"):
            found.append(Violation("webhook", f"the delivery of {call.given['key']} ended {state}", (call,)))
        elif state == "delivered" and call.result["id"] not in arrived:
            message = f"{call.given['key']} is marked as delivered and never arrived"
            found.append(Violation("webhook", message, (call,)))
    return found


def webhooks_once(history: History) -> list[Violation]:
    """No two nodes make the same attempt: after a success none follows, unless a fault kept it from being noted."""
    arrivals: dict[str, list[Call]] = {}
    for call in history.of("arrival"):
        arrivals.setdefault(call.given["id"], []).append(call)
    return [
        Violation("webhook", f"delivery {each} was made again after its success", (first, second))
        for each, calls in arrivals.items()
        for first, second in pairwise(calls)
        if first.result == 200 and second.began - first.began < TOGETHER_S
        if not any(fault.began <= second.began and fault.ended >= first.began for fault in history.faults)
    ]


CHECKS: tuple[Check, ...] = (events_once, sink_equals_events, occurrences_once, published_arrives, webhooks_once)

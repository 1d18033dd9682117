"""What the servers themselves must satisfy: their metrics, their answers under a flood, copies of them."""

from __future__ import annotations

from tests.fire.checks import Check, Violation
from tests.fire.history import History


def metrics_are_facts(history: History) -> list[Violation]:
    """When everything is drained, the gauges of a queue are zero, and count what the queue itself counts."""
    totals = {call.target: call.result["total_messages"] for call in history.of("counts")}
    found = []
    for call in history.of("metrics"):
        wanted = {"queue_depth": 0, "queue_in_flight": 0, "queue_delayed": 0}
        if call.target in totals:
            wanted["queue_sent_messages"] = totals[call.target]
        for name, value in wanted.items():
            if call.result.get(name) != value:
                message = f"{name} of {call.target} is {call.result.get(name)}, and {value} is the fact"
                found.append(Violation("metrics", message, (call,)))
    return found


def floods_are_answered(history: History) -> list[Violation]:
    """A flood is served or refused in good order: no connection is closed, no answer is an error of the server."""
    return [
        Violation("flood", f"a flood was answered with {status} {count} times", (call,))
        for call in history.of("flood")
        for status, count in call.result.items()
        if not (status.startswith("2") or status in ("429", "503"))
    ]


def backups_serve_the_same(history: History) -> list[Violation]:
    """A server on a restored backup has the same rows, and serves the same messages."""
    found = []
    for call in history.of("backup"):
        for name in call.result["differs"]:
            found.append(Violation("backup", f"the {name} of the restored copy differ", (call,)))
        served, expected = ({message[0]: message[1] for message in call.result[key]} for key in ("served", "expected"))
        if served != expected or not expected:
            message = f"the restored copy serves {len(served)} messages of {call.target}, the original {len(expected)}"
            found.append(Violation("backup", message, (call,)))
    return found


CHECKS: tuple[Check, ...] = (metrics_are_facts, floods_are_answered, backups_serve_the_same)

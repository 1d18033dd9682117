"""Histories: what each client asked, what it was answered, and when, on the machine's monotonic clock.

Every client writes one file of JSON lines, one line before each call and one after it. A client that is killed leaves
a call without an end: its outcome is unknown.
"""

from __future__ import annotations

import itertools
import json
import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, NamedTuple, Self

Outcome = Literal["ok", "fail", "unknown"]
"""`fail` is certain: nothing was changed. `unknown` may have taken effect or not."""

Key = tuple[str, str]
"""A queue, and what names a message in it."""

LATE_S = 30.0
"""A server may carry out a request so long after its client gave up, at most."""

Classify = Callable[[Exception], Outcome]


class Answer(NamedTuple):
    outcome: Outcome
    result: Any

    @property
    def ok(self) -> bool:
        return self.outcome == "ok"


@dataclass(frozen=True)
class Call:
    """One call of a client. `op` is what it did, `target` the queue, stream or schedule."""

    op: str
    target: str
    began: float
    ended: float = math.inf
    outcome: Outcome = "unknown"
    given: dict[str, Any] = field(default_factory=dict)
    result: Any = None
    process: str = ""
    number: int = 0

    def __str__(self) -> str:
        ended = "never ended" if math.isinf(self.ended) else f"{self.ended:.3f}"
        text = f"{self.process}#{self.number} {self.op} {self.target} {self.began:.3f}..{ended} {self.outcome}"
        return f"{text} {_shortened(self.given)} -> {_shortened(self.result)}"


def _shortened(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 200 else text[:200] + "…"


@dataclass(frozen=True)
class Delivery:
    """One message in the answer of a receive."""

    call: Call
    key: str
    id: str
    count: int
    body: str
    attributes: dict[str, str]
    place: int
    group: str | None = None
    receipt: Any = None
    headers: dict[str, Any] = field(default_factory=dict)

    @property
    def queue(self) -> str:
        return self.call.target


class Recorder:
    """Writes the history of one client."""

    def __init__(self, folder: Path, process: str) -> None:
        self.process = process
        # Line by line: what was written outlives a kill of this process.
        self._file = (folder / f"{process}.jsonl").open("a", buffering=1, encoding="utf-8")
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def begin(self, op: str, target: str, given: dict[str, Any]) -> int:
        number = next(self._numbers)
        self._write({"n": number, "op": op, "target": target, "given": given, "t": time.monotonic()})
        return number

    def end(self, number: int, outcome: Outcome, result: Any = None) -> Answer:
        self._write({"n": number, "outcome": outcome, "result": result, "t": time.monotonic()})
        return Answer(outcome, result)

    def call(self, op: str, target: str, given: dict[str, Any], act: Callable[[], Any], classify: Classify) -> Answer:
        number = self.begin(op, target, given)
        try:
            result = act()
        except Exception as error:
            return self.end(number, classify(error), f"{type(error).__name__}: {error}"[:200])
        return self.end(number, "ok", result)

    def _write(self, line: dict[str, Any]) -> None:
        text = json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n"
        with self._lock:
            self._file.write(text)


def read_file(path: Path) -> Iterator[Call]:
    begun: dict[int, dict[str, Any]] = {}
    for text in path.read_text(encoding="utf-8").splitlines():
        try:
            line = json.loads(text)
        except ValueError:
            continue  # the last line of a killed process
        if "op" in line:
            # A restarted client counts from one again.
            if line["n"] in begun:
                yield _call(path.stem, begun.pop(line["n"]), None)
            begun[line["n"]] = line
        elif line["n"] in begun:
            yield _call(path.stem, begun.pop(line["n"]), line)
    for line in begun.values():
        yield _call(path.stem, line, None)


def _call(process: str, begin: dict[str, Any], end: dict[str, Any] | None) -> Call:
    found = end or {"t": math.inf, "outcome": "unknown", "result": None}
    return Call(
        begin["op"], begin["target"], begin["t"], found["t"], found["outcome"], begin["given"], found["result"],
        process, begin["n"],
    )  # fmt: skip


class History:
    """All calls of a run, by the time they began."""

    def __init__(self, calls: Iterable[Call]) -> None:
        self.calls = sorted(calls, key=lambda call: call.began)

    @classmethod
    def read(cls, folder: Path) -> History:
        return cls(call for path in sorted(folder.glob("*.jsonl")) for call in read_file(path))

    def of(self, *ops: str) -> list[Call]:
        return [call for op in ops for call in self._by_op.get(op, [])]

    @cached_property
    def _by_op(self) -> dict[str, list[Call]]:
        found: dict[str, list[Call]] = {}
        for call in self.calls:
            found.setdefault(call.op, []).append(call)
        return found

    @cached_property
    def settings(self) -> dict[str, dict[str, Any]]:
        """Of each queue, as it was created."""
        return {call.target: call.given for call in self.of("create")}

    @cached_property
    def deliveries(self) -> dict[tuple[str, str], list[Delivery]]:
        """By queue and key, in the order of the receive count."""
        found: dict[tuple[str, str], list[Delivery]] = {}
        for call in self.of("receive"):
            for place, each in enumerate(call.result if call.outcome == "ok" else []):
                delivery = Delivery(
                    call, key_of(each["body"]), each["id"], each["count"], each["body"], each.get("attributes") or {},
                    place, each.get("group"), each.get("receipt"), each.get("headers") or {},
                )  # fmt: skip
                found.setdefault((call.target, delivery.key), []).append(delivery)
        for deliveries in found.values():
            deliveries.sort(key=lambda delivery: (delivery.count, delivery.call.ended))
        return found

    @cached_property
    def sends(self) -> dict[tuple[str, str], list[tuple[Call, dict[str, Any], Outcome]]]:
        """Every attempt to send a message: the call, the entry, and its own outcome."""
        found: dict[tuple[str, str], list[tuple[Call, dict[str, Any], Outcome]]] = {}
        for call in self.of("send"):
            refused = set(call.result["refused"]) if call.outcome == "ok" and isinstance(call.result, dict) else set()
            for place, entry in enumerate(call.given["messages"]):
                outcome: Outcome = "fail" if place in refused else call.outcome
                found.setdefault((call.target, key_of(entry["body"])), []).append((call, entry, outcome))
        return found

    @cached_property
    def delivered_ids(self) -> dict[tuple[str, str], dict[str, Call]]:
        """Messages that were delivered, by queue and deduplication id, each with its first receive."""
        found: dict[tuple[str, str], dict[str, Call]] = {}
        for (queue, key), deliveries in self.deliveries.items():
            attempts = self.sends.get((queue, key))
            if attempts is not None and (dedup_id := attempts[0][1].get("dedup_id")) is not None:
                for delivery in deliveries:
                    found.setdefault((queue, dedup_id), {}).setdefault(delivery.id, delivery.call)
        return found

    @cached_property
    def faults(self) -> list[Call]:
        return self.of("fault")

    def unanswered(self, queue: str, since: float, until: float) -> list[Call]:
        """Receives whose client never learned what they claimed, which they may have done in this time."""
        return [
            call for call in self._unanswered.get(queue, []) if call.began <= until and call.ended + LATE_S >= since
        ]

    @cached_property
    def _unanswered(self) -> dict[str, list[Call]]:
        found: dict[str, list[Call]] = {}
        for call in self.of("receive"):
            if call.outcome == "unknown":
                found.setdefault(call.target, []).append(call)
        return found

    def crashed(self, since: float, until: float) -> bool:
        """Whether PostgreSQL crashed in this time, so that claims may have been forgotten."""
        return any(
            fault.target in FORGETTING and fault.began <= until and fault.ended >= since for fault in self.faults
        )

    def skew(self, since: float, until: float) -> float:
        """How far a clock may have got ahead of another, or of itself: from behind to ahead in two steps."""
        steps = [
            abs(fault.given.get("seconds", 0.0))
            for fault in self._steps
            if fault.began <= until and fault.ended >= since
        ]
        return max(steps, default=0.0) * min(len(steps), 2)

    @cached_property
    def _steps(self) -> list[Call]:
        return [fault for fault in self.faults if fault.target == "step clock"]


FORGETTING = {"kill postgres", "fail over", "fill disk"}
"""Faults after which PostgreSQL may have forgotten what was committed without waiting for the disk: claims."""


def key_of(body: str) -> str:
    """The name that a message has in the history: the first word of its body."""
    return body.partition(" ")[0]

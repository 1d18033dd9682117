"""Producers and consumers of queues, through any door."""

from __future__ import annotations

import time
from collections.abc import Callable
from random import Random
from typing import Any

from tests.fire.load.doors import ATTRIBUTE, Door

QUEUES: dict[str, dict[str, Any]] = {
    "work": {"visibility_timeout": 3},
    "later": {"visibility_timeout": 3},
    "once": {"visibility_timeout": 3},
    "dead": {"visibility_timeout": 3, "fed_by": "dead letters"},
    "poison": {"visibility_timeout": 1, "max_receives": 3, "dead_letter_queue": "dead"},
    "steps.fifo": {"visibility_timeout": 3, "fifo": True, "numbered": True},
}
"""With what the checks need to know of them beside the settings."""

OTHER = "two:work"
"""A queue of another tenant; the default tenant has one of the same name."""
OURS = {"fed_by", "numbered", "tenant"}
GROUP_SIZE = 20
TEXT = 'ünïcödé "quotes" \\ back\tslash 日本 🚰 '

Stop = Callable[[], bool]


class Producer:
    def __init__(self, door: Door, name: str, seed: int, rate: float) -> None:
        self._door = door
        self._name = name
        self._random = Random(f"{seed} {name}")
        self._pause = 1 / rate
        self._sent = 0
        self._numbers = 0
        self._waiting: list[dict[str, Any]] = []
        """Messages of a group that were not yet acknowledged: they are sent again, in order, before any other."""

    def run(self, stop: Stop) -> None:
        due = time.monotonic()
        while not stop():
            sent = self.step()
            due = max(due + sent * self._pause, time.monotonic() - 1)
            time.sleep(max(0.0, due - time.monotonic()))

    def step(self) -> int:
        """Send one batch; how many messages it had."""
        chance = self._random.random()
        size = self._random.randint(1, 10)
        if chance < 0.6:
            return self._send("work", [self._message("work") for _ in range(size)])
        if chance < 0.7:
            delay = self._random.randint(1, 3)
            return self._send("later", [self._message("later", delay=delay) for _ in range(size)])
        if chance < 0.75:
            return self._send("poison", [self._message("poison")])
        if chance < 0.85:
            # Other producers use the same ids at the same time.
            number = int(time.monotonic() * 4)
            return self._send("once", [self._message("once", dedup_id=f"once-{number}")])
        return self._next_of_group()

    def _message(self, kind: str, **more: Any) -> dict[str, Any]:
        self._sent += 1
        body = f"{self._name}-{kind}-{self._sent} {TEXT[: self._random.randint(0, len(TEXT))]}{self._random.random()}"
        # SQL has no argument for attributes.
        attributes = {} if self._door.name == "sql" else {ATTRIBUTE: f"é{self._sent}"}
        return {"body": body, "attributes": attributes, **more}

    def _next_of_group(self) -> int:
        if not self._waiting:
            for _ in range(self._random.randint(1, 3)):
                group = f"{self._name}-{self._numbers // GROUP_SIZE}"
                if self._waiting and self._waiting[0]["group"] != group:
                    break
                key = f"{group}-{self._numbers % GROUP_SIZE}"
                self._waiting.append({"body": f"{key} {TEXT}", "attributes": {}, "group": group, "dedup_id": key})
                self._numbers += 1
        answer = self._door.send("steps.fifo", self._waiting)
        sent = len(self._waiting)
        if answer.ok and not answer.result["refused"]:
            self._waiting = []
        return sent

    def _send(self, queue: str, messages: list[dict[str, Any]]) -> int:
        self._door.send(queue, messages)
        return len(messages)


class Consumer:
    def __init__(self, door: Door, name: str, seed: int, slow_s: float = 0.0) -> None:
        self._door = door
        self._random = Random(f"{seed} {name} consumer")
        self._slow_s = slow_s
        self._old: list[tuple[str, dict[str, Any]]] = []
        """Deliveries that were left alone; their receipts are tried later, when they may be stale."""

    def run(self, stop: Stop) -> None:
        while not stop():
            queue = self._random.choices(list(QUEUES), weights=[6, 2, 1, 1, 2, 4])[0]
            limit, wait = self._random.choice([1, 5, 10]), self._random.choice([0, 0, 0, 1])
            found = self._door.receive(queue, limit, QUEUES[queue]["visibility_timeout"], wait)
            if found:
                self._handle(queue, found)
                time.sleep(self._slow_s)
            else:
                time.sleep(0.05)
            if self._old and self._random.random() < 0.1:
                old_queue, delivery = self._old.pop(0)
                self._door.delete(old_queue, [delivery])

    def _handle(self, queue: str, found: list[dict[str, Any]]) -> None:
        if queue == "poison":
            return
        done = []
        for delivery in found:
            chance = self._random.random()
            if chance < 0.03:
                self._old.append((queue, delivery))
            elif chance < 0.05:
                # Longer than the timeout, too: then it holds longer.
                self._door.hide(queue, delivery, self._random.choice([0, 2, 6]))
            elif chance < 0.07:
                continue
            else:
                done.append(delivery)
        if done:
            self._door.delete(queue, done)
        del self._old[:-50]


def other_tenant(door: Door, stop: Stop) -> None:
    """Send to a queue and empty it again, in turn. Its messages begin with the name of the tenant."""
    sent = 0
    while not stop():
        sent += 1
        door.send(OTHER, [{"body": f"two-{sent} {TEXT}", "attributes": {}}])
        if found := door.receive(OTHER, 10, 3):
            door.delete(OTHER, found)
        time.sleep(0.1)

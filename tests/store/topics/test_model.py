"""Events by routing key under random use on two nodes, beside a model of who is subscribed."""

from __future__ import annotations

from collections import Counter
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from penstock.clock import FakeClock
from penstock.engine import Engine
from penstock.model.topics import NewSubscription, Publish
from penstock.store import Store
from tests.store.caller import Caller
from tests.store.machines import Run, run_machine

QUEUES = ("first", "second", "third")
PATTERNS = ("a.b", "a.*", "*.b", "a.#", "#", "#.b", "a.#.c")
KEYS = ("a", "a.b", "a.c", "a.b.c", "x.b", "x.y.b", "b")


def fits(pattern: list[str], key: list[str]) -> bool:
    """By the definition: `*` is one segment, `#` any number of them, also none."""
    if not pattern:
        return not key
    if pattern[0] == "#":
        return any(fits(pattern[1:], key[skipped:]) for skipped in range(len(key) + 1))
    return bool(key) and pattern[0] in ("*", key[0]) and fits(pattern[1:], key[1:])


class Machine(RuleBasedStateMachine):
    def __init__(self, store: Store, run: Run[Any]) -> None:
        super().__init__()
        self.run = run
        self.clock = FakeClock()
        tenant = run(store.create_tenant(f"tenant-{uuid4().hex}", self.clock.now()))
        self.caller = Caller(store, tenant.id, self.clock)
        self.nodes = [Engine(store, self.clock), Engine(store, self.clock)]
        self.subscribed: dict[tuple[str, str], str] = {}
        self.expected: dict[str, Counter[str]] = {queue: Counter() for queue in QUEUES}
        self.published = 0
        for queue in QUEUES:
            run(self.caller.make_queue(queue))

    @rule(node=st.integers(0, 1), queue=st.sampled_from(QUEUES), pattern=st.sampled_from(PATTERNS))
    def subscribe(self, node: int, queue: str, pattern: str) -> None:
        new = NewSubscription(
            tenant=self.caller.tenant, pattern=pattern, protocol="sqs", endpoint=queue, target=queue,
            attributes={"RawMessageDelivery": "true"},
        )  # fmt: skip

        subscription, created = self.run(self.nodes[node].topics.subscribe(new))

        assert created is ((queue, pattern) not in self.subscribed)
        assert self.subscribed.setdefault((queue, pattern), subscription.key) == subscription.key

    @precondition(lambda self: self.subscribed)
    @rule(node=st.integers(0, 1), data=st.data())
    def unsubscribe(self, node: int, data: st.DataObject) -> None:
        which = data.draw(st.sampled_from(sorted(self.subscribed)))

        self.run(self.nodes[node].topics.unsubscribe(self.caller.tenant, self.subscribed.pop(which)))

    @rule(node=st.integers(0, 1), key=st.sampled_from(KEYS))
    def publish(self, node: int, key: str) -> None:
        self.published += 1
        body = f"event {self.published}"
        reached = Counter(
            queue for queue, pattern in self.subscribed if fits(pattern.split("."), key.split("."))
        )  # fmt: skip

        publish = Publish(tenant=self.caller.tenant, routing_key=key, body=body)
        published = self.run(self.nodes[node].topics.publish(publish))

        assert {queue for queue, _ in published.sent} == set(reached)
        for queue, _ in published.sent:
            self.expected[queue][body] += 1

    @rule(queue=st.sampled_from(QUEUES))
    def receive(self, queue: str) -> None:
        messages = self.run(self.caller.receive(queue, 1000))

        assert Counter(message.body for message in messages) == self.expected[queue]
        if messages:
            self.run(self.caller.delete(queue, *messages))
        self.expected[queue].clear()

    def teardown(self) -> None:
        for queue in QUEUES:
            self.receive(queue)


@pytest.mark.hypothesis
@pytest.mark.parametrize("kind", ["postgres", "sqlite-memory"])
def test_topics_behave_like_their_model(request: pytest.FixtureRequest, kind: str) -> None:
    run_machine(request, kind, Machine)

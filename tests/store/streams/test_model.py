"""A stream under random use by several sessions, beside a model of what was committed when."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from tests.effort import examples
from tests.store.streams.queue import Connection, Queue, queue_of

CONSUMERS = ("c", "d")
SESSIONS = 3


class Machine(RuleBasedStateMachine):
    """Events are in the batch that follows their commit: of every consumer, once, and in no other."""

    def __init__(self, queue: Queue, sessions: list[Connection]) -> None:
        super().__init__()
        self.queue = queue
        self.sessions = sessions
        self.open: list[list[str]] = [[] for _ in sessions]
        self.committed: list[str] = []
        self.ticked: list[int] = [0]
        """How many events were committed at each tick."""
        self.positions = dict.fromkeys(CONSUMERS, 0)
        self.sent = 0

    @rule(session=st.integers(0, SESSIONS - 1), count=st.integers(1, 3))
    def send(self, session: int, count: int) -> None:
        data = [f"event-{self.sent + number}" for number in range(count)]
        self.sent += count
        self.queue.insert(*data, on=self.sessions[session])
        self.open[session] += data

    @rule(session=st.integers(0, SESSIONS - 1), kept=st.sampled_from([True, True, False]))
    def end(self, session: int, kept: bool) -> None:
        if kept:
            self.sessions[session].commit()
            self.committed += self.open[session]
        else:
            self.sessions[session].rollback()
        self.open[session] = []

    @rule()
    def tick(self) -> None:
        self.queue.tick()
        self.ticked.append(len(self.committed))

    @rule()
    def rotate(self) -> None:
        self.queue.rotate()

    def _expected(self, consumer: str) -> list[str]:
        position = self.positions[consumer]
        return self.committed[self.ticked[position] : self.ticked[position + 1]]

    @precondition(lambda self: len(self.ticked) > 1)
    @rule(consumer=st.sampled_from(CONSUMERS), finished=st.sampled_from([True, True, False]))
    def read(self, consumer: str, finished: bool) -> None:
        batch = self.queue.open(consumer)
        if self.positions[consumer] == len(self.ticked) - 1:
            assert batch is None
            return
        assert batch is not None
        assert sorted(self.queue.data(batch)) == sorted(self._expected(consumer))
        if finished:
            assert self.queue.finish(batch) == 1
            self.positions[consumer] += 1

    def teardown(self) -> None:
        for session in range(SESSIONS):
            self.end(session, True)
        self.tick()
        for consumer in CONSUMERS:
            left = self.committed[self.ticked[self.positions[consumer]] :]
            assert sorted(self.queue.drain(consumer)) == sorted(left)
        self.queue.connection.close()


@pytest.fixture
def sessions(streams_dsn: str) -> Iterator[list[Connection]]:
    made = [psycopg.connect(streams_dsn) for _ in range(SESSIONS)]
    yield made
    for each in made:
        each.close()


@pytest.mark.hypothesis
def test_a_stream_behaves_like_its_model(streams_dsn: str, sessions: list[Connection]) -> None:
    def make() -> Machine:
        for session in sessions:
            session.rollback()
        with queue_of(streams_dsn, *CONSUMERS) as queue:
            # Closed at the end of the example, not of this block.
            return Machine(Queue(psycopg.connect(streams_dsn, autocommit=True), queue.name), sessions)

    chosen = settings(
        max_examples=examples(16), stateful_step_count=25, deadline=None, database=None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    run_state_machine_as_test(make, settings=chosen)  # type: ignore[arg-type]  # not a class

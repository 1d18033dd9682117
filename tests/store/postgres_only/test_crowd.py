"""Everyone does everything at once; in the end every message is accounted for exactly once."""

from __future__ import annotations

import asyncio
import random
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field

import pytest

from penstock.clock import FakeClock
from penstock.errors import MoveInProgress, PenstockError, QueueNotFound
from penstock.model import Message, Outcome, Sent, TenantId
from penstock.store.postgres import connections
from penstock.store.postgres.store import PostgresStore
from tests.store.caller import Caller

NODES = 3
WORKERS = 9
STEPS = 70

PLAIN, POISONED, ORDERED, POISONED_FIFO = "plain", "poisoned", "ordered.fifo", "poisoned.fifo"
QUEUES = [PLAIN, POISONED, ORDERED, POISONED_FIFO]
DEAD = {POISONED: "dead", POISONED_FIFO: "dead.fifo"}
CHURN = "churn"
"""Purged, dropped and made again by anyone at any time: only errors that say so are allowed there."""
GROUPS = "xyz"


@dataclass
class Ledger:
    """What callers were told, and what must follow from it."""

    clock: FakeClock
    group_of: dict[int, str] = field(default_factory=dict)
    """Every message acknowledged, with the group it was sent to."""
    finishing: set[int] = field(default_factory=set)
    """Someone has asked to delete it, or to release it early."""
    done: dict[int, int] = field(default_factory=dict)
    """Messages deleted, with the lease that did it."""
    held: dict[str, dict[int, Message]] = field(default_factory=lambda: defaultdict(dict))
    """The last delivery of each message, by queue."""

    def sent(self, queue: str, group: str, answers: list[Sent | PenstockError]) -> None:
        for answer in answers:
            assert isinstance(answer, Sent), answer
            self.group_of[answer.id] = f"{queue} {group}"

    def received(self, queue: str, messages: list[Message]) -> None:
        batches: dict[str, list[Message]] = defaultdict(list)
        for message in messages:
            assert message.lease <= self.done.get(message.id, message.lease), "deleted, and received again"
            batches[f"{queue} {message.group_id}"].append(message)
            if (earlier := self.held[queue].get(message.id)) is not None:
                self._not_both(earlier, message)
        if queue == ORDERED:
            for group, batch in batches.items():
                self._in_order(group, batch)
        for message in messages:
            self.held[queue][message.id] = message

    def deleted(self, message: Message) -> None:
        assert message.id not in self.done, "deleted twice"
        self.done[message.id] = message.lease

    def _not_both(self, one: Message, other: Message) -> None:
        """Answers may overtake each other; but two deliveries whose time is not up cannot both be right."""
        if one.id not in self.finishing:
            assert min(one.visible_at, other.visible_at) <= self.clock.now(), "received twice at once"

    def _in_order(self, group: str, batch: list[Message]) -> None:
        ids = [message.id for message in batch]
        assert ids == sorted(ids)
        for other in self.held[ORDERED].values():
            # What came back early of a batch may be received again; what follows the batch may not.
            if f"{ORDERED} {other.group_id}" == group and (other.id < ids[-1] or batch[0].receives == 1):
                self._not_both(other, batch[0])
        earlier = {found for found, where in self.group_of.items() if where == group and found < max(ids)}
        assert earlier <= {*ids, *self.finishing, *self.done}, "an older message of the group was passed over"


class Worker:
    def __init__(self, caller: Caller, ledger: Ledger, seed: int) -> None:
        self.caller = caller
        self.store = caller.store
        self.tenant = caller.tenant
        self.clock = caller.clock
        self.ledger = ledger
        self.random = random.Random(seed)
        self.mine: list[tuple[str, Message]] = []

    async def run(self, steps: int) -> None:
        acts: list[tuple[Callable[[], Awaitable[None]], int]] = [
            (self.send, 30),
            (self.receive, 40),
            (self.delete, 30),
            (self.hide, 8),
            (self.churn, 12),
            (self.redrive, 6),
            (self.upkeep, 6),
            (self.look, 6),
        ]
        for act in self.random.choices([act for act, _ in acts], [weight for _, weight in acts], k=steps):
            self.clock.advance(seconds=self.random.choice([0, 0, 0.05, 0.5]))
            await act()

    async def send(self) -> None:
        queue, group = self.random.choice(QUEUES), self.random.choice(GROUPS)
        entries = [
            self.caller.entry(queue, "body", group_id=group, dedup_id=f"{self.random.getrandbits(64):x}")
            for _ in range(self.random.randint(1, 4))
        ]
        self.ledger.sent(queue, group, await self.store.send_many(entries, self.clock.now()))

    async def receive(self) -> None:
        queue = self.random.choice([*QUEUES, *DEAD.values()])
        messages = await self.caller.receive(
            queue, self.random.randint(1, 6), visibility_timeout_s=self.random.randint(1, 4)
        )
        self.ledger.received(queue, messages)
        self.mine += [(queue, message) for message in messages]

    async def delete(self) -> None:
        taken = [self.mine.pop(self.random.randrange(len(self.mine))) for _ in range(min(4, len(self.mine)))]
        if not taken:
            return
        handles = [self.caller.handle(queue, message) for queue, message in taken]
        self.ledger.finishing |= {message.id for _, message in taken}
        finish = self.random.choice([self.store.delete_many, self.store.archive_many])
        for (queue, message), outcome in zip(taken, await finish(handles, self.clock.now()), strict=True):
            assert isinstance(outcome, Outcome)
            assert outcome is not Outcome.EXPIRED or queue.endswith(".fifo")
            if outcome is Outcome.DONE:
                self.ledger.deleted(message)

    async def hide(self) -> None:
        if self.mine:
            queue, message = self.random.choice(self.mine)
            self.ledger.finishing.add(message.id)
            answer = await self.caller.hide(queue, message, self.random.choice([-1, 0, 1, 3]))
            assert not isinstance(answer, PenstockError)

    async def churn(self) -> None:
        match self.random.randrange(6):
            case 0:
                await unless_gone(self.caller.make_queue(CHURN))
            case 1:
                await self.store.drop_queue(self.tenant, CHURN)
            case 2:
                await unless_gone(self.store.purge_queue(self.tenant, CHURN))
            case 3:
                [answer] = await self.store.send_many([self.caller.entry(CHURN, "x")], self.clock.now())
                assert isinstance(answer, Sent | QueueNotFound)
            case _:
                found = await self.caller.ask(CHURN, 5)
                if isinstance(found, PenstockError):
                    assert isinstance(found, QueueNotFound)
                    return
                outcomes = await self.caller.delete(CHURN, *found.messages) if found.messages else []
                assert all(isinstance(outcome, Outcome | QueueNotFound) for outcome in outcomes)

    async def redrive(self) -> None:
        queue = self.random.choice(list(DEAD))
        try:
            await self.caller.start_move(DEAD[queue], queue)
        except MoveInProgress:
            await self.store.run_moves(self.clock.now())

    async def upkeep(self) -> None:
        await self.store.sweep(self.clock.now(), 100)

    async def look(self) -> None:
        await self.caller.peek(self.random.choice(QUEUES), 5)
        await self.store.queue_counts(self.tenant, None, self.clock.now())


@pytest.fixture
async def nodes(dsn: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[list[PostgresStore]]:
    """Nodes that try nothing twice: a deadlock is an error here."""
    monkeypatch.setattr(connections, "RETRIES", 1)
    stores = [PostgresStore(dsn, max_connections=4) for _ in range(NODES)]
    for store in stores:
        await store.open()
    yield stores
    for store in stores:
        await store.close()


@pytest.mark.parametrize("seed", range(3))
async def test_every_message_is_delivered_and_deleted_once_or_still_there(
    nodes: list[PostgresStore], tenant: TenantId, caller: Caller, clock: FakeClock, seed: int
) -> None:
    await make_queues(caller)
    ledger = Ledger(clock)
    workers = [
        Worker(Caller(nodes[number % NODES], tenant, clock), ledger, seed * 1000 + number) for number in range(WORKERS)
    ]

    await asyncio.gather(*(worker.run(STEPS) for worker in workers))

    present = await everything(caller, clock)
    assert len(ledger.group_of) > 100
    assert Counter(ledger.done.keys()) + present == Counter(ledger.group_of.keys())


async def unless_gone(call: Awaitable[object]) -> None:
    with suppress(QueueNotFound):
        await call


async def make_queues(caller: Caller) -> None:
    for name in (*DEAD.values(), PLAIN, ORDERED, CHURN):
        await caller.make_queue(name)
    for name, dead in DEAD.items():
        await caller.make_queue(name, max_receives=3, dead_letter_queue=dead)


async def everything(caller: Caller, clock: FakeClock) -> Counter[int]:
    """Drain all queues, once every lease has ended: what cannot be received is lost."""
    found: Counter[int] = Counter()
    while True:
        clock.advance(seconds=3600)
        before = found.total()
        await caller.run_moves()
        for queue in (*QUEUES, *DEAD.values()):
            while messages := await caller.receive(queue, 100):
                found.update(message.id for message in messages)
                assert set(await caller.delete(queue, *messages)) == {Outcome.DONE}
        if found.total() == before:
            break
    for queue in (*QUEUES, *DEAD.values()):
        assert (await caller.counts(queue)).total == 0
    return found

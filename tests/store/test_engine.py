"""The engine over every store: waiting receivers, shared claims, callers who leave."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from uuid import uuid4

import pytest

from penstock.engine import Engine
from penstock.errors import Invalid, InvalidName, PenstockError, QueueExists, QueueFull, QueueNotFound, Unavailable
from penstock.model import Handle, Message, Outcome, Receive, Send, Sent, TenantId
from penstock.model.jobs import LeaseRequest, NewJob
from penstock.store import Store

SOON = 1.5
"""Seconds within which a woken receiver answers; less than it takes to look again unwoken."""


class Queue:
    """One queue of one tenant, through the engine and its real clock."""

    def __init__(self, engine: Engine, tenant: TenantId, name: str) -> None:
        self.engine, self.tenant, self.name = engine, tenant, name

    async def send(self, body: str, **fields: object) -> Sent:
        entry = Send(tenant=self.tenant, queue=self.name, body=body, **fields)  # type: ignore[arg-type]
        return await self.engine.messages.send(entry)

    async def receive(self, limit: int = 1, wait_s: float = 0, **fields: object) -> list[Message]:
        request = Receive(tenant=self.tenant, queue=self.name, limit=limit, **fields)  # type: ignore[arg-type]
        return await self.engine.messages.receive(request, wait_s)

    def waiting(self, wait_s: float = 20, **fields: object) -> asyncio.Task[list[Message]]:
        return asyncio.create_task(self.receive(wait_s=wait_s, **fields))  # type: ignore[arg-type]

    def handle(self, message: Message) -> Handle:
        return Handle(tenant=self.tenant, queue=self.name, id=message.id, lease=message.lease)

    async def asleep(self, count: int = 1) -> None:
        """Return when so many receivers wait."""
        waiters = self.engine.messages._waiters
        async with asyncio.timeout(5):
            while len(waiters._queues.get((self.tenant, self.name), ())) < count:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
        # Joined before they look: give the look time to come back empty.
        for batchers in (self.engine.messages._receives, self.engine.messages._changes):
            await batchers.drain()


@pytest.fixture(params=[True, False], ids=["batched", "unbatched"])
async def engine(store: Store, request: pytest.FixtureRequest) -> AsyncIterator[Engine]:
    engine = Engine(store, batching=request.param)
    await store.watch(engine.messages.arrived)
    yield engine
    await engine.messages.drain()


@pytest.fixture
async def queue(engine: Engine, request: pytest.FixtureRequest) -> Queue:
    tenant = await engine.tenants.create(f"tenant-{uuid4().hex}")
    name = getattr(request, "param", "orders")
    await engine.queues.create(tenant.id, name, {})
    return Queue(engine, tenant.id, name)


def bodies(messages: list[Message]) -> list[str]:
    return [message.body for message in messages]


async def test_a_send_wakes_a_waiting_receiver(queue: Queue) -> None:
    waiting = queue.waiting()
    await queue.asleep()

    await queue.send("hello")

    assert bodies(await asyncio.wait_for(waiting, SOON)) == ["hello"]


async def test_waiting_ends_empty_when_the_time_is_over(queue: Queue) -> None:
    start = asyncio.get_running_loop().time()

    assert await queue.receive(wait_s=0.2) == []

    assert 0.2 <= asyncio.get_running_loop().time() - start < 0.2 + SOON


async def test_a_delayed_message_wakes_a_receiver_when_it_is_due(queue: Queue) -> None:
    waiting = queue.waiting()
    await queue.asleep()

    await queue.send("later", delay_s=1)

    assert bodies(await asyncio.wait_for(waiting, 1 + SOON)) == ["later"]


async def test_a_released_message_wakes_a_receiver(queue: Queue) -> None:
    await queue.send("hello")
    [message] = await queue.receive()
    waiting = queue.waiting()
    await queue.asleep()

    await queue.engine.messages.change_visibility(queue.handle(message), 0)

    assert bodies(await asyncio.wait_for(waiting, SOON)) == ["hello"]


async def test_an_expired_lease_wakes_a_receiver(queue: Queue) -> None:
    await queue.send("hello")
    await queue.receive(visibility_timeout_s=1)
    waiting = queue.waiting()

    [message] = await asyncio.wait_for(waiting, 1 + SOON)

    assert message.receives == 2


@pytest.mark.parametrize("queue", ["orders.fifo"], indirect=True)
async def test_finishing_a_fifo_group_wakes_a_receiver(queue: Queue) -> None:
    await queue.send("first", group_id="g", dedup_id="1")
    await queue.send("second", group_id="g", dedup_id="2")
    [first] = await queue.receive()
    waiting = queue.waiting()
    await queue.asleep()

    await queue.engine.messages.delete(queue.handle(first))

    assert bodies(await asyncio.wait_for(waiting, SOON)) == ["second"]


async def test_waiting_receivers_share_what_comes(queue: Queue) -> None:
    waiting = [queue.waiting() for _ in range(5)]
    await queue.asleep(5)

    for number in range(5):
        await queue.send(str(number))

    found = await asyncio.wait_for(asyncio.gather(*waiting), SOON)
    assert sorted(body for messages in found for body in bodies(messages)) == ["0", "1", "2", "3", "4"]
    assert all(len(messages) == 1 for messages in found)


async def test_a_receiver_that_leaves_takes_nothing_with_it(queue: Queue) -> None:
    waiting = queue.waiting()
    await queue.asleep()

    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await queue.send("hello")

    assert bodies(await queue.receive(wait_s=1)) == ["hello"]


async def test_a_receiver_cancelled_in_the_middle_of_its_claim_gives_back(queue: Queue) -> None:
    await queue.send("hello")
    claiming = asyncio.create_task(queue.receive())
    # Let the claim be submitted, and leave before its answer can arrive.
    messages = queue.engine.messages
    submitted = (lambda: messages._mixed._runners) if messages._mixed else (lambda: messages._receives._shared._tasks)
    while not submitted():  # noqa: ASYNC110
        await asyncio.sleep(0)
    claiming.cancel()

    assert bodies(await queue.receive(wait_s=5)) == ["hello"]


async def test_stopping_goes_on_when_the_job_of_a_worker_that_left_cannot_be_given_back(
    engine: Engine, tenant: TenantId, monkeypatch: pytest.MonkeyPatch
) -> None:
    leased = asyncio.Event()
    plain = engine.store.jobs.lease_many

    async def lease_many(*arguments: object) -> object:
        leased.set()
        return await plain(*arguments)  # type: ignore[arg-type]

    async def release_many(*_: object) -> None:
        raise Unavailable

    monkeypatch.setattr(engine.store.jobs, "lease_many", lease_many)
    monkeypatch.setattr(engine.store.jobs, "release_many", release_many)
    await engine.jobs.enqueue(NewJob(tenant=tenant, queue="work", payload="{}"))
    request = LeaseRequest(tenant=tenant, queue="work", lease_s=30, workers=["ada"])
    leasing = asyncio.create_task(engine.jobs.lease(request))
    await leased.wait()
    leasing.cancel()

    await engine.jobs.drain()


async def test_stopping_lets_waiting_receivers_go(queue: Queue) -> None:
    waiting = queue.waiting()
    await queue.asleep()

    await asyncio.wait_for(queue.engine.messages.drain(), SOON)

    assert await asyncio.wait_for(waiting, SOON) == []


async def test_many_receivers_at_once_never_share_a_message(queue: Queue) -> None:
    await asyncio.gather(*(queue.send(str(number)) for number in range(40)))

    found = await asyncio.gather(*(queue.receive(limit=1 + number % 3) for number in range(30)))

    ids = [message.id for messages in found for message in messages]
    assert len(ids) == len(set(ids)) == 40
    assert all(len(messages) <= 1 + number % 3 for number, messages in enumerate(found))


async def test_receivers_of_one_batch_may_want_different_things(queue: Queue) -> None:
    await asyncio.gather(*(queue.send(str(number)) for number in range(4)))

    short, long, absent = await asyncio.gather(
        queue.receive(limit=2, visibility_timeout_s=10),
        queue.receive(limit=2, visibility_timeout_s=1000),
        Queue(queue.engine, queue.tenant, "absent").receive(),
        return_exceptions=True,
    )

    assert isinstance(absent, QueueNotFound)
    assert not isinstance(short, BaseException)
    assert not isinstance(long, BaseException)
    assert (long[0].visible_at - short[0].visible_at).total_seconds() > 900


@pytest.mark.parametrize("queue", ["orders.fifo"], indirect=True)
async def test_fifo_receivers_of_one_batch_do_not_share_a_group(queue: Queue) -> None:
    for number in range(6):
        await queue.send(str(number), group_id="ab"[number % 2], dedup_id=str(number))

    found = await asyncio.gather(*(queue.receive(limit=1) for _ in range(4)))

    assert sorted(bodies([message for messages in found for message in messages])) == ["0", "1"]


async def test_a_bad_entry_of_a_batch_fails_alone(queue: Queue) -> None:
    def entry(**fields: object) -> Send:
        return Send(tenant=queue.tenant, **({"queue": queue.name, "body": "x"} | fields))  # type: ignore[arg-type]

    results = await queue.engine.messages.send_batch(
        [entry(), entry(queue="absent"), entry(queue="no good"), entry(body="\0"), entry(delay_s=-1), entry()]
    )

    kinds = [type(result) for result in results]
    assert kinds == [Sent, QueueNotFound, InvalidName, Invalid, Invalid, Sent]
    assert len(await queue.receive(limit=10)) == 2


async def test_a_full_queue_says_so(engine: Engine, queue: Queue) -> None:
    await engine.queues.update(queue.tenant, queue.name, {"max_length": 2})

    results = await asyncio.gather(*(queue.send(str(number)) for number in range(4)), return_exceptions=True)

    assert sorted(type(result).__name__ for result in results) == ["QueueFull", "QueueFull", "Sent", "Sent"]
    with pytest.raises(QueueFull):
        await queue.send("one more")


async def test_creating_a_queue_again_is_fine_while_what_is_given_agrees(engine: Engine, queue: Queue) -> None:
    _, created = await engine.queues.create(queue.tenant, queue.name, {"visibility_timeout_s": 30})
    assert not created

    with pytest.raises(QueueExists) as raised:
        await engine.queues.create(queue.tenant, queue.name, {"visibility_timeout_s": 31})

    assert raised.value.field == "visibility_timeout_s"


@pytest.mark.parametrize(
    ("name", "settings", "field"),
    [
        ("orders", {"delay_s": -1}, "delay_s"),
        ("orders", {"lifo": True, "retention_s": 1}, "retention_s"),
        ("orders.fifo", {"lifo": True}, "lifo"),
        ("orders", {"content_dedup": True}, "content_dedup"),
        ("orders", {"dead_letter_queue": "dead"}, "max_receives"),
        ("orders", {"dead_letter_queue": "dead.fifo", "max_receives": 1}, "dead_letter_queue"),
        ("orders", {"max_length": 0}, "max_length"),
        ("a" * 81, {}, "name"),
        ("no/slash", {}, "name"),
        ("dot.dot", {}, "name"),
        ("", {}, "name"),
        ("new\n", {}, "name"),
    ],
)
async def test_settings_that_make_no_sense_are_refused(
    engine: Engine, queue: Queue, name: str, settings: dict[str, object], field: str
) -> None:
    with pytest.raises(PenstockError) as raised:
        await engine.queues.create(queue.tenant, name, settings)

    assert isinstance(raised.value, Invalid)
    assert raised.value.field == field


async def test_deleting_through_a_stale_receipt_changes_nothing(queue: Queue) -> None:
    await queue.send("hello")
    [old] = await queue.receive(visibility_timeout_s=0)
    [new] = await queue.receive()

    assert await queue.engine.messages.delete(queue.handle(old)) is Outcome.STALE
    assert await queue.engine.messages.delete(queue.handle(new)) is Outcome.DONE


async def test_numbers_are_kept(queue: Queue) -> None:
    await queue.send("hello")
    await queue.receive(visibility_timeout_s=0)
    [message] = await queue.receive()
    await queue.engine.messages.delete(queue.handle(message))

    metrics, labels = queue.engine.metrics, (str(queue.tenant), queue.name)
    assert metrics.sent.values[labels] == 1
    assert metrics.received.values[labels] == 2
    assert metrics.redelivered.values[labels] == 1
    assert metrics.deleted.values[labels] == 1
    assert sum(metrics.age_seconds.values[labels][:-1]) == 1

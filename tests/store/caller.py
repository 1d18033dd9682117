"""A caller of one tenant: the store's verbs with the batch of one and the time filled in."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from penstock.clock import FakeClock
from penstock.errors import PenstockError
from penstock.model import (
    Handle,
    Message,
    MoveTask,
    Outcome,
    QueueCounts,
    QueueSettings,
    Receive,
    Received,
    Send,
    Sent,
    TenantId,
)
from penstock.store import Store


class Caller:
    def __init__(self, store: Store, tenant: TenantId, clock: FakeClock) -> None:
        self.store = store
        self.tenant = tenant
        self.clock = clock
        self._made = 0

    async def make_queue(self, name: str | None = None, *, fifo: bool = False, **settings: Any) -> str:
        """Create a queue; a FIFO one without a name deduplicates by nothing but the ids it is given."""
        self._made += 1
        name = name or f"queue-{self._made}" + (".fifo" if fifo else "")
        await self.store.create_queue(self.tenant, name, QueueSettings(**settings), self.clock.now())
        return name

    def entry(self, queue: str, body: str, **fields: Any) -> Send:
        """To FIFO queues each entry goes with a deduplication id of its own, unless the test has one."""
        if queue.endswith(".fifo") and "dedup_id" not in fields:
            self._made += 1
            fields["dedup_id"] = f"dedup-{self._made}"
        return Send(tenant=self.tenant, queue=queue, body=body, **fields)

    async def send_one(self, queue: str, body: str, **fields: Any) -> Sent | PenstockError:
        [answer] = await self.store.send_many([self.entry(queue, body, **fields)], self.clock.now())
        return answer

    async def send(self, queue: str, *bodies: str, **fields: Any) -> list[int]:
        """Send what must succeed; the ids."""
        answers = await self.store.send_many([self.entry(queue, body, **fields) for body in bodies], self.clock.now())
        return [sent_id(answer) for answer in answers]

    async def ask(self, queue: str, limit: int = 1, **fields: Any) -> Received | PenstockError:
        request = Receive(tenant=self.tenant, queue=queue, limit=limit, **fields)
        [answer] = await self.store.receive_many([request], self.clock.now())
        return answer

    async def receive(self, queue: str, limit: int = 1, **fields: Any) -> list[Message]:
        return received(await self.ask(queue, limit, **fields)).messages

    async def receive_one(self, queue: str, **fields: Any) -> Message:
        [message] = await self.receive(queue, **fields)
        return message

    async def bodies(self, queue: str, limit: int = 100, **fields: Any) -> list[str]:
        return [message.body for message in await self.receive(queue, limit, **fields)]

    async def peek(self, queue: str, limit: int = 100, **options: Any) -> list[str]:
        messages = await self.store.peek(self.tenant, queue, limit, self.clock.now(), **options)
        return [message.body for message in messages]

    def handle(self, queue: str, message: Message | int, *, lease: int | None = None) -> Handle:
        if isinstance(message, Message):
            return Handle(tenant=self.tenant, queue=queue, id=message.id, lease=message.lease)
        return Handle(tenant=self.tenant, queue=queue, id=message, lease=lease)

    async def delete(self, queue: str, *messages: Message | int) -> list[Outcome | PenstockError]:
        return await self.store.delete_many([self.handle(queue, message) for message in messages], self.clock.now())

    async def hide(
        self, queue: str, message: Message | int, seconds: int
    ) -> tuple[Outcome, datetime | None] | PenstockError:
        change = (self.handle(queue, message), seconds)
        [answer] = await self.store.change_visibility_many([change], self.clock.now())
        return answer

    async def release(self, queue: str, message: Message) -> None:
        assert await self.hide(queue, message, 0) == (Outcome.DONE, self.clock.now())

    async def counts(self, queue: str) -> QueueCounts:
        [(tenant, counts)] = await self.store.queue_counts(self.tenant, [queue], self.clock.now())
        assert tenant == self.tenant
        return counts

    async def state(self, queue: str) -> tuple[int, int, int]:
        """Visible, in flight, delayed."""
        counts = await self.counts(queue)
        return counts.visible, counts.in_flight, counts.delayed

    async def sweep(self) -> int:
        """Sweep until nothing is left to sweep."""
        removed = 0
        while swept := await self.store.sweep(self.clock.now(), 1000):
            removed += swept
        return removed

    async def start_move(self, source: str, destination: str | None = None, rate: int | None = None) -> MoveTask:
        return await self.store.start_move(self.tenant, source, destination, rate, self.clock.now())

    async def run_moves(self) -> list[str]:
        """One step of every task; which of this tenant's queues received something."""
        _, receivers = await self.store.run_moves(self.clock.now())
        return [queue for tenant, queue in receivers if tenant == self.tenant]

    async def last_move(self, source: str) -> MoveTask:
        [task] = await self.store.list_moves(self.tenant, source, 1)
        return task


def sent_id(answer: Sent | PenstockError) -> int:
    assert isinstance(answer, Sent), answer
    return answer.id


def received(answer: Received | PenstockError) -> Received:
    assert isinstance(answer, Received), answer
    return answer


def failed(answer: object, error: type[PenstockError], field: str | None = None) -> bool:
    """The entry's answer is exactly this error, about this field."""
    assert type(answer) is error, answer
    assert isinstance(answer, PenstockError)
    return answer.field == field

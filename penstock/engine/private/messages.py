"""Messages of private queues, in ordinary queues of a tenant that no token belongs to.

A queue is named by the number of its record, which tells nothing of the record's ids. It is made by the first send.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

from penstock import limits
from penstock.clock import Clock
from penstock.engine.checks import check_range
from penstock.engine.private.queues import PrivateQueues, dedup_id
from penstock.engine.private.signatures import Proof
from penstock.engine.queues import receipts
from penstock.engine.queues.messages import Messages
from penstock.engine.queues.queues import Queues
from penstock.engine.topics.topics import Topics
from penstock.engine.topics.webhooks import new_secret
from penstock.engine.waiting import Expectations, Key, Look, Waiters
from penstock.errors import Conflict, Invalid, QueueNotFound
from penstock.model import Handle, Message, Outcome, Receive, Send, TenantId
from penstock.model.private import PrivateRecord, PrivateStatus
from penstock.model.topics import NewSubscription, Publish
from penstock.store import Store

TENANT = "@private"
"""A name no tenant can be given, so no token reaches its queues."""
SETTINGS = {"max_length": 100_000}
DEDUP_WINDOW_S = 2 * limits.PRIVATE_CLOCK_SKEW_S


class PrivateMessages:
    def __init__(
        self,
        private: PrivateQueues,
        store: Store,
        clock: Clock,
        waiters: Waiters,
        messages: Messages,
        queues: Queues,
        topics: Topics,
    ) -> None:
        self._private = private
        self._store = store
        self._clock = clock
        self._waiters = waiters
        self._messages = messages
        self._queues = queues
        self._topics = topics
        self._tenant: TenantId | None = None
        self._expectations = Expectations(self._tell)

    async def send(self, record: PrivateRecord, body: str, proof: Proof | None, delay_s: int | None = None) -> None:
        _check_open(record)
        entry = Send(tenant=await self.tenant(), queue=queue_name(record), body=body, delay_s=delay_s)
        entry.dedup_id = dedup_id(proof)
        entry.dedup_window_s = DEDUP_WINDOW_S if entry.dedup_id is not None else None
        try:
            await self._messages.send(entry)
        except QueueNotFound:
            # The first send, or the queue was deleted on another node a moment ago: only the database knows.
            _check_open(await self._private.reload(record))
            await self._queues.create(entry.tenant, entry.queue, SETTINGS)
            await self._messages.send(entry)
        if record.webhook_key is not None:
            await self._topics.publish(
                Publish(tenant=entry.tenant, routing_key=_routing_key(record), body='{"waiting":true}', json=True)
            )

    async def receive(
        self, record: PrivateRecord, *, limit: int = 1, wait_s: float = 0.0, visibility_timeout_s: int | None = None
    ) -> list[tuple[str, Message]]:
        """Messages with their receipts."""
        _check_unblocked(record)
        name = queue_name(record)
        request = Receive(
            tenant=await self.tenant(), queue=name, limit=limit, visibility_timeout_s=visibility_timeout_s
        )
        try:
            found = await self._messages.receive(request, wait_s)
        except QueueNotFound:
            await self._private.reload(record)
            await self._queues.create(request.tenant, name, SETTINGS)
            found = await self._messages.receive(request, wait_s)
        return [(receipts.encode(name, message.id, message.lease), message) for message in found]

    async def delete(self, record: PrivateRecord, receipt: str) -> Outcome:
        name = queue_name(record)
        message_id, lease = receipts.decode(name, receipt)
        return await self._messages.delete(Handle(tenant=await self.tenant(), queue=name, id=message_id, lease=lease))

    async def is_waiting(self, record: PrivateRecord, wait_s: float = 0.0) -> bool:
        """Whether a message can be received; with `wait_s`, as soon as one can, without taking it."""
        check_range("wait", wait_s, limits.RECEIVE_WAIT_S)
        _check_unblocked(record)
        key = (await self.tenant(), queue_name(record))

        async def look() -> Look[bool]:
            found = await self._has_message(key)
            return Look(found, not found)

        found = await self._waiters.poll(key, wait_s, look, self._expectations.expect)
        if found:
            # A wake-up may have been meant for a receiver, and this one takes nothing.
            self._waiters.wake(key)
        return found

    async def set_webhook(self, record: PrivateRecord, url: str | None) -> str | None:
        """Tell an endpoint whenever something is sent; the secret its requests are signed with."""
        tenant = await self.tenant()
        if record.webhook_key is not None:
            await self._topics.unsubscribe(tenant, record.webhook_key)
        if url is None:
            await self._private.set_webhook(record, None)
            return None
        scheme = urlsplit(url).scheme.lower()
        if scheme not in ("http", "https") or not url.isascii():
            raise Invalid("the URL must begin with http:// or https://", field="url")
        secret = new_secret()
        subscription, _ = await self._topics.subscribe(
            NewSubscription(
                tenant=tenant, pattern=_routing_key(record), protocol=scheme, endpoint=url, secret=secret,
                attributes={"RawMessageDelivery": "true"},
            )
        )  # fmt: skip
        await self._private.set_webhook(record, subscription.key)
        return secret

    async def delete_queue(self, record: PrivateRecord) -> None:
        tenant = await self.tenant()
        await self._private.delete(record)
        if record.webhook_key is not None:
            await self._topics.unsubscribe(tenant, record.webhook_key)
        await self._queues.drop(tenant, queue_name(record))

    async def compact(self, limit: int = 1000) -> int:
        """Remove what was deleted long ago, and any queue that a late send made meanwhile."""
        numbers = await self._private.compact(limit)
        await self._drop(numbers)
        return len(numbers)

    async def tenant(self) -> TenantId:
        if self._tenant is None:
            self._tenant = (await self._store.create_tenant(TENANT, self._clock.now())).id
        return self._tenant

    async def _drop(self, numbers: Sequence[int]) -> None:
        tenant = await self.tenant()
        for number in numbers:
            await self._queues.drop(tenant, f"private-{number}")

    async def _tell(self, key: Key) -> None:
        await self._store.expect(*key, self._clock.now())

    async def _has_message(self, key: Key) -> bool:
        try:
            return bool(await self._messages.peek(*key))
        except QueueNotFound:
            return False


def queue_name(record: PrivateRecord) -> str:
    return f"private-{record.number}"


def _routing_key(record: PrivateRecord) -> str:
    return f"private.{record.number}"


def _check_unblocked(record: PrivateRecord) -> None:
    if record.status is PrivateStatus.BLOCKED:
        raise Conflict(f"the queue is blocked: {record.block_reason}")


def _check_open(record: PrivateRecord) -> None:
    _check_unblocked(record)
    if record.status is PrivateStatus.SUSPENDED:
        raise Conflict("the queue is suspended")

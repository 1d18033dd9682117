"""ReceiveRequestAttemptId: a FIFO receive whose answer got lost may be repeated, and gets the same messages.

Remembered by the process that gave the answer, for as long as AWS does.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from penstock import limits
from penstock.clock import Clock
from penstock.engine.bounded import BoundedCache
from penstock.engine.queues.messages import Messages
from penstock.errors import PenstockError
from penstock.model import Handle, Message, Outcome, Receive, TenantId
from penstock.wire.aws.errors import invalid_value
from penstock.wire.sqs.message_checks import WRONG_TYPE
from penstock.wire.sqs.queue_cache import QueueCache

KEEP = timedelta(minutes=5)
MOST_BYTES = 33_554_432
"""Of all answers that are remembered. One that is forgotten early is received anew, as after five minutes."""

Key = tuple[TenantId, str, str]


class Attempts:
    def __init__(self, messages: Messages, known: QueueCache, clock: Clock) -> None:
        self._messages = messages
        self._known = known
        self._clock = clock
        self._given: BoundedCache[Key, tuple[datetime, list[Message]]] = BoundedCache(MOST_BYTES)

    async def repeat(self, wanted: Receive, attempt: str) -> list[Message] | None:
        """What the attempt got before, hidden for its full time anew; None when any of it has moved on since."""
        _check(wanted.queue, attempt)
        key = wanted.tenant, wanted.queue, attempt
        given = self._given.pop(key)
        if given is None or given[0] <= self._clock.now():
            return None
        ends, messages = given
        timeout_s = wanted.visibility_timeout_s
        if timeout_s is None:
            timeout_s = (await self._known.get(wanted.tenant, wanted.queue)).settings.visibility_timeout_s or 0
        changes = [(_handle(wanted, message), timeout_s) for message in messages]
        for changed in await self._messages.change_visibility_batch(changes):
            if isinstance(changed, PenstockError) or changed[0] is not Outcome.DONE:
                return None
        self._given.put(key, (ends, messages), _size(messages))
        return messages

    def remember(self, wanted: Receive, attempt: str, messages: list[Message]) -> None:
        key = wanted.tenant, wanted.queue, attempt
        self._given.put(key, (self._clock.now() + KEEP, messages), _size(messages))


def _size(messages: list[Message]) -> int:
    """Bytes that keeping these messages takes, about."""
    return sum(
        1000 + 2 * len(message.body) + len(message.attributes or "") + len(message.headers or "")
        for message in messages
    )


def _check(queue: str, attempt: str) -> None:
    if not queue.endswith(".fifo"):
        raise invalid_value(attempt, "ReceiveRequestAttemptId", WRONG_TYPE)
    if limits.GROUP_ID.fullmatch(attempt) is None:
        reason = "ReceiveRequestAttemptId can only include alphanumeric and punctuation characters. 1 to 128 in length."
        raise invalid_value(attempt, "ReceiveRequestAttemptId", reason)


def _handle(wanted: Receive, message: Message) -> Handle:
    return Handle(tenant=wanted.tenant, queue=wanted.queue, id=message.id, lease=message.lease)

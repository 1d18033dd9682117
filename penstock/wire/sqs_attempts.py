"""ReceiveRequestAttemptId: a FIFO receive whose answer got lost may be repeated, and gets the same messages.

Remembered by the process that gave the answer, for as long as AWS does.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from penstock import limits
from penstock.clock import Clock
from penstock.engine.messages import Messages
from penstock.errors import PenstockError
from penstock.model import Handle, Message, Outcome, Receive, TenantId
from penstock.wire.aws_errors import invalid_value
from penstock.wire.sqs_contents import WRONG_TYPE
from penstock.wire.sqs_known import KnownQueues

KEEP = timedelta(minutes=5)
MOST = 10_000

Key = tuple[TenantId, str, str]


class Attempts:
    def __init__(self, messages: Messages, known: KnownQueues, clock: Clock) -> None:
        self._messages = messages
        self._known = known
        self._clock = clock
        self._given: dict[Key, tuple[datetime, list[Message]]] = {}

    async def repeat(self, wanted: Receive, attempt: str) -> list[Message] | None:
        """What the attempt got before, hidden for its full time anew; None when any of it has moved on since."""
        _check(wanted.queue, attempt)
        ends, messages = self._given.pop((wanted.tenant, wanted.queue, attempt), (None, []))
        if ends is None or ends <= self._clock.now():
            return None
        timeout_s = wanted.visibility_timeout_s
        if timeout_s is None:
            timeout_s = (await self._known.get(wanted.tenant, wanted.queue)).settings.visibility_timeout_s
        changes = [(_handle(wanted, message), timeout_s) for message in messages]
        for changed in await self._messages.change_visibility_batch(changes):
            if isinstance(changed, PenstockError) or changed[0] is not Outcome.DONE:
                return None
        self._given[wanted.tenant, wanted.queue, attempt] = (ends, messages)
        return messages

    def remember(self, wanted: Receive, attempt: str, messages: list[Message]) -> None:
        now = self._clock.now()
        if len(self._given) >= MOST:
            self._given = {key: kept for key, kept in self._given.items() if kept[0] > now}
            if len(self._given) >= MOST:
                self._given.clear()
        self._given[wanted.tenant, wanted.queue, attempt] = (now + KEEP, messages)


def _check(queue: str, attempt: str) -> None:
    if not queue.endswith(".fifo"):
        raise invalid_value(attempt, "ReceiveRequestAttemptId", WRONG_TYPE)
    if limits.GROUP_ID.fullmatch(attempt) is None:
        reason = "ReceiveRequestAttemptId can only include alphanumeric and punctuation characters. 1 to 128 in length."
        raise invalid_value(attempt, "ReceiveRequestAttemptId", reason)


def _handle(wanted: Receive, message: Message) -> Handle:
    return Handle(tenant=wanted.tenant, queue=wanted.queue, id=message.id, lease=message.lease)

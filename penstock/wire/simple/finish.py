"""`/delete` and `/change_visibility`: by receipt handle alone, whatever the queue."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from itertools import groupby
from typing import TypeVar

import msgspec

from penstock import limits
from penstock.auth import Principal
from penstock.engine.checks import check_range
from penstock.engine.queues.messages import Changed, Messages
from penstock.errors import MessageNotFound, PenstockError, QueueNotFound
from penstock.model import Handle, Outcome, Scope
from penstock.wire.http.messages import Later, Request, Response
from penstock.wire.simple import types as shapes
from penstock.wire.simple.receipts import QueueNames, decode
from penstock.wire.simple.types import read

Answer = TypeVar("Answer")

_delete = msgspec.json.Decoder(shapes.DeleteRequest)
_change = msgspec.json.Decoder(shapes.ChangeVisibilityRequest)
_CHANGED = Response(200, b'{"result":"ok"}')
_DELETED_ONE = Response(200, b'{"deleted":1}')


class Finishing:
    def __init__(self, messages: Messages, names: QueueNames) -> None:
        self._messages = messages
        self._names = names

    def delete(self, request: Request) -> Awaitable[Response]:
        principal, receipts = request.principal, read(_delete, request.body).receipt_handles
        principal.require(Scope.RECEIVE)
        handle = self._only_handle(principal, receipts[0]) if len(receipts) == 1 else None
        if handle is None:
            return self._delete(principal, receipts)

        def finish(results: Sequence[Outcome | PenstockError]) -> Response | Awaitable[Response]:
            outcome = results[0]
            if outcome is Outcome.DONE:
                return _DELETED_ONE
            if isinstance(outcome, PenstockError) and not isinstance(outcome, QueueNotFound):
                raise outcome
            return self._delete(principal, receipts)

        return Later(self._messages.begin_delete(handle), finish)

    async def _delete(self, principal: Principal, receipts: list[str]) -> Response:
        done = await self._act(principal, receipts, self._messages.delete_batch, _outcome_of_delete)
        return Response(200, b'{"deleted":%d}' % done)

    def _only_handle(self, principal: Principal, receipt: str) -> Handle | None:
        """The message of a receipt that can be of one queue only; None when it takes a closer look."""
        found = decode(receipt)
        if found is None:
            return None
        tag, message_id, lease = found
        names = self._names.known(principal.tenant, tag)
        if len(names) != 1 or not principal.reaches(names[0]):
            return None
        return Handle(tenant=principal.tenant, queue=names[0], id=message_id, lease=lease)

    async def change_visibility(self, request: Request) -> Response:
        given: shapes.ChangeVisibilityRequest = read(_change, request.body)
        seconds, most = given.visibility_timeout, limits.VISIBILITY_TIMEOUT_S[1]
        check_range("visibility_timeout", seconds, (-most, most))

        async def change(handles: Sequence[Handle]) -> list[Changed | PenstockError]:
            return await self._messages.change_visibility_batch([(handle, seconds) for handle in handles])

        await self._act(request.principal, given.receipt_handles, change, _outcome_of_change)
        return _CHANGED

    async def _act(
        self,
        principal: Principal,
        receipts: list[str],
        act: Callable[[Sequence[Handle]], Awaitable[Sequence[Answer]]],
        outcome: Callable[[Answer], Outcome],
    ) -> int:
        """How many messages the receipts matched; `MessageNotFound` when none."""
        principal.require(Scope.RECEIVE)
        check_range("receipt_handles", len(receipts), (1, shapes.MOST))
        left = list(dict.fromkeys(found for found in map(decode, receipts) if found is not None))
        done = 0
        while left:
            handles, of = self._handles(principal, left)
            matched = set()
            for position, answer in zip(of, await _in_groups(handles, act), strict=True):
                if outcome(answer) is Outcome.DONE:
                    matched.add(position)
            done += len(matched)
            left = [receipt for position, receipt in enumerate(left) if position not in matched]
            # A receipt of a queue that only other processes have used: learn the names, and look again.
            if not left or not await self._names.look(principal.tenant):
                break
        if not done:
            raise MessageNotFound("no message matches the receipt handles")
        return done

    def _handles(self, principal: Principal, left: list[tuple[int, int, int]]) -> tuple[list[Handle], list[int]]:
        """A handle for each queue a receipt may be of, and the position of its receipt."""
        handles, of = [], []
        for position, (tag, message_id, lease) in enumerate(left):
            for name in self._names.known(principal.tenant, tag):
                if principal.reaches(name):
                    handles.append(Handle(tenant=principal.tenant, queue=name, id=message_id, lease=lease))
                    of.append(position)
        return handles, of


async def _in_groups(
    handles: list[Handle], act: Callable[[Sequence[Handle]], Awaitable[Sequence[Answer]]]
) -> list[Answer]:
    """Ordinary queues share one statement; a FIFO queue has one of its own, as the engine batches them."""
    if not any(handle.queue.endswith(".fifo") for handle in handles):
        return list(await act(handles)) if handles else []

    def key(position: int) -> str:
        queue = handles[position].queue
        return queue if queue.endswith(".fifo") else ""

    groups = [list(group) for _, group in groupby(sorted(range(len(handles)), key=key), key)]
    answers = await asyncio.gather(*(act([handles[position] for position in group]) for group in groups))
    found = {
        position: answer
        for group, part in zip(groups, answers, strict=True)
        for position, answer in zip(group, part, strict=True)
    }
    return [found[position] for position in range(len(handles))]


def _outcome_of_delete(answer: Outcome | PenstockError) -> Outcome:
    if isinstance(answer, QueueNotFound):
        return Outcome.ABSENT
    if isinstance(answer, PenstockError):
        raise answer
    return answer


def _outcome_of_change(answer: Changed | PenstockError) -> Outcome:
    return _outcome_of_delete(answer if isinstance(answer, PenstockError) else answer[0])

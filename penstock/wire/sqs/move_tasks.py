"""Move tasks: the way back from a dead-letter queue."""

from __future__ import annotations

from base64 import b64decode, b64encode

import msgspec
from msgspec import Struct

from penstock import limits
from penstock.engine.queues.queues import Queues
from penstock.errors import Conflict, QueueNotFound
from penstock.model import MoveState, MoveTask, Scope
from penstock.model.arns import parse_arn, queue_arn
from penstock.model.uuids import number_of, uuid_of
from penstock.wire.aws.errors import AwsError, invalid, missing
from penstock.wire.aws.gateway import Call
from penstock.wire.sqs import types as shapes
from penstock.wire.sqs.errors import sqs_error
from penstock.wire.sqs.names import queue_in_arn

MOST_TASKS = 10
RATE = limits.MOVE_RATE
_LOOK_BACK = 1000


class Handle(Struct, rename="camel"):
    """What a task handle holds, in base64."""

    task_id: str
    source_arn: str


_handle = msgspec.json.Decoder(Handle)


class MoveActions:
    def __init__(self, queues: Queues) -> None:
        self._queues = queues

    async def start(self, call: Call, given: shapes.StartMessageMoveTask) -> shapes.TaskStarted:
        source = await self._queue(call, given.source_arn, "SourceArn")
        call.principal.require(Scope.MANAGE, source)
        destination = None
        if given.destination_arn:
            destination = await self._queue(call, given.destination_arn, "DestinationArn")
            call.principal.require(Scope.MANAGE, destination)
        if not await self._queues.dead_letter_sources(call.tenant, source):
            raise invalid("Source queue must be configured as a Dead Letter Queue.")
        if destination == source:
            raise invalid("Source queue arn and destination queue arn cannot be the same.")
        if destination is not None and destination.endswith(".fifo") != source.endswith(".fifo"):
            raise invalid("The source queue and destination queue must be of the same queue type.")
        rate = given.max_number_of_messages_per_second
        if rate is not None:
            _check_between(rate, RATE, "MaxNumberOfMessagesPerSecond")
        task = await self._queues.start_move(call.tenant, source, destination, rate)
        return shapes.TaskStarted(task_handle=_encode(task, call.region))

    async def cancel(self, call: Call, given: shapes.CancelMessageMoveTask) -> shapes.TaskCancelled:
        if not given.task_handle:
            raise missing("TaskHandle")
        try:
            handle = _handle.decode(b64decode(given.task_handle, validate=True))
        except ValueError:
            raise invalid("Value for parameter TaskHandle is invalid.") from None
        source = await self._queue(call, handle.source_arn, "SourceArn")
        call.principal.require(Scope.MANAGE, source)
        number = number_of(handle.task_id)
        tasks = await self._queues.list_moves(call.tenant, source, _LOOK_BACK)
        if number is None or all(task.id != number for task in tasks):
            raise sqs_error("ResourceNotFoundException", "Task does not exist.")
        try:
            task = await self._queues.cancel_move(call.tenant, number)
        except Conflict:
            raise invalid("Only active tasks can be cancelled.") from None
        return shapes.TaskCancelled(approximate_number_of_messages_moved=task.moved)

    async def list(self, call: Call, given: shapes.ListMessageMoveTasks) -> shapes.TaskList:
        source = await self._queue(call, given.source_arn, "SourceArn")
        call.principal.require(Scope.READ, source)
        limit = 1 if given.max_results is None else given.max_results
        _check_between(limit, (1, MOST_TASKS), "MaxResults")
        tasks = await self._queues.list_moves(call.tenant, source, limit)
        return shapes.TaskList(results=[_task(task, call.region) for task in tasks] or None)

    async def _queue(self, call: Call, arn: str | None, parameter: str) -> str:
        if not arn:
            raise missing(parameter)
        if parse_arn(arn) is None:
            form = "arn:<partition>:<service>:<region>:<account-id>:<resource-id>"
            raise invalid(f"You must use this format to specify the {parameter}: {form}")
        name = queue_in_arn(arn, call.region)
        if name is None:
            raise _absent(parameter)
        try:
            await self._queues.get(call.tenant, name)
        except QueueNotFound:
            raise _absent(parameter) from None
        return name


def _check_between(number: int, bounds: tuple[int, int], parameter: str) -> None:
    if not bounds[0] <= number <= bounds[1]:
        reason = f"You must enter a number that's between {bounds[0]} and {bounds[1]}."
        raise invalid(f"Value for parameter {parameter} is invalid. Reason: {reason}")


def _absent(parameter: str) -> AwsError:
    text = f"The resource that you specified for the {parameter} parameter doesn't exist."
    return sqs_error("ResourceNotFoundException", text)


def _encode(task: MoveTask, region: str) -> str:
    handle = Handle(uuid_of(task.id), queue_arn(region, task.source))
    return b64encode(msgspec.json.encode(handle)).decode()


def _task(task: MoveTask, region: str) -> shapes.Task:
    return shapes.Task(
        task_handle=_encode(task, region) if task.state is MoveState.RUNNING else None,
        status=task.state.upper(),
        source_arn=queue_arn(region, task.source),
        destination_arn=queue_arn(region, task.destination) if task.destination is not None else None,
        max_number_of_messages_per_second=task.rate,
        approximate_number_of_messages_moved=task.moved,
        approximate_number_of_messages_to_move=task.to_move,
        failure_reason=_failure_reason(task),
        started_timestamp=int(task.started_at.timestamp() * 1000),
    )


def _failure_reason(task: MoveTask) -> str | None:
    """The engine says it in words. AWS gives a code: the destination is gone, or a message has no way back."""
    if task.failure is None:
        return None
    return "CouldNotDetermineMessageSource" if task.destination is None else "AWS.SimpleQueueService.NonExistentQueue"

"""The SQS door: its twenty-three actions, and which paths are its own."""

from __future__ import annotations

from penstock.engine import Engine
from penstock.wire.aws.gateway import Action, Service
from penstock.wire.http.messages import Request
from penstock.wire.sqs import types as shapes
from penstock.wire.sqs.cooldowns import Recent
from penstock.wire.sqs.delete import Finishing
from penstock.wire.sqs.errors import explain
from penstock.wire.sqs.in_flight_limit import InFlightLimit
from penstock.wire.sqs.move_tasks import MoveActions
from penstock.wire.sqs.queue_cache import QueueCache
from penstock.wire.sqs.queues import QueueActions
from penstock.wire.sqs.receive import Receiving
from penstock.wire.sqs.receive_attempts import Attempts
from penstock.wire.sqs.send import Sending
from penstock.wire.sqs.tags import TagActions

NAMESPACE = "http://queue.amazonaws.com/doc/2012-11-05/"

_FORM = b"application/x-www-form-urlencoded"


def service(engine: Engine, *, base_url: str | None = None, strict: bool = False) -> Service:
    """SQS in front of an engine. `strict` keeps to the pauses and quotas of AWS that local users rather miss."""
    actions = {action.name: action for action in _actions(engine, base_url, strict)}
    return Service("sqs", "AmazonSQS", NAMESPACE, actions, explain, owns, "2012-11-05", error_detail=True)


def owns(request: Request) -> bool:
    """Whether a path of two segments is a queue's: so it is under an account id, and wherever SQS is spoken."""
    account = request.arguments[0]
    if len(account) == 12 and account.isascii() and account.isdecimal():
        return True
    if request.method == "GET":
        return b"Action=" in request.query
    return b"x-amz-target" in request.found or request.found.get(b"content-type", b"").startswith(_FORM)


def _actions(engine: Engine, base_url: str | None, strict: bool) -> list[Action]:
    known = QueueCache(engine.queues)
    queues = QueueActions(engine, known, base_url, Recent(engine.clock) if strict else None)
    sending = Sending(engine.messages, known)
    attempts = Attempts(engine.messages, known, engine.clock)
    receiving = Receiving(engine.messages, known, attempts, InFlightLimit(engine.queues) if strict else None)
    finishing = Finishing(engine.messages, known)
    whole = engine.messages.whole
    moves = MoveActions(engine.queues)
    tags = TagActions(engine.queues)
    return [
        Action("AddPermission", shapes.AddPermission, tags.add_permission),
        Action("CancelMessageMoveTask", shapes.CancelMessageMoveTask, moves.cancel),
        Action("ChangeMessageVisibility", shapes.ChangeMessageVisibility, finishing.change),
        Action("ChangeMessageVisibilityBatch", shapes.ChangeMessageVisibilityBatch, finishing.change_batch),
        Action("CreateQueue", shapes.CreateQueue, queues.create, everywhere=False),
        Action("DeleteMessage", shapes.DeleteMessage, finishing.delete, begin=finishing.begin_delete),
        Action("DeleteMessageBatch", shapes.DeleteMessageBatch, finishing.delete_batch),
        Action("DeleteQueue", shapes.OfQueue, queues.delete),
        Action("GetQueueAttributes", shapes.GetQueueAttributes, queues.get_attributes),
        Action("GetQueueUrl", shapes.GetQueueUrl, queues.get_url),
        Action("ListDeadLetterSourceQueues", shapes.ListDeadLetterSourceQueues, queues.list_sources),
        Action("ListMessageMoveTasks", shapes.ListMessageMoveTasks, moves.list),
        Action("ListQueueTags", shapes.OfQueue, tags.list_tags),
        Action("ListQueues", shapes.ListQueues, queues.list, everywhere=False),
        Action("PurgeQueue", shapes.OfQueue, queues.purge),
        Action("ReceiveMessage", shapes.ReceiveMessage, receiving.receive, begin=receiving.begin if whole else None),
        Action("RemovePermission", shapes.RemovePermission, tags.remove_permission),
        Action("SendMessage", shapes.SendMessage, sending.send, begin=sending.begin if whole else None),
        Action("SendMessageBatch", shapes.SendMessageBatch, sending.send_batch),
        Action("SetQueueAttributes", shapes.SetQueueAttributes, queues.set_attributes),
        Action("StartMessageMoveTask", shapes.StartMessageMoveTask, moves.start),
        Action("TagQueue", shapes.TagQueue, tags.tag),
        Action("UntagQueue", shapes.UntagQueue, tags.untag),
    ]

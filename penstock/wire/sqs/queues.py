"""Queues: made, found, listed, changed, emptied, deleted."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping, Sequence
from typing import Any

from penstock import limits
from penstock.engine import Engine
from penstock.errors import InvalidName, QueueExists, QueueNotFound
from penstock.model import Queue, Scope
from penstock.wire.aws.errors import AwsError, invalid, missing
from penstock.wire.aws.gateway import Call
from penstock.wire.sqs import types as shapes
from penstock.wire.sqs.attributes import READABLE, Changes, counted, is_true, read_attributes, shown, texts, unknown
from penstock.wire.sqs.cooldowns import Recent
from penstock.wire.sqs.errors import no_such_queue, sqs_error
from penstock.wire.sqs.names import queue_name, queue_url
from penstock.wire.sqs.policies import allows, bad_redrive, read_redrive
from penstock.wire.sqs.queue_cache import QueueCache
from penstock.wire.sqs.tags import check_tags

MOST_RESULTS = 1000

_FIFO_NAME = (
    "The name of a FIFO queue can only include alphanumeric characters, hyphens, or underscores, "
    "must end with .fifo suffix and be 1 to 80 in length."
)


class QueueActions:
    def __init__(self, engine: Engine, known: QueueCache, base_url: str | None, recent: Recent | None) -> None:
        self._queues = engine.queues
        self._known = known
        self._base_url = base_url
        self._recent = recent

    async def create(self, call: Call, given: shapes.CreateQueue) -> shapes.QueueUrl:
        attributes = texts(given.attributes)
        name = _new_name(call, given.queue_name, is_true(attributes.get("FifoQueue")))
        call.principal.require(Scope.MANAGE, name)
        attributes = {key: value for key, value in attributes.items() if value or key not in _EMPTY_MEANS_NONE}
        changes = read_attributes(attributes, fifo=name.endswith(".fifo"), have=None)
        await self._read_redrive(call, name, changes)
        if self._recent is not None:
            self._recent.check_created(call.tenant, name)
        settings = changes.settings | _given_labels(changes, {})
        if given.tags:
            check_tags(given.tags, {}, name)
            settings["tags"] = given.tags
        try:
            queue, created = await self._queues.create(call.tenant, name, settings)
        except QueueExists:
            queue, created = await self._queues.get(call.tenant, name), False
        if not created:
            _compare(queue, attributes, call.region)
        self._known.forget(call.tenant, name)
        return shapes.QueueUrl(queue_url=self._url(call, name))

    async def delete(self, call: Call, given: shapes.OfQueue) -> None:
        name = queue_name(call, given.queue_url)
        call.principal.require(Scope.MANAGE, name)
        if not await self._queues.drop(call.tenant, name):
            raise QueueNotFound(name)
        self._known.forget(call.tenant, name)
        if self._recent is not None:
            self._recent.deleted(call.tenant, name)

    async def purge(self, call: Call, given: shapes.OfQueue) -> None:
        name = queue_name(call, given.queue_url)
        call.principal.require(Scope.MANAGE, name)
        if self._recent is not None:
            await self._queues.get(call.tenant, name)
            self._recent.check_purged(call.tenant, name)
        await self._queues.purge(call.tenant, name)

    async def get_url(self, call: Call, given: shapes.GetQueueUrl) -> shapes.QueueUrl:
        if not given.queue_name:
            raise missing("QueueName")
        if limits.QUEUE_NAME.fullmatch(given.queue_name) is None:
            raise no_such_queue(call)
        call.principal.require(Scope.READ, given.queue_name)
        queue = await self._known.get(call.tenant, given.queue_name)
        return shapes.QueueUrl(queue_url=self._url(call, queue.name))

    async def list(self, call: Call, given: shapes.ListQueues) -> shapes.QueueList:
        call.principal.require(Scope.READ)
        limit = _results(given.max_results)
        after = _page_start(given.next_token)
        prefix = given.queue_name_prefix or ""
        if prefix and limits.QUEUE_NAME.fullmatch(prefix.replace(".", "-")) is None:
            return shapes.QueueList()
        found = await self._queues.list(call.tenant, prefix=prefix, after=after, limit=limit + 1)
        names = [queue.name for queue in found]
        urls = [self._url(call, name) for name in names[:limit] if call.principal.reaches(name)]
        token = _next_page(names, limit) if given.max_results is not None else None
        return shapes.QueueList(queue_urls=urls or None, next_token=token)

    async def list_sources(self, call: Call, given: shapes.ListDeadLetterSourceQueues) -> shapes.SourceList:
        name = queue_name(call, given.queue_url)
        call.principal.require(Scope.READ, name)
        limit = _results(given.max_results)
        after = _page_start(given.next_token)
        found = sorted(source for source in await self._queues.dead_letter_sources(call.tenant, name) if source > after)
        urls = [self._url(call, source) for source in found[:limit] if call.principal.reaches(source)]
        token = _next_page(found, limit) if given.max_results is not None else None
        return shapes.SourceList(queue_urls=urls, next_token=token)

    async def get_attributes(self, call: Call, given: shapes.GetQueueAttributes) -> shapes.AttributeList:
        name = queue_name(call, given.queue_url)
        call.principal.require(Scope.READ, name)
        queue = await self._queues.get(call.tenant, name)
        asked = set(given.attribute_names or ())
        for attribute in given.attribute_names or ():
            if attribute not in READABLE:
                raise unknown(attribute)
        if not asked:
            return shapes.AttributeList()
        found = shown(queue, call.region)
        if "All" in asked or any(attribute.startswith("Approximate") for attribute in asked):
            found |= counted(await self._queues.counts(call.tenant, name))
        chosen = found if "All" in asked else {key: value for key, value in found.items() if key in asked}
        return shapes.AttributeList(attributes=chosen or None)

    async def set_attributes(self, call: Call, given: shapes.SetQueueAttributes) -> None:
        name = queue_name(call, given.queue_url)
        call.principal.require(Scope.MANAGE, name)
        if given.attributes is None:
            raise missing("Attribute.Name" if call.query else "Attributes")
        queue = await self._queues.get(call.tenant, name)
        changes = read_attributes(texts(given.attributes), fifo=queue.fifo, have=shown(queue, call.region))
        await self._read_redrive(call, name, changes)
        settings = changes.settings | _given_labels(changes, queue.settings.labels)
        if settings:
            await self._queues.update(call.tenant, name, settings)
            self._known.forget(call.tenant, name)

    async def _read_redrive(self, call: Call, name: str, changes: Changes) -> None:
        """Turn a RedrivePolicy into settings, once the queue it names is known to be there and willing."""
        text = changes.redrive
        if text is None:
            return
        if not text:
            changes.settings |= {"dead_letter_queue": None, "max_receives": None}
            changes.labels["RedrivePolicy"] = None
            return
        target, count = read_redrive(text, name, call.region)
        # Dead letters are sent there: the caller must be allowed to send to that queue.
        call.principal.require(Scope.SEND, target)
        try:
            queue = await self._queues.get(call.tenant, target)
        except QueueNotFound:
            raise bad_redrive(text, "Dead letter target does not exist.") from None
        if not allows(queue, name, call.region):
            reason = "The dead-letter queue's RedriveAllowPolicy does not allow this source queue."
            raise bad_redrive(text, reason)
        changes.settings |= {"dead_letter_queue": target, "max_receives": count}
        changes.labels["RedrivePolicy"] = text

    def _url(self, call: Call, name: str) -> str:
        return queue_url(call, name, self._base_url)


_EMPTY_MEANS_NONE = ("Policy", "RedrivePolicy", "RedriveAllowPolicy", "KmsMasterKeyId")


def _new_name(call: Call, name: str | None, fifo: bool) -> str:
    if name is None:
        if call.query:
            raise missing("QueueName")
        raise invalid("Value for parameter QueueName is invalid. Reason: Must specify a queue name.")
    if not name:
        raise invalid("Queue name cannot be empty")
    if fifo and not name.endswith(".fifo"):
        raise invalid(_FIFO_NAME)
    if limits.QUEUE_NAME.fullmatch(name) is None or name.endswith(".fifo") != fifo:
        raise InvalidName()
    return name


def _given_labels(changes: Changes, have: Mapping[str, str]) -> dict[str, Any]:
    if not changes.labels:
        return {}
    labels = dict(have) | changes.labels
    return {"labels": {name: value for name, value in labels.items() if value is not None}}


def _compare(queue: Queue, given: Mapping[str, str], region: str) -> None:
    """A queue that exists already is as good as new when it has the attributes asked for."""
    have = shown(queue, region)
    for name, value in given.items():
        same = have.get(name) == value or (value.lower() in ("true", "false") and have.get(name) == value.lower())
        if not same:
            text = f"A queue already exists with the same name and a different value for attribute {name}"
            raise sqs_error("QueueNameExists", text)


def _results(given: int | None) -> int:
    if given is not None and not 1 <= given <= MOST_RESULTS:
        reason = f"MaxResults must be an integer between 1 and {MOST_RESULTS}."
        raise invalid(f"Value for parameter MaxResults is invalid. Reason: {reason}")
    return MOST_RESULTS if given is None else given


def _next_page(names: Sequence[str], limit: int) -> str | None:
    return urlsafe_b64encode(names[limit - 1].encode()).decode() if len(names) > limit else None


def _page_start(token: str | None) -> str:
    if not token:
        return ""
    try:
        name = urlsafe_b64decode(token.encode()).decode()
    except ValueError:
        raise _bad_token() from None
    if limits.QUEUE_NAME.fullmatch(name) is None:
        raise _bad_token()
    return name


def _bad_token() -> AwsError:
    return invalid("Invalid or expired next token.")

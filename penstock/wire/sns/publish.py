"""Publish and PublishBatch: to a topic, to a device, to a phone."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from penstock.engine import Engine
from penstock.errors import PenstockError
from penstock.model import Scope
from penstock.model.outbox import Channel, NewOutboxItem
from penstock.model.topics import Publish, Published, Topic, sequence_text
from penstock.wire.aws.errors import AwsError
from penstock.wire.aws.gateway import Call
from penstock.wire.sns import types as shapes
from penstock.wire.sns.endpoints import PHONE
from penstock.wire.sns.errors import constraint, invalid, no_value, sns_error, to_aws_error
from penstock.wire.sns.message_checks import MESSAGE_BYTES, add_ids, check_message, size_of
from penstock.wire.sns.names import base_url, topic_in
from penstock.wire.sns.platform import Applications
from penstock.wire.sns.sms import Phones

MOST_ENTRIES = 10
SMS_CHARACTERS = 1600

_ID = re.compile(r"[A-Za-z0-9_-]*")


class Publishing:
    def __init__(self, engine: Engine, applications: Applications, phones: Phones, base_url: str | None) -> None:
        self._topics = engine.topics
        self._outbox = engine.outbox
        self._applications = applications
        self._phones = phones
        self._base_url = base_url

    async def publish(self, call: Call, given: shapes.Publish) -> shapes.Published:
        if given.phone_number is not None:
            return await self._to_phone(call, given)
        if given.target_arn is not None and ":endpoint/" in given.target_arn:
            return await self._to_device(call, given)
        arn = given.topic_arn if given.topic_arn is not None else given.target_arn
        if arn is None:
            raise no_value("TopicArn or TargetArn")
        message = check_message(call, given)
        topic = await self._topic(call, arn)
        self._address(call, topic, message, given)
        published = await self._topics.publish(message)
        return shapes.Published(message_id=published.id, sequence_number=_sequence(published))

    async def publish_batch(self, call: Call, given: shapes.PublishBatch) -> shapes.PublishedBatch:
        entries = _checked_entries(given.entries)
        topic = await self._topic(call, given.topic_arn)
        _check_ids(entries)
        if sum(map(size_of, entries)) > MESSAGE_BYTES:
            text = "The length of all the messages put together is more than the limit."
            raise sns_error("BatchRequestTooLongException", text)
        messages: list[Publish | AwsError] = []
        for position, entry in enumerate(entries, 1):
            messages.append(self._entry(call, topic, entry, position))
        good = [message for message in messages if isinstance(message, Publish)]
        stored = await self._topics.publish_batch(good)
        results: dict[str, Published | PenstockError | AwsError] = dict(
            zip((each.id for each in good), stored, strict=True)
        )
        return _batch_answer(entries, [results[each.id] if isinstance(each, Publish) else each for each in messages])

    def _entry(self, call: Call, topic: Topic, entry: shapes.PublishEntry, position: int) -> Publish | AwsError:
        """What is wrong with the form of an entry fails the whole batch, as AWS does; its subject fails it alone."""
        try:
            message = check_message(call, entry, f"publishBatchRequestEntries.{position}.member.")
        except AwsError as error:
            if error.message in ("Invalid parameter: Subject", "Invalid parameter: Empty message"):
                return error
            raise
        self._address(call, topic, message, entry)
        return message

    async def _topic(self, call: Call, arn: str | None) -> Topic:
        name = topic_in(call, arn)
        call.principal.require(Scope.SEND, name)
        return await self._topics.get(call.tenant, name)

    def _address(self, call: Call, topic: Topic, message: Publish, given: shapes.NewMessage) -> None:
        message.topic = topic.name
        message.base_url = base_url(call, self._base_url)
        content_dedup = topic.attributes.get("ContentBasedDeduplication") == "true"
        add_ids(message, given, fifo=topic.fifo, content_dedup=content_dedup)

    # What never leaves the machine

    async def _to_phone(self, call: Call, given: shapes.Publish) -> shapes.Published:
        call.principal.require(Scope.SEND)
        number = given.phone_number or ""
        if given.topic_arn is not None or given.target_arn is not None:
            raise invalid("PhoneNumber", "Only one of TopicArn, TargetArn and PhoneNumber may be given")
        message = check_message(call, given)
        if PHONE.fullmatch(number) is None:
            raise invalid("PhoneNumber", f"{number} is not valid to publish to")
        text = message.body_for("sms")
        if len(text) > SMS_CHARACTERS:
            raise invalid("Message too long")
        if not await self._phones.is_opted_out(call.tenant, number):
            await self._put(message, Channel.SMS, number, text)
        return shapes.Published(message_id=message.id)

    async def _to_device(self, call: Call, given: shapes.Publish) -> shapes.Published:
        call.principal.require(Scope.SEND)
        message = check_message(call, given, default=False)
        arn = given.target_arn or ""
        platform = await self._applications.reachable(call, arn)
        text = message.body_for(platform)
        if not text:
            raise invalid("Message Structure - No default entry in JSON message body")
        await self._put(message, Channel.PUSH, arn, text)
        return shapes.Published(message_id=message.id)

    async def _put(self, message: Publish, channel: Channel, address: str, text: str) -> None:
        item = NewOutboxItem(
            tenant=message.tenant,
            channel=channel,
            address=address,
            message_id=message.id,
            subject=message.subject,
            body=text,
            attributes=message.attributes,
        )
        await self._outbox.add([item])


def _sequence(published: Published) -> str | None:
    return None if published.sequence is None else sequence_text(published.sequence)


def _checked_entries(entries: list[shapes.PublishEntry] | None) -> list[shapes.PublishEntry]:
    if not entries:
        raise sns_error("EmptyBatchRequestException", "The batch request doesn't contain any entries.")
    if len(entries) > MOST_ENTRIES:
        text = "The batch request contains more entries than permissible."
        raise sns_error("TooManyEntriesInBatchRequestException", text)
    return entries


def _check_ids(entries: list[shapes.PublishEntry]) -> None:
    ids: set[str] = set()
    for position, entry in enumerate(entries, 1):
        if entry.id is None:
            raise constraint(None, f"publishBatchRequestEntries.{position}.member.id", "not be null")
        if entry.id in ids:
            text = "Two or more batch entries in the request have the same Id."
            raise sns_error("BatchEntryIdsNotDistinctException", text)
        ids.add(entry.id)
    for given in ids:
        if not 1 <= len(given) <= 80:
            fault = "is too long" if given else "is empty"
            raise _bad_id(f"The Id of a batch entry in the batch request {fault}: {given}")
        if _ID.fullmatch(given) is None:
            raise _bad_id(f"The Id of a batch entry in the batch request contains an impermissible character: {given}")


def _bad_id(text: str) -> AwsError:
    return sns_error("InvalidBatchEntryIdException", text)


def _batch_answer(entries: list[shapes.PublishEntry], results: Sequence[Any]) -> shapes.PublishedBatch:
    answer = shapes.PublishedBatch(successful=[], failed=[])
    for entry, result in zip(entries, results, strict=True):
        entry_id = entry.id or ""
        if isinstance(result, Published):
            done = shapes.PublishedEntry(id=entry_id, message_id=result.id, sequence_number=_sequence(result))
            answer.successful.append(done)
            continue
        error = to_aws_error(result) if isinstance(result, PenstockError) else result
        answer.failed.append(
            shapes.FailedEntry(
                id=entry_id, code=error.code, message=error.message, sender_fault=error.fault == "Sender"
            )
        )
    return answer

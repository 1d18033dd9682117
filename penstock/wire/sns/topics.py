"""Topics: made, found, listed, changed, deleted; what they hide."""

from __future__ import annotations

from penstock import limits
from penstock.engine.topics.topics import Topics
from penstock.errors import TopicNotFound
from penstock.model import Scope
from penstock.model.arns import sns_arn
from penstock.model.topics import Topic
from penstock.wire.aws.gateway import Call
from penstock.wire.sns import types as shapes
from penstock.wire.sns.attributes import (
    DATA_PROTECTION,
    counts_shown,
    read_new_topic,
    read_topic_change,
    topic_shown,
)
from penstock.wire.sns.errors import invalid, no_value
from penstock.wire.sns.names import PAGE, page_start, page_token, topic_in
from penstock.wire.sns.policies import check_data_protection
from penstock.wire.sns.tags import read_tags

_FIFO_NAME = (
    "Fifo Topic names must end with .fifo and must be made up of only uppercase and lowercase ASCII letters, "
    "numbers, underscores, and hyphens, and must be between 1 and 256 characters long."
)


class TopicActions:
    def __init__(self, topics: Topics) -> None:
        self._topics = topics

    async def create(self, call: Call, given: shapes.CreateTopic) -> shapes.TopicCreated:
        asked = given.attributes or {}
        fifo = (asked.get("FifoTopic") or "").lower() == "true"
        name = _new_name(given.name, fifo=fifo)
        call.principal.require(Scope.MANAGE, name)
        attributes = read_new_topic(asked, fifo=fifo)
        tags = read_tags(given.tags or (), {})
        if given.data_protection_policy:
            check_data_protection(given.data_protection_policy)
            attributes[DATA_PROTECTION] = given.data_protection_policy
        topic, created = await self._topics.create(call.tenant, name, attributes, tags)
        if not created:
            _compare(topic, attributes, tags, call.region)
        return shapes.TopicCreated(topic_arn=sns_arn(call.region, name))

    async def delete(self, call: Call, given: shapes.OfTopic) -> None:
        """Deleting what is not there is fine."""
        try:
            name = topic_in(call, given.topic_arn)
        except TopicNotFound:
            return
        call.principal.require(Scope.MANAGE, name)
        await self._topics.delete(call.tenant, name)

    async def list(self, call: Call, given: shapes.Page) -> shapes.TopicList:
        call.principal.require(Scope.READ)
        found = await self._topics.list(call.tenant, after=page_start(given.next_token), limit=PAGE + 1)
        page = found[:PAGE]
        return shapes.TopicList(
            topics=[
                shapes.ListedTopic(topic_arn=sns_arn(call.region, topic.name))
                for topic in page
                if call.principal.reaches(topic.name)
            ],
            next_token=page_token(page[-1].name) if len(found) > PAGE else None,
        )

    async def get_attributes(self, call: Call, given: shapes.OfTopic) -> shapes.Attributes:
        topic = await self._reach(call, given.topic_arn, Scope.READ)
        counts = await self._topics.counts(call.tenant, topic.name)
        return shapes.Attributes(attributes=topic_shown(topic, call.region) | counts_shown(counts))

    async def set_attributes(self, call: Call, given: shapes.SetTopicAttributes) -> None:
        topic = await self._reach(call, given.topic_arn, Scope.MANAGE)
        if given.attribute_name is None:
            raise no_value("AttributeName")
        value = read_topic_change(given.attribute_name, given.attribute_value or "", fifo=topic.fifo)
        await self._topics.update(call.tenant, topic.name, attributes={given.attribute_name: value or None})

    async def put_data_protection(self, call: Call, given: shapes.PutDataProtectionPolicy) -> None:
        topic = await self._reach(call, given.resource_arn, Scope.MANAGE, "ResourceArn")
        if given.data_protection_policy is None:
            raise no_value("DataProtectionPolicy")
        if given.data_protection_policy:
            check_data_protection(given.data_protection_policy)
        changes = {DATA_PROTECTION: given.data_protection_policy or None}
        await self._topics.update(call.tenant, topic.name, attributes=changes)

    async def get_data_protection(self, call: Call, given: shapes.OfResource) -> shapes.DataProtectionPolicy:
        topic = await self._reach(call, given.resource_arn, Scope.READ, "ResourceArn")
        return shapes.DataProtectionPolicy(data_protection_policy=topic.attributes.get(DATA_PROTECTION, ""))

    async def _reach(self, call: Call, arn: str | None, scope: Scope, parameter: str = "TopicArn") -> Topic:
        name = topic_in(call, arn, parameter)
        call.principal.require(scope, name)
        return await self._topics.get(call.tenant, name)


def _new_name(name: str | None, *, fifo: bool) -> str:
    if name is None:
        raise no_value("Name")
    if limits.TOPIC_NAME.fullmatch(name) is None or name.endswith(".fifo") != fifo:
        raise invalid(_FIFO_NAME if fifo and name.endswith(".fifo") else "Topic Name")
    return name


def _compare(topic: Topic, attributes: dict[str, str], tags: dict[str, str], region: str) -> None:
    """A topic that exists already is as good as new when it has what is asked for."""
    have = topic_shown(topic, region) | {DATA_PROTECTION: topic.attributes.get(DATA_PROTECTION)}
    if any(have.get(name) != value for name, value in attributes.items()):
        raise invalid("Attributes", "Topic already exists with different attributes")
    if any(topic.tags.get(key) != value for key, value in tags.items()):
        raise invalid("Tags", "Topic already exists with different tags")

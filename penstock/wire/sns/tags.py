"""Tags and permissions of a topic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from penstock.engine.topics.topics import Topics
from penstock.errors import TopicNotFound
from penstock.model import Scope
from penstock.model.arns import ACCOUNT, sns_arn
from penstock.model.topics import Topic
from penstock.wire.aws.gateway import Call
from penstock.wire.sns import types as shapes
from penstock.wire.sns.errors import constraint, invalid, no_value, sns_error
from penstock.wire.sns.names import topic_in
from penstock.wire.sns.policies import (
    OUT_OF_SCOPE,
    SHARED_ACTIONS,
    default_policy,
    document,
    with_permission,
    without_permission,
)

MOST_TAGS = 50
TAG_KEY = 128
TAG_VALUE = 256


class TagActions:
    def __init__(self, topics: Topics) -> None:
        self._topics = topics

    async def tag(self, call: Call, given: shapes.TagResource) -> shapes.Empty:
        topic = await self._tagged(call, given.resource_arn, Scope.MANAGE)
        if given.tags is None:
            raise constraint(None, "tags", "not be null")
        await self._topics.update(call.tenant, topic.name, tags=read_tags(given.tags, topic.tags))
        return shapes.Empty()

    async def untag(self, call: Call, given: shapes.UntagResource) -> shapes.Empty:
        topic = await self._tagged(call, given.resource_arn, Scope.MANAGE)
        if given.tag_keys is None:
            raise constraint(None, "tagKeys", "not be null")
        gone = dict.fromkeys(key for key in given.tag_keys if key in topic.tags)
        if gone:
            await self._topics.update(call.tenant, topic.name, tags=gone)
        return shapes.Empty()

    async def list_tags(self, call: Call, given: shapes.OfResource) -> shapes.TagList:
        topic = await self._tagged(call, given.resource_arn, Scope.READ)
        return shapes.TagList(tags=[shapes.ListedTag(key=key, value=value) for key, value in topic.tags.items()])

    async def _tagged(self, call: Call, arn: str | None, scope: Scope) -> Topic:
        """Tags belong to resources, of which topics are one kind: so a missing one is called."""
        try:
            return await self._reach(call, arn, scope, "ResourceArn")
        except TopicNotFound:
            raise sns_error("ResourceNotFoundException", "Resource does not exist") from None

    # Permissions

    async def add_permission(self, call: Call, given: shapes.AddPermission) -> None:
        topic = await self._reach(call, given.topic_arn, Scope.MANAGE)
        if not given.label:
            raise no_value("Label")
        if not given.account_ids:
            raise no_value("AWSAccountId")
        if not given.actions:
            raise no_value("ActionName")
        if any(action not in SHARED_ACTIONS for action in given.actions):
            raise invalid(OUT_OF_SCOPE)
        if not all(len(each) == 12 and each.isascii() and each.isdecimal() for each in given.account_ids):
            raise invalid("A provided account ID is not valid")
        arn = sns_arn(call.region, topic.name)
        policy = with_permission(_policy_of(topic, arn), given.label, given.account_ids, given.actions, arn)
        await self._topics.update(call.tenant, topic.name, attributes={"Policy": policy})

    async def remove_permission(self, call: Call, given: shapes.RemovePermission) -> None:
        topic = await self._reach(call, given.topic_arn, Scope.MANAGE)
        if not given.label:
            raise no_value("Label")
        policy = without_permission(_policy_of(topic, sns_arn(call.region, topic.name)), given.label)
        await self._topics.update(call.tenant, topic.name, attributes={"Policy": policy})

    async def _reach(self, call: Call, arn: str | None, scope: Scope, parameter: str = "TopicArn") -> Topic:
        name = topic_in(call, arn, parameter)
        call.principal.require(scope, name)
        return await self._topics.get(call.tenant, name)


def _policy_of(topic: Topic, arn: str) -> dict[str, Any]:
    return document(topic.attributes.get("Policy", "")) or default_policy(arn, ACCOUNT)


def read_tags(given: Sequence[shapes.Tag], have: Mapping[str, str]) -> dict[str, str]:
    tags: dict[str, str] = {}
    for position, tag in enumerate(given, 1):
        key, value, place = tag.key, tag.value, f"tags.{position}.member"
        if key is None or value is None:
            raise constraint(None, f"{place}.{'key' if key is None else 'value'}", "not be null")
        if not key:
            raise constraint(key, f"{place}.key", "have length greater than or equal to 1")
        if len(key) > TAG_KEY:
            raise constraint(key, f"{place}.key", f"have length less than or equal to {TAG_KEY}")
        if len(value) > TAG_VALUE:
            raise constraint(value, f"{place}.value", f"have length less than or equal to {TAG_VALUE}")
        if key.lower().startswith("aws:"):
            raise invalid("Tags", "Tag keys cannot begin with aws:")
        if "\0" in key + value:
            raise invalid("Tags", "Tag keys and values cannot contain the character NUL.")
        if key in tags:
            raise invalid("Duplicated keys are not allowed.")
        tags[key] = value
    if len(have.keys() | tags.keys()) > MOST_TAGS:
        text = "Could not complete request: tag quota of per resource exceeded"
        raise sns_error("TagLimitExceededException", text)
    return tags

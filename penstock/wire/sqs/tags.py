"""Tags and permissions of a queue."""

from __future__ import annotations

import re
from collections.abc import Mapping

from penstock.engine.queues.queues import Queues
from penstock.model import Scope
from penstock.model.arns import queue_arn
from penstock.wire.aws.errors import invalid, invalid_value, missing
from penstock.wire.aws.gateway import MAX_SHOWN, Call
from penstock.wire.sqs import types as shapes
from penstock.wire.sqs.errors import sqs_error
from penstock.wire.sqs.names import queue_name
from penstock.wire.sqs.policies import MOST_ACTIONS, OWNER_ACTIONS, SHARED_ACTIONS, with_permission, without_permission

MOST_TAGS = 50
TAG_KEY = (1, 128)
TAG_VALUE = (0, 256)
TAG_CHARACTERS = re.compile(r"[\w\s.:/=+\-@]*")
_SYMBOLS = "may only contain unicode letters, digits, whitespace, or one of these symbols: _ . : / = + - @"
LABEL = re.compile(r"[A-Za-z0-9_-]{1,80}")


class TagActions:
    def __init__(self, queues: Queues) -> None:
        self._queues = queues

    async def tag(self, call: Call, given: shapes.TagQueue) -> None:
        name = queue_name(call, given.queue_url)
        call.principal.require(Scope.MANAGE, name)
        if not given.tags:
            raise missing("Tags")
        have = (await self._queues.get(call.tenant, name)).settings.tags
        check_tags(given.tags, have, name)
        await self._queues.update(call.tenant, name, {"tags": have | given.tags})

    async def untag(self, call: Call, given: shapes.UntagQueue) -> None:
        name = queue_name(call, given.queue_url)
        call.principal.require(Scope.MANAGE, name)
        if given.tag_keys is None:
            raise missing("TagKeys")
        if not given.tag_keys:
            raise invalid("Tag keys must be between 1 and 128 characters in length.")
        have = (await self._queues.get(call.tenant, name)).settings.tags
        left = {key: value for key, value in have.items() if key not in given.tag_keys}
        if left != have:
            await self._queues.update(call.tenant, name, {"tags": left})

    async def list_tags(self, call: Call, given: shapes.OfQueue) -> shapes.TagList:
        name = queue_name(call, given.queue_url)
        call.principal.require(Scope.READ, name)
        return shapes.TagList(tags=(await self._queues.get(call.tenant, name)).settings.tags or None)

    async def add_permission(self, call: Call, given: shapes.AddPermission) -> None:
        name = queue_name(call, given.queue_url)
        call.principal.require(Scope.MANAGE, name)
        label, accounts, actions = given.label, given.account_ids, given.actions
        if not label:
            raise missing("Label")
        if not accounts:
            raise missing("AWSAccountId" if call.query else "AWSAccountIds")
        if not actions:
            raise missing("ActionName" if call.query else "Actions")
        if LABEL.fullmatch(label) is None:
            reason = "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length."
            raise invalid_value(label[:MAX_SHOWN], "Label", reason)
        _check_actions(actions)
        for account in accounts:
            if not (len(account) == 12 and account.isascii() and account.isdecimal()):
                raise invalid_value(f"[{', '.join(accounts)}]", "PrincipalId", "Unable to verify.")
        queue = await self._queues.get(call.tenant, name)
        labels = queue.settings.labels
        policy = with_permission(labels.get("Policy"), label, accounts, actions, queue_arn(call.region, name))
        await self._queues.update(call.tenant, name, {"labels": labels | {"Policy": policy}})

    async def remove_permission(self, call: Call, given: shapes.RemovePermission) -> None:
        name = queue_name(call, given.queue_url)
        call.principal.require(Scope.MANAGE, name)
        if not given.label:
            raise missing("Label")
        labels = dict((await self._queues.get(call.tenant, name)).settings.labels)
        policy = without_permission(labels.pop("Policy", None), given.label)
        if policy is not None:
            labels["Policy"] = policy
        await self._queues.update(call.tenant, name, {"labels": labels})


def _check_actions(actions: list[str]) -> None:
    if len(actions) > MOST_ACTIONS:
        raise sqs_error("OverLimit", f"{len(actions)} Actions were found, maximum allowed is {MOST_ACTIONS}.")
    for action in actions:
        if action in OWNER_ACTIONS:
            reason = "Only the queue owner is allowed to invoke this action."
            raise invalid_value(f"SQS:{action}", "ActionName", reason)
        if action not in SHARED_ACTIONS:
            reason = "Please refer to the appropriate WSDL for a list of valid actions. "
            raise invalid_value(f"SQS:{action}", "ActionName", reason)


def check_tags(given: Mapping[str, str], have: Mapping[str, str], queue: str) -> None:
    for key, value in given.items():
        if not TAG_KEY[0] <= len(key) <= TAG_KEY[1]:
            raise invalid("Tag keys must be between 1 and 128 characters in length.")
        if not TAG_VALUE[0] <= len(value) <= TAG_VALUE[1]:
            raise invalid("Tag values must be between 0 and 256 characters in length.")
        if key.lower().startswith("aws:"):
            raise invalid("Tag keys cannot begin with aws:.")
        for what, text in (("keys", key), ("values", value)):
            if TAG_CHARACTERS.fullmatch(text) is None:
                raise invalid(f"Tag {what} {_SYMBOLS}")
    if len(have.keys() | given.keys()) > MOST_TAGS:
        raise invalid(f"Too many tags added for queue {queue}.")

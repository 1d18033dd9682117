"""Topics: who is subscribed to what, and who would get a message."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from starlette.routing import Route

from penstock.auth import Principal
from penstock.engine.topics.subscribers import Attribute, Subscriber
from penstock.errors import Invalid, PenstockError
from penstock.model import Scope
from penstock.model.topics import Subscription, Topic
from penstock.web.site import Call, Page, Site

TOPICS = 200
SUBSCRIPTIONS = 500


class TopicPages:
    def __init__(self, site: Site) -> None:
        self._site = site
        self._topics = site.engine.topics

    def routes(self) -> list[Route]:
        return [
            Route("/ui/topics", self._site.page(self.show_list)),
            Route("/ui/topics/{name}", self._site.page(self.show)),
        ]

    async def show_list(self, call: Call) -> Page:
        tenant, after = call.principal.tenant, call.query.get("after", "")
        found = await self._topics.list(tenant, after=after, limit=TOPICS)
        topics = [topic for topic in found if call.principal.reaches(topic.name)]
        counted = [(topic, await self._counts(topic)) for topic in topics]
        subscriptions = await self._topics.subscriptions(tenant, every=True, limit=SUBSCRIPTIONS)
        patterns = [one for one in subscriptions if one.pattern and _reaches_pattern(call.principal, one.pattern)]
        values = {
            "topics": counted,
            "patterns": patterns,
            "next": found[-1].name if len(found) == TOPICS else None,
        }
        return Page("topics.html", "Topics", values)

    async def _counts(self, topic: Topic) -> Any:
        return await self._site.shared.get(
            ("topic", topic.id), 5.0, lambda: self._topics.counts(topic.tenant, topic.name)
        )

    async def show(self, call: Call) -> Page:
        name, tenant = call.path["name"], call.principal.tenant
        call.principal.require(Scope.READ, name)
        topic = await self._topics.get(tenant, name)
        subscriptions = await self._topics.subscriptions(tenant, topic=name, limit=SUBSCRIPTIONS)
        body, attributes = call.query.get("body", ""), call.query.get("attributes", "")
        verdicts, problem = None, None
        if body or attributes:
            try:
                verdicts = would_get(subscriptions, body, read_attributes(attributes))
            except PenstockError as error:
                problem = error.message
        values = {
            "topic": topic,
            "subscriptions": subscriptions,
            "body": body,
            "attributes": attributes,
            "verdicts": verdicts,
            "problem": problem,
        }
        return Page("topic.html", name, values)


def would_get(
    subscriptions: Any, body: str, attributes: Mapping[str, Attribute]
) -> list[tuple[Subscription, str, bool]]:
    """Each subscription, why or why not, and whether it gets the message."""
    found = []
    for one in subscriptions:
        if not one.confirmed:
            found.append((one, "not confirmed", False))
        elif Subscriber(one).wants(attributes, body):
            found.append((one, "matches" if one.attributes.get("FilterPolicy") else "has no filter", True))
        else:
            found.append((one, "is filtered out", False))
    return found


def read_attributes(text: str) -> dict[str, Attribute]:
    """`{"store": "x", "price": 3}`, as typed by a person, with the types that SNS gives such values."""
    if not text.strip():
        return {}
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        raise Invalid("the attributes are not valid JSON", field="attributes") from None
    if not isinstance(document, dict):
        raise Invalid("the attributes are a JSON object of names and values", field="attributes")
    return {name: _attribute(value) for name, value in document.items()}


def _attribute(value: Any) -> Attribute:
    if isinstance(value, str):
        return Attribute("String", value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return Attribute("Number", json.dumps(value))
    return Attribute("String.Array", json.dumps(value if isinstance(value, list) else [value]))


def _reaches_pattern(principal: Principal, pattern: str) -> bool:
    """Whether the caller reaches every routing key that fits the pattern, whatever stands for its wildcards."""
    return all(principal.reaches(one) for one in (pattern, pattern.replace("*", "any").replace("#", "any.any")))

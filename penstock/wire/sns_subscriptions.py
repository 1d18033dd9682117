"""Subscriptions: made, confirmed, listed, changed, ended."""

from __future__ import annotations

import secrets
from hashlib import sha256

from penstock.engine import Engine
from penstock.engine.notices import subscribe_url
from penstock.errors import Forbidden, SubscriptionNotFound
from penstock.model import Scope
from penstock.model.outbox import Channel, NewOutboxItem
from penstock.model.topics import NewSubscription, Subscription
from penstock.wire import sns_types as shapes
from penstock.wire.aws import ACCOUNT, NOBODY, Call, parse_arn
from penstock.wire.sns_attributes import (
    AUTHENTICATE_ON_UNSUBSCRIBE,
    AUTHENTICATED,
    OF_SUBSCRIPTION,
    read_new_subscription,
    read_subscription_change,
    subscription_shown,
)
from penstock.wire.sns_endpoints import CONFIRMED_BY_THE_ENDPOINT, check_endpoint
from penstock.wire.sns_errors import invalid, no_value, sns_error
from penstock.wire.sns_names import (
    PAGE,
    base_url,
    page_number,
    page_token,
    sns_arn,
    subscription_arn,
    subscription_in,
    topic_in,
)

PENDING = "pending confirmation"
PENDING_LISTED = "PendingConfirmation"
_DIFFERENT = "Subscription already exists with different attributes"


class SubscriptionActions:
    def __init__(self, engine: Engine, base_url: str | None, *, auto_confirm: bool) -> None:
        self._topics = engine.topics
        self._outbox = engine.outbox
        self._base_url = base_url
        self._auto_confirm = auto_confirm

    async def subscribe(self, call: Call, given: shapes.Subscribe) -> shapes.SubscriptionArn:
        topic = topic_in(call, given.topic_arn)
        call.principal.require(Scope.MANAGE, topic)
        await self._topics.get(call.tenant, topic)
        if given.protocol is None:
            raise no_value("Protocol")
        new = NewSubscription(
            tenant=call.tenant,
            topic=topic,
            protocol=given.protocol,
            endpoint=given.endpoint or "",
            owner=call.principal.name,
        )
        new.target = check_endpoint(new.protocol, new.endpoint, topic, call.region)
        if new.target is not None:
            # What is published reaches the queue: so must whoever subscribes it.
            call.principal.require(Scope.SEND, new.target)
        new.attributes = read_new_subscription(
            given.attributes or {}, region=call.region, topic=topic, protocol=new.protocol, endpoint=new.endpoint
        )
        token = new_token(call.region)
        new.confirmed = self._auto_confirm or new.protocol not in CONFIRMED_BY_THE_ENDPOINT
        if not new.confirmed:
            new.token_sha256 = sha256(token.encode()).hexdigest()
        subscription, created = await self._topics.subscribe(new)
        if not created:
            _compare(subscription, new.attributes)
        if not subscription.confirmed:
            await self._ask(call, subscription, token)
        if subscription.confirmed or given.return_subscription_arn:
            return shapes.SubscriptionArn(subscription_arn=subscription_arn(call.region, topic, subscription.key))
        return shapes.SubscriptionArn(subscription_arn=PENDING)

    async def _ask(self, call: Call, subscription: Subscription, token: str) -> None:
        """Send the endpoint the token that confirms. Mail does not leave the machine: it is found in the outbox."""
        server = base_url(call, self._base_url)
        if subscription.protocol in ("http", "https"):
            await self._topics.ask_confirmation(subscription, token, region=call.region, base_url=server)
            return
        arn = sns_arn(call.region, subscription.topic or "")
        text = f"You have chosen to subscribe to the topic:\n{arn}\n\nTo confirm this subscription, visit:\n"
        mail = NewOutboxItem(
            tenant=call.tenant,
            channel=Channel(subscription.protocol),
            address=subscription.endpoint,
            message_id=subscription.key,
            topic=subscription.topic,
            subject="AWS Notification - Subscription Confirmation",
            body=text + subscribe_url(server, arn, token),
        )
        await self._outbox.add([mail])

    async def confirm(self, call: Call, given: shapes.ConfirmSubscription) -> shapes.SubscriptionArn:
        """Whoever has the token has received it at the endpoint: no other proof is asked for."""
        arn = parse_arn(given.topic_arn or "")
        if arn is None or arn.service != "sns":
            raise invalid("Topic")
        region = _region_of(given.token or "")
        if region != arn.region:
            raise invalid("Topic")
        signed = call.principal is not NOBODY
        try:
            subscription = await self._topics.confirm(call.tenant if signed else None, given.token or "")
        except SubscriptionNotFound:
            raise invalid("Token") from None
        changes = {AUTHENTICATED: "true" if signed else "false"}
        if (given.authenticate_on_unsubscribe or "").lower() == "true" and signed:
            changes[AUTHENTICATE_ON_UNSUBSCRIBE] = "true"
        if AUTHENTICATED not in subscription.attributes:
            await self._topics.update_subscription(subscription.tenant, subscription.key, changes)
        return shapes.SubscriptionArn(
            subscription_arn=subscription_arn(region, subscription.topic or "", subscription.key)
        )

    async def unsubscribe(self, call: Call, given: shapes.OfSubscription) -> None:
        """Ending what is not there is fine. The link in every notice is followed without credentials."""
        if call.principal is NOBODY:
            await self._leave(call, given.subscription_arn)
            return
        try:
            subscription = await self._reach(call, given.subscription_arn, Scope.MANAGE)
        except SubscriptionNotFound:
            return
        await self._topics.unsubscribe(call.tenant, subscription.key)

    async def _leave(self, call: Call, text: str | None) -> None:
        arn = parse_arn(text or "")
        if arn is not None:
            call.region = arn.region
        _, key = subscription_in(call, text)
        try:
            subscription = await self._topics.get_subscription(None, key)
        except SubscriptionNotFound:
            return
        if subscription.attributes.get(AUTHENTICATE_ON_UNSUBSCRIBE) == "true":
            raise Forbidden()
        await self._topics.unsubscribe(None, key)

    async def list(self, call: Call, given: shapes.Page) -> shapes.SubscriptionList:
        call.principal.require(Scope.READ)
        return await self._page(call, None, given.next_token)

    async def list_by_topic(self, call: Call, given: shapes.ListSubscriptionsByTopic) -> shapes.SubscriptionList:
        topic = topic_in(call, given.topic_arn)
        call.principal.require(Scope.READ, topic)
        await self._topics.get(call.tenant, topic)
        return await self._page(call, topic, given.next_token)

    async def _page(self, call: Call, topic: str | None, token: str | None) -> shapes.SubscriptionList:
        after = page_number(token)
        found = await self._topics.subscriptions(call.tenant, topic=topic, after=after, limit=PAGE + 1)
        page = found[:PAGE]
        return shapes.SubscriptionList(
            subscriptions=[_listed(each, call) for each in page if call.principal.reaches(each.topic or "")],
            next_token=page_token(str(page[-1].id)) if len(found) > PAGE else None,
        )

    async def get_attributes(self, call: Call, given: shapes.OfSubscription) -> shapes.Attributes:
        subscription = await self._reach(call, given.subscription_arn, Scope.READ)
        topic = await self._topics.get(call.tenant, subscription.topic or "")
        return shapes.Attributes(attributes=subscription_shown(subscription, topic, call.region))

    async def set_attributes(self, call: Call, given: shapes.SetSubscriptionAttributes) -> None:
        subscription = await self._reach(call, given.subscription_arn, Scope.MANAGE)
        if given.attribute_name is None:
            raise no_value("AttributeName")
        name = given.attribute_name
        value = read_subscription_change(subscription, name, given.attribute_value or "", call.region)
        await self._topics.update_subscription(call.tenant, subscription.key, {name: value or None})

    async def _reach(self, call: Call, arn: str | None, scope: Scope) -> Subscription:
        topic, key = subscription_in(call, arn)
        call.principal.require(scope, topic)
        subscription = await self._topics.get_subscription(call.tenant, key)
        if subscription.topic != topic:
            raise SubscriptionNotFound()
        return subscription


def new_token(region: str) -> str:
    """Says which region it is for, so that one for another is refused before it is looked for."""
    return f"{region}/".encode().hex() + secrets.token_hex(64)


def _region_of(token: str) -> str:
    try:
        region, slash, rest = bytes.fromhex(token).partition(b"/")
        if slash and len(rest) == 64:
            return region.decode("ascii")
    except ValueError:
        pass
    raise sns_error("InvalidParameterException", "Invalid token")


def _compare(subscription: Subscription, attributes: dict[str, str]) -> None:
    """The same endpoint once more is as good as new when it asks for nothing else."""
    have = {"RawMessageDelivery": "false", "FilterPolicyScope": "MessageAttributes"} | {
        name: value for name, value in subscription.attributes.items() if name in OF_SUBSCRIPTION
    }
    if any(have.get(name) != value for name, value in attributes.items()):
        raise invalid("Attributes", _DIFFERENT)


def _listed(subscription: Subscription, call: Call) -> shapes.ListedSubscription:
    topic = subscription.topic or ""
    arn = subscription_arn(call.region, topic, subscription.key) if subscription.confirmed else PENDING_LISTED
    return shapes.ListedSubscription(
        subscription_arn=arn,
        owner=ACCOUNT,
        protocol=subscription.protocol,
        endpoint=subscription.endpoint,
        topic_arn=sns_arn(call.region, topic),
    )

"""Subscriptions: made, confirmed, listed, changed, ended."""

from __future__ import annotations

import re
import secrets
from hashlib import sha256

from penstock import limits
from penstock.engine import Engine
from penstock.engine.tenants import REGION
from penstock.engine.topics.notices import subscribe_url
from penstock.errors import Forbidden, SubscriptionNotFound
from penstock.model import Scope
from penstock.model.arns import ACCOUNT, Arn, parse_arn, sns_arn, subscription_arn
from penstock.model.outbox import Channel, NewOutboxItem
from penstock.model.topics import WEB_PROTOCOLS, NewSubscription, Subscription
from penstock.wire.aws.errors import AwsError
from penstock.wire.aws.gateway import NOBODY, Call
from penstock.wire.sns import types as shapes
from penstock.wire.sns.attributes import (
    AUTHENTICATE_ON_UNSUBSCRIBE,
    AUTHENTICATED,
    OF_SUBSCRIPTION,
    read_new_subscription,
    read_subscription_change,
    subscription_shown,
)
from penstock.wire.sns.endpoints import CONFIRMED_BY_THE_ENDPOINT, check_endpoint
from penstock.wire.sns.errors import invalid, no_value, sns_error
from penstock.wire.sns.names import (
    PAGE,
    base_url,
    page_number,
    page_token,
    queue_at,
    subscription_in,
    topic_in,
)
from penstock.wire.sns.policies import dead_letter_queue

PENDING = "pending confirmation"
PENDING_LISTED = "PendingConfirmation"
_TOKEN = re.compile(r"([0-9A-Fa-f]{2}){32,1024}")
"""What a token looks like, here and at AWS."""
_DIFFERENT = "Subscription already exists with different attributes"


class SubscriptionActions:
    def __init__(self, engine: Engine, base_url: str | None, *, auto_confirm: bool, strict: bool) -> None:
        self._topics = engine.topics
        self._tenants = engine.tenants
        self._outbox = engine.outbox
        self._base_url = base_url
        self._auto_confirm = auto_confirm
        self._strict = strict

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
        if new.protocol == "sqs" and not self._strict:
            queue = queue_at(new.endpoint, call.region)
            new.endpoint = str(queue) if queue is not None else new.endpoint
        await self._aim(call, new, check_endpoint(new.protocol, new.endpoint, topic))
        new.attributes = read_new_subscription(
            given.attributes or {}, region=call.region, topic=topic, protocol=new.protocol, endpoint=new.endpoint
        )
        require_dead_letters(call, new.attributes.get("RedrivePolicy"))
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

    async def _aim(self, call: Call, new: NewSubscription, queue: Arn | None) -> None:
        """Set the queue that receives, which may lie in another region than the topic."""
        if queue is None:
            return
        # Publishes reach the queue, so the subscriber must reach it too.
        call.principal.require(Scope.SEND, queue.resource)
        new.target = queue.resource
        if queue.region != call.region:
            if REGION.fullmatch(queue.region) is None:
                raise invalid("SQS endpoint ARN")
            new.target_tenant = await self._tenants.in_region(call.principal.tenant, queue.region)

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
        """The token was sent to the endpoint, so it is proof enough."""
        arn = parse_arn(given.topic_arn or "")
        if arn is None or arn.service != "sns":
            raise invalid("Topic")
        signed = call.principal is not NOBODY
        try:
            region, subscription = await self._find_by_token(call, arn, given.token or "", signed=signed)
        except AwsError:
            if not self._auto_confirm or not signed:
                raise
            return await self._confirmed_already(call, arn)
        changes = {AUTHENTICATED: "true" if signed else "false"}
        if (given.authenticate_on_unsubscribe or "").lower() == "true" and signed:
            changes[AUTHENTICATE_ON_UNSUBSCRIBE] = "true"
        if AUTHENTICATED not in subscription.attributes:
            await self._topics.update_subscription(subscription.tenant, subscription.key, changes)
        return shapes.SubscriptionArn(
            subscription_arn=subscription_arn(region, subscription.topic or "", subscription.key)
        )

    async def _find_by_token(self, call: Call, arn: Arn, token: str, *, signed: bool) -> tuple[str, Subscription]:
        """The subscription that a token confirms, and its region."""
        if _TOKEN.fullmatch(token) is None:
            raise sns_error("InvalidParameterException", "Invalid token")
        region = _region_of(token)
        if region is None:
            raise invalid("Token")
        if region != arn.region:
            raise invalid("Topic")
        try:
            return region, await self._topics.confirm(call.tenant if signed else None, token)
        except SubscriptionNotFound:
            raise invalid("Token") from None

    async def _confirmed_already(self, call: Call, arn: Arn) -> shapes.SubscriptionArn:
        """Where nothing needs confirmation, any token confirms: the answer is the last subscription of the topic."""
        call.principal.require(Scope.READ, arn.resource)
        await self._topics.get(call.tenant, arn.resource)
        found = await self._topics.subscriptions(call.tenant, topic=arn.resource, limit=limits.SUBSCRIPTION_PAGE[1])
        key = found[-1].key if found else arn.resource
        return shapes.SubscriptionArn(subscription_arn=subscription_arn(arn.region, arn.resource, key))

    async def unsubscribe(self, call: Call, given: shapes.OfSubscription) -> None:
        """Ending what is not there is fine. The link in every notice is followed without credentials."""
        if call.principal is NOBODY:
            await self._leave(call, given.subscription_arn)
            return
        try:
            subscription = await self._reach(call, given.subscription_arn, Scope.MANAGE)
        except SubscriptionNotFound:
            return
        await self._end(call, subscription)

    async def _end(self, call: Call, subscription: Subscription) -> None:
        ended = await self._topics.unsubscribe(subscription.tenant, subscription.key)
        if ended is None or not ended.confirmed or ended.protocol not in WEB_PROTOCOLS:
            return
        server = base_url(call, self._base_url)
        await self._topics.report_unsubscription(ended, new_token(call.region), region=call.region, base_url=server)

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
        await self._end(call, subscription)

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
        if name == "RedrivePolicy":
            require_dead_letters(call, value)
        await self._topics.update_subscription(call.tenant, subscription.key, {name: value or None})

    async def _reach(self, call: Call, arn: str | None, scope: Scope) -> Subscription:
        topic, key = subscription_in(call, arn)
        call.principal.require(scope, topic)
        subscription = await self._topics.get_subscription(call.tenant, key)
        if subscription.topic != topic:
            raise SubscriptionNotFound()
        return subscription


def require_dead_letters(call: Call, policy: str | None) -> None:
    """A dead-letter queue receives messages: the caller must be allowed to send to it."""
    if policy:
        call.principal.require(Scope.SEND, dead_letter_queue(policy))


def new_token(region: str) -> str:
    """Says which region it is for, so that one for another is refused before it is looked for."""
    return f"{region}/".encode().hex() + secrets.token_hex(64)


def _region_of(token: str) -> str | None:
    """The region a token is for; None when it is none of ours."""
    region, slash, rest = bytes.fromhex(token).partition(b"/")
    if not slash or len(rest) != 64 or not region.isascii():
        return None
    return region.decode()


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

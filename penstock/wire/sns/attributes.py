"""The attributes of topics and subscriptions: which there are, which values they take, how they are shown."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.engine.topics.filters import policy as filters
from penstock.errors import Invalid
from penstock.model.arns import ACCOUNT, partition_of, sns_arn, subscription_arn
from penstock.model.topics import Subscription, Topic, TopicCounts
from penstock.wire.sns.errors import invalid
from penstock.wire.sns.policies import (
    BadAttribute,
    check_policy,
    check_redrive,
    check_size,
    default_policy,
    effective_subscription_delivery,
    effective_topic_delivery,
    encoded,
    read_subscription_delivery,
    read_topic_delivery,
)

FEEDBACK = tuple(
    f"{protocol}{ending}"
    for protocol in ("HTTP", "Lambda", "SQS", "Firehose", "Application")
    for ending in ("SuccessFeedbackRoleArn", "SuccessFeedbackSampleRate", "FailureFeedbackRoleArn")
)
ON_FIFO = ("ContentBasedDeduplication", "FifoThroughputScope", "ArchivePolicy")
OF_TOPIC = frozenset(
    {"DeliveryPolicy", "DisplayName", "KmsMasterKeyId", "Policy", "SignatureVersion", "TracingConfig"}
    | {*FEEDBACK, *ON_FIFO}
)
"""What can be set; FifoTopic only when the topic is made."""
DATA_PROTECTION = "DataProtectionPolicy"
"""Kept with the attributes, but shown by an action of its own."""
DISPLAY_NAME = 100

OF_SUBSCRIPTION = frozenset(
    {
        "DeliveryPolicy", "FilterPolicy", "FilterPolicyScope", "RawMessageDelivery", "RedrivePolicy", "ReplayPolicy",
        "SubscriptionRoleArn",
    }
)  # fmt: skip
AUTHENTICATED = "ConfirmationWasAuthenticated"
AUTHENTICATE_ON_UNSUBSCRIBE = "AuthenticateOnUnsubscribe"
RAW_PROTOCOLS = ("sqs", "http", "https", "firehose")
SCOPES: dict[str, filters.Scope] = {"MessageAttributes": "attributes", "MessageBody": "body"}

_CHOICES = {
    "SignatureVersion": ("1", "2"),
    "TracingConfig": ("PassThrough", "Active"),
    "FifoThroughputScope": ("Topic", "MessageGroup"),
}


# Topics


def read_new_topic(given: Mapping[str, str | None], *, fifo: bool) -> dict[str, str]:
    """Checked, for a topic that is to be made. What says nothing is left out."""
    texts = {name: value for name, value in given.items() if value is not None and name != "FifoTopic"}
    try:
        checked = {name: _of_topic(name, value, fifo=fifo) for name, value in texts.items()}
    except BadAttribute as bad:
        raise invalid("Attributes", str(bad)) from None
    return {name: value for name, value in checked.items() if value}


def read_topic_change(name: str, value: str, *, fifo: bool) -> str:
    try:
        return _of_topic(name, value, fifo=fifo)
    except BadAttribute as bad:
        raise invalid(str(bad)) from None


def _of_topic(name: str, value: str, *, fifo: bool) -> str:
    if name not in OF_TOPIC or (name in ON_FIFO and not fifo):
        raise BadAttribute("AttributeName")
    if name == "ContentBasedDeduplication":
        return _flag(name, value)
    if name == "DisplayName" and len(value) > DISPLAY_NAME:
        raise BadAttribute("DisplayName")
    if name.endswith("SampleRate") and not (value.isascii() and value.isdecimal() and int(value[:9]) <= 100):
        raise BadAttribute(f"{name}: {value} value provided is not an integer between 0-100")
    if name in _CHOICES and value not in _CHOICES[name]:
        raise BadAttribute(f"{name}: Invalid value [{value}]. Must be {' or '.join(_CHOICES[name])}.")
    if name == "Policy" and value:
        check_policy(value)
    checked = read_topic_delivery(value) if name == "DeliveryPolicy" and value else value
    check_size(name, value)
    return checked


def _flag(name: str, value: str) -> str:
    if value.lower() not in ("true", "false"):
        raise BadAttribute(f"{name}: Invalid value [{value}]. Must be true or false.")
    return value.lower()


def topic_shown(topic: Topic, region: str) -> dict[str, str]:
    """Every attribute that does not need counting."""
    arn, own = sns_arn(region, topic.name), topic.attributes
    shown = {
        "TopicArn": arn,
        "Owner": ACCOUNT,
        "DisplayName": "",
        "Policy": encoded(default_policy(arn, ACCOUNT)),
        "EffectiveDeliveryPolicy": effective_topic_delivery(own.get("DeliveryPolicy")),
        **{name: value for name, value in own.items() if name in OF_TOPIC},
    }
    if topic.fifo:
        shown["FifoTopic"] = "true"
        shown.setdefault("ContentBasedDeduplication", "false")
    return shown


def counts_shown(counts: TopicCounts) -> dict[str, str]:
    return {
        "SubscriptionsConfirmed": str(counts.confirmed),
        "SubscriptionsPending": str(counts.pending),
        "SubscriptionsDeleted": str(counts.deleted),
    }


# Subscriptions


def read_new_subscription(
    given: Mapping[str, str | None], *, region: str, topic: str, protocol: str, endpoint: str
) -> dict[str, str]:
    texts = {name: value for name, value in given.items() if value is not None}
    scope = texts.get("FilterPolicyScope", "MessageAttributes")
    try:
        checked = {
            name: _of_subscription(name, value, region, topic, protocol, endpoint, scope)
            for name, value in texts.items()
        }
    except BadAttribute as bad:
        raise invalid("Attributes", str(bad)) from None
    return {name: value for name, value in checked.items() if value}


def read_subscription_change(subscription: Subscription, name: str, value: str, region: str) -> str:
    scope = subscription.attributes.get("FilterPolicyScope", "MessageAttributes")
    try:
        return _of_subscription(
            name, value, region, subscription.topic or "", subscription.protocol, subscription.endpoint, scope
        )
    except BadAttribute as bad:
        raise invalid(str(bad)) from None


def _of_subscription(name: str, value: str, region: str, topic: str, protocol: str, endpoint: str, scope: str) -> str:
    if name not in OF_SUBSCRIPTION:
        raise BadAttribute("AttributeName")
    if name == "RawMessageDelivery":
        value = _flag(name, value)
        if value == "true" and protocol not in RAW_PROTOCOLS:
            raise BadAttribute(f"Delivery protocol [{protocol}] does not support raw message delivery.")
    elif name == "FilterPolicyScope":
        if value not in SCOPES:
            text = "Please use either MessageBody or MessageAttributes"
            raise BadAttribute(f"FilterPolicyScope: Invalid value [{value}]. {text}")
    elif name == "FilterPolicy":
        _check_filter(value, scope)
    elif name == "DeliveryPolicy" and value:
        value = read_subscription_delivery(value)
    elif name == "RedrivePolicy" and value:
        check_redrive(value, region, fifo=topic.endswith(".fifo") and endpoint.endswith(".fifo"))
    if name != "FilterPolicy":
        check_size(name, value)
    return value


def _check_filter(value: str, scope: str) -> None:
    try:
        filters.parse(value, SCOPES.get(scope, "attributes"))
    except Invalid as error:
        raise BadAttribute(error.message) from None


def subscription_shown(subscription: Subscription, topic: Topic, region: str) -> dict[str, str]:
    own = subscription.attributes
    pending = not subscription.confirmed
    shown = {
        "SubscriptionArn": subscription_arn(region, topic.name, subscription.key),
        "TopicArn": sns_arn(region, topic.name),
        "Owner": ACCOUNT,
        "Protocol": subscription.protocol,
        "Endpoint": subscription.endpoint,
        "PendingConfirmation": "true" if pending else "false",
        AUTHENTICATED: "false" if pending else own.get(AUTHENTICATED, "true"),
        "RawMessageDelivery": "false",
        "SubscriptionPrincipal": f"arn:{partition_of(region)}:iam::{ACCOUNT}:user/{subscription.owner or 'penstock'}",
        **{name: value for name, value in own.items() if name in OF_SUBSCRIPTION},
    }
    if subscription.protocol in ("http", "https"):
        shown["EffectiveDeliveryPolicy"] = effective_subscription_delivery(
            own.get("DeliveryPolicy"), topic.attributes.get("DeliveryPolicy")
        )
    if "FilterPolicy" in own:
        shown.setdefault("FilterPolicyScope", "MessageAttributes")
    else:
        shown.pop("FilterPolicyScope", None)
    return shown

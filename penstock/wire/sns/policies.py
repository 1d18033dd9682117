"""The documents among the attributes of topics and subscriptions: who may publish, how it travels, what is hidden."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from penstock.model.arns import parse_arn
from penstock.wire.aws.errors import AwsError
from penstock.wire.sns.errors import invalid

OWNER_ACTIONS = (
    "GetTopicAttributes", "SetTopicAttributes", "AddPermission", "RemovePermission", "DeleteTopic", "Subscribe",
    "ListSubscriptionsByTopic", "Publish",
)  # fmt: skip
SHARED_ACTIONS = frozenset(
    {
        *OWNER_ACTIONS, "GetDataProtectionPolicy", "ListTagsForResource", "PutDataProtectionPolicy", "Receive",
        "TagResource", "UntagResource",
    }
)  # fmt: skip
"""What a policy of a topic may allow."""
OUT_OF_SCOPE = "Policy statement action out of service scope!"
ATTRIBUTE_BYTES = 30_720
"""Of a policy, and of any other attribute but a filter policy."""
BACKOFFS = ("arithmetic", "exponential", "geometric", "linear")
DEFAULT_RETRIES = {
    "minDelayTarget": 20,
    "maxDelayTarget": 20,
    "numRetries": 3,
    "numMaxDelayRetries": 0,
    "numNoDelayRetries": 0,
    "numMinDelayRetries": 0,
    "backoffFunction": "linear",
}
DEFAULT_REQUEST = {"headerContentType": "text/plain; charset=UTF-8"}
CONTENT_TYPES = frozenset(
    {"text/plain", "text/html", "text/css", "text/csv", "text/xml", "application/json", "application/xml",
     "application/atom+xml", "application/octet-stream", "application/x-www-form-urlencoded"}
)  # fmt: skip

_SUBSCRIPTION_DELIVERY = {
    "healthyRetryPolicy": None,
    "sicklyRetryPolicy": None,
    "throttlePolicy": None,
    "requestPolicy": None,
    "guaranteed": False,
}

_BOUNDS = {
    "minDelayTarget": (1, 3600),
    "maxDelayTarget": (1, 3600),
    "numRetries": (0, 100),
    "numMaxDelayRetries": (0, 100),
    "numNoDelayRetries": (0, 100),
    "numMinDelayRetries": (0, 100),
}


class BadAttribute(Exception):
    """What is wrong with an attribute. The action says of what it was a part."""


def check_size(name: str, value: str) -> None:
    """Attributes are stored as given, so padding counts."""
    if len(value.encode()) > ATTRIBUTE_BYTES:
        raise BadAttribute(f"{name}: the value has more than {ATTRIBUTE_BYTES} bytes")


def document(text: str) -> dict[str, Any] | None:
    try:
        found = msgspec.json.decode(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def encoded(value: Any) -> str:
    return msgspec.json.encode(value).decode()


# Who may use a topic


def default_policy(arn: str, account: str) -> dict[str, Any]:
    return {
        "Version": "2008-10-17",
        "Id": "__default_policy_ID",
        "Statement": [
            {
                "Sid": "__default_statement_ID",
                "Effect": "Allow",
                "Principal": {"AWS": "*"},
                "Action": [f"SNS:{action}" for action in OWNER_ACTIONS],
                "Resource": arn,
                "Condition": {"StringEquals": {"AWS:SourceOwner": account}},
            }
        ],
    }


def check_policy(text: str) -> None:
    found = document(text)
    statements = statements_of(found) if found is not None else None
    if not statements:
        raise BadAttribute("Policy Error: null")
    for statement in statements:
        if statement.get("Effect") not in ("Allow", "Deny"):
            raise BadAttribute("Policy Error: null")
        actions = statement.get("Action", statement.get("NotAction"))
        for action in actions if isinstance(actions, list) else [actions]:
            service, colon, name = str(action).partition(":")
            known = name in SHARED_ACTIONS or name.endswith("*")
            if action != "*" and not (colon and service.lower() == "sns" and known):
                raise BadAttribute(OUT_OF_SCOPE)


def statements_of(policy: Mapping[str, Any]) -> list[dict[str, Any]]:
    found = policy.get("Statement") or []
    found = [found] if isinstance(found, dict) else found
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def with_permission(
    policy: dict[str, Any], label: str, accounts: Sequence[str], actions: Sequence[str], arn: str
) -> str:
    """The policy with one statement more."""
    statements = statements_of(policy)
    if any(statement.get("Sid") == label for statement in statements):
        raise invalid("Statement already exists")
    partition = arn.split(":", 2)[1]
    allowed = {
        "Sid": label,
        "Effect": "Allow",
        "Principal": {"AWS": _one_or_many([f"arn:{partition}:iam::{account}:root" for account in accounts])},
        "Action": _one_or_many([f"SNS:{action}" for action in actions]),
        "Resource": arn,
    }
    changed = encoded(policy | {"Statement": [*statements, allowed]})
    try:
        check_size("Policy", changed)
    except BadAttribute as bad:
        raise invalid(str(bad)) from None
    return changed


def without_permission(policy: dict[str, Any], label: str) -> str:
    left = [statement for statement in statements_of(policy) if statement.get("Sid") != label]
    return encoded(policy | {"Statement": left})


def _one_or_many(items: list[str]) -> str | list[str]:
    return items[0] if len(items) == 1 else items


# How it is delivered


def read_topic_delivery(text: str) -> str:
    """The policy as it is kept: without members that are null, and with disableSubscriptionOverrides."""
    found = _delivery(text)
    web = found.get("http", {})
    if not isinstance(web, dict) or found.keys() - {"http"}:
        raise BadAttribute("DeliveryPolicy: unexpected fields")
    _check_retries(web.get("defaultHealthyRetryPolicy"), "http.defaultHealthyRetryPolicy", whole=False)
    _check_throttle(web.get("defaultThrottlePolicy"), "http.defaultThrottlePolicy")
    _check_request(web.get("defaultRequestPolicy"), "http.defaultRequestPolicy")
    kept = {"disableSubscriptionOverrides": False} | {name: value for name, value in web.items() if value is not None}
    return encoded({"http": kept})


def read_subscription_delivery(text: str) -> str:
    """The policy as it is kept: with every member, in the order of AWS."""
    found = _delivery(text)
    if found.keys() - _SUBSCRIPTION_DELIVERY.keys():
        raise BadAttribute("DeliveryPolicy: unexpected fields")
    _check_retries(found.get("healthyRetryPolicy"), "healthyRetryPolicy", whole=True)
    _check_throttle(found.get("throttlePolicy"), "throttlePolicy")
    _check_request(found.get("requestPolicy"), "requestPolicy")
    return encoded(_SUBSCRIPTION_DELIVERY | found)


def effective_topic_delivery(text: str | None) -> str:
    web = (document(text or "{}") or {}).get("http", {})
    shown = {
        "defaultHealthyRetryPolicy": DEFAULT_RETRIES | (web.get("defaultHealthyRetryPolicy") or {}),
        "disableSubscriptionOverrides": bool(web.get("disableSubscriptionOverrides", False)),
        "defaultRequestPolicy": DEFAULT_REQUEST | (web.get("defaultRequestPolicy") or {}),
    }
    if web.get("defaultThrottlePolicy"):
        shown["defaultThrottlePolicy"] = web["defaultThrottlePolicy"]
    return encoded({"http": shown})


def effective_subscription_delivery(text: str | None, topic_text: str | None) -> str:
    own = document(text or "{}") or {}
    web = msgspec.json.decode(effective_topic_delivery(topic_text))["http"]
    if web["disableSubscriptionOverrides"]:
        own = {}
    return encoded(
        {
            "healthyRetryPolicy": web["defaultHealthyRetryPolicy"] | (own.get("healthyRetryPolicy") or {}),
            "sicklyRetryPolicy": None,
            "throttlePolicy": own.get("throttlePolicy") or web.get("defaultThrottlePolicy"),
            "requestPolicy": web["defaultRequestPolicy"] | (own.get("requestPolicy") or {}),
            "guaranteed": False,
        }
    )


def _delivery(text: str) -> dict[str, Any]:
    found = document(text)
    if found is None:
        raise BadAttribute("DeliveryPolicy: failed to parse JSON.")
    return found


def _check_retries(policy: Any, place: str, *, whole: bool) -> None:
    if policy is None:
        return
    if not isinstance(policy, dict):
        raise BadAttribute(f"DeliveryPolicy: {place} must be an object")
    for name in ("minDelayTarget", "maxDelayTarget", "numRetries") if whole else ():
        if policy.get(name) is None:
            raise BadAttribute(f"DeliveryPolicy: {place}.{name} must be specified")
    for name, bounds in _BOUNDS.items():
        if policy.get(name) is not None:
            _check_number(policy[name], bounds, f"{place}.{name}")
    counts = DEFAULT_RETRIES | {name: value for name, value in policy.items() if value is not None}
    if counts["minDelayTarget"] > counts["maxDelayTarget"]:
        raise BadAttribute(f"DeliveryPolicy: {place}.maxDelayTarget must be greater than or equal to minDelayTarget")
    if counts["numNoDelayRetries"] + counts["numMinDelayRetries"] + counts["numMaxDelayRetries"] > counts["numRetries"]:
        raise BadAttribute(
            f"DeliveryPolicy: {place}.numRetries must be greater than or equal to total of numMinDelayRetries, "
            "numNoDelayRetries and numMaxDelayRetries"
        )
    if counts["backoffFunction"] not in BACKOFFS:
        raise BadAttribute(f"DeliveryPolicy: {place}.backoffFunction must be one of {', '.join(BACKOFFS)}")


def _check_throttle(policy: Any, place: str) -> None:
    if policy is None:
        return
    if not isinstance(policy, dict):
        raise BadAttribute(f"DeliveryPolicy: {place} must be an object")
    if policy.get("maxReceivesPerSecond") is not None:
        _check_number(policy["maxReceivesPerSecond"], (1, 100_000), f"{place}.maxReceivesPerSecond")


def _check_request(policy: Any, place: str) -> None:
    if policy is None:
        return
    content_type = policy.get("headerContentType") if isinstance(policy, dict) else ""
    if content_type is None:
        return
    if not isinstance(content_type, str) or content_type.partition(";")[0].strip().lower() not in CONTENT_TYPES:
        raise BadAttribute(f"DeliveryPolicy: {place}.headerContentType is not supported")


def _check_number(value: Any, bounds: tuple[int, int], place: str) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        raise BadAttribute(f"DeliveryPolicy: {place} must be an integer")
    if value < bounds[0]:
        raise BadAttribute(f"DeliveryPolicy: {place} must be greater than or equal to {bounds[0]}")
    if value > bounds[1]:
        raise BadAttribute(f"DeliveryPolicy: {place} must be less than or equal to {bounds[1]}")


# Where undeliverable messages go


def check_redrive(text: str, region: str, *, fifo: bool) -> None:
    """`fifo`: both the topic and the subscribed queue are."""
    found = document(text)
    if found is None:
        raise BadAttribute("RedrivePolicy: failed to parse JSON.")
    given = found.get("deadLetterTargetArn")
    arn = parse_arn(given) if isinstance(given, str) else None
    if arn is None or arn.service != "sqs":
        raise BadAttribute("RedrivePolicy: deadLetterTargetArn is an invalid arn")
    if arn.region != region:
        raise BadAttribute("RedrivePolicy: deadLetterTargetArn must be in the same region as the subscription")
    if fifo and not arn.resource.endswith(".fifo"):
        raise BadAttribute("RedrivePolicy: must use a FIFO queue as DLQ for a FIFO Subscription to a FIFO Topic.")


def dead_letter_queue(text: str) -> str:
    """The name of the queue in a RedrivePolicy that was checked."""
    return str((document(text) or {}).get("deadLetterTargetArn")).rpartition(":")[2]


# What it hides


def check_data_protection(text: str) -> None:
    if len(text.encode()) > ATTRIBUTE_BYTES:
        raise invalid("DataProtectionPolicy", f"the value has more than {ATTRIBUTE_BYTES} bytes")
    found = document(text)
    statements = found.get("Statement") if found is not None else None
    if found is None or not isinstance(statements, list) or not statements:
        raise _bad_protection("Failed to parse policy document")
    for statement in statements:
        if not isinstance(statement, dict) or statement.get("DataDirection") not in ("Inbound", "Outbound"):
            raise _bad_protection("Statement DataDirection must be either Inbound or Outbound")
        if not statement.get("DataIdentifier"):
            raise _bad_protection("Statement DataIdentifier must not be empty")
        if not isinstance(statement.get("Operation"), dict) or len(statement["Operation"]) != 1:
            raise _bad_protection("Statement must have exactly one Operation")


def _bad_protection(reason: str) -> AwsError:
    return invalid("DataProtectionPolicy", reason)

"""What things are called at the SNS door: ARNs of topics and subscriptions, links, and where a page of a list ends."""

from __future__ import annotations

import re
from base64 import b64decode, b64encode

from penstock import limits
from penstock.errors import SubscriptionNotFound, TopicNotFound
from penstock.model.arns import Arn, parse_arn, queue_arn
from penstock.wire.aws.errors import AwsError
from penstock.wire.aws.gateway import Call
from penstock.wire.sns.errors import invalid, no_value

PAGE = 100

_QUEUE_URL = re.compile(r"https?://[^/?#\s]+/[0-9]{12}/(?P<name>[^/?#\s]+)")
_KEY = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def base_url(call: Call, given: str | None) -> str:
    """The URL under which recipients of notifications reach the server."""
    if given is not None:
        return given
    return f"http://{call.request.found.get(b'host', b'localhost').decode('latin-1')}"


def resource_in(call: Call, text: str | None, parameter: str) -> str:
    """What an ARN of this service and region names."""
    if text is None:
        raise no_value(parameter)
    count = text.count(":") + 1
    if count < 6:
        raise invalid(parameter, f"An ARN must have at least 6 elements, not {count}")
    arn = parse_arn(text)
    if arn is None or arn.service != "sns" or arn.region != call.region:
        raise invalid(parameter)
    return arn.resource


def topic_in(call: Call, text: str | None, parameter: str = "TopicArn") -> str:
    name = resource_in(call, text, parameter)
    if limits.TOPIC_NAME.fullmatch(name) is None:
        raise TopicNotFound()
    return name


def subscription_in(call: Call, text: str | None) -> tuple[str, str]:
    """The topic and the key of the subscription that an ARN names."""
    resource = resource_in(call, text, "SubscriptionArn")
    topic, colon, key = resource.rpartition(":")
    if not colon:
        raise invalid("SubscriptionId")
    if _KEY.fullmatch(key) is None:
        raise SubscriptionNotFound()
    return topic, key


def queue_in(text: str) -> Arn | None:
    """The ARN of a queue, in whatever region; None when the text is anything else."""
    arn = parse_arn(text)
    if arn is None or arn.service != "sqs" or limits.QUEUE_NAME.fullmatch(arn.resource) is None:
        return None
    return arn


def queue_at(url: str, region: str) -> Arn | None:
    """The ARN of the queue with this URL, in the region of the call; None when the text is no URL of a queue."""
    found = _QUEUE_URL.fullmatch(url)
    if found is None or limits.QUEUE_NAME.fullmatch(found["name"]) is None:
        return None
    return parse_arn(queue_arn(region, found["name"]))


# Pages


def page_token(last: str) -> str:
    return b64encode(last.encode()).decode()


def page_start(token: str | None) -> str:
    if not token:
        return ""
    try:
        start = b64decode(token.encode(), validate=True).decode()
    except ValueError:
        raise bad_token() from None
    if not start or "\0" in start:
        raise bad_token()
    return start


def page_number(token: str | None) -> int:
    text = page_start(token)
    if not text:
        return 0
    if not (text.isascii() and text.isdecimal() and len(text) < 19):
        raise bad_token()
    return int(text)


def bad_token() -> AwsError:
    return invalid("NextToken")

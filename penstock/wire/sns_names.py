"""What things are called at the SNS door: ARNs of topics and subscriptions, links, and where a page of a list ends."""

from __future__ import annotations

import re
from base64 import b64decode, b64encode

from penstock import limits
from penstock.errors import SubscriptionNotFound, TopicNotFound
from penstock.wire.aws import ACCOUNT, Arn, Call, parse_arn, partition_of
from penstock.wire.aws_errors import AwsError
from penstock.wire.sns_errors import invalid, no_value

PAGE = 100
FIRST_SEQUENCE_NUMBER = 10**19

_KEY = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def sns_arn(region: str, resource: str) -> str:
    return str(Arn(partition_of(region), "sns", region, ACCOUNT, resource))


def subscription_arn(region: str, topic: str, key: str) -> str:
    return sns_arn(region, f"{topic}:{key}")


def sequence_number(number: int) -> str:
    """Twenty digits that rise with every publish to a topic."""
    return str(FIRST_SEQUENCE_NUMBER + number)


def base_url(call: Call, given: str | None) -> str:
    """How whoever is told about this call can reach the server."""
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


def queue_in(text: str, region: str) -> str | None:
    """The name of a queue in this region; None when the ARN is of anything else."""
    arn = parse_arn(text)
    if arn is None or arn.service != "sqs" or arn.region != region:
        return None
    return arn.resource if limits.QUEUE_NAME.fullmatch(arn.resource) else None


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

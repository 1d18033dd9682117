"""The endpoints that each protocol of a subscription accepts."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from penstock import limits
from penstock.model.arns import Arn, parse_arn
from penstock.wire.sns.errors import invalid, sns_error
from penstock.wire.sns.names import queue_in

PROTOCOLS = ("http", "https", "email", "email-json", "sms", "sqs", "application", "lambda", "firehose")
CONFIRMED_BY_THE_ENDPOINT = ("http", "https", "email", "email-json")
"""These endpoints are asked to confirm. The others belong to the subscriber."""

PHONE = re.compile(r"\+[1-9][0-9]{3,14}")
_SEPARATED_PHONE = re.compile(r"\+[0-9]+([./-][0-9]+)*")
_SEPARATORS = str.maketrans("", "", "./-")
_EMAIL = re.compile(r"[^@\s\0]{1,64}@[^@\s\0]{1,255}")
_FIFO_QUEUE = "FIFO SQS Queues can not be subscribed to standard SNS topics"


def check_endpoint(protocol: str, endpoint: str, topic: str) -> Arn | None:
    """Raise unless such a subscription may be; the ARN of the queue when it is one."""
    if protocol not in PROTOCOLS:
        raise invalid(f"Amazon SNS does not support this protocol string: {protocol}")
    if not endpoint or len(endpoint.encode()) > limits.ENDPOINT_BYTES or "\0" in endpoint:
        raise invalid("Endpoint")
    if topic.endswith(".fifo") and protocol != "sqs":
        raise invalid(f"Invalid protocol type: {protocol}")
    if protocol == "sqs":
        return _check_queue(endpoint, topic)
    if protocol in ("http", "https"):
        _check_url(protocol, endpoint)
    elif protocol in ("email", "email-json"):
        if _EMAIL.fullmatch(endpoint) is None:
            raise invalid("Email address")
    elif protocol == "sms":
        if not _is_phone(endpoint):
            raise sns_error("InvalidParameterException", f"Invalid SMS endpoint: {endpoint}")
    else:
        _check_arn(protocol, endpoint)
    return None


def _is_phone(endpoint: str) -> bool:
    """A number in E.164 form, whose digits may have single separators between them."""
    separated = _SEPARATED_PHONE.fullmatch(endpoint) is not None
    return separated and PHONE.fullmatch(endpoint.translate(_SEPARATORS)) is not None


def _check_queue(endpoint: str, topic: str) -> Arn:
    queue = queue_in(endpoint)
    if queue is None:
        raise invalid("SQS endpoint ARN")
    if queue.resource.endswith(".fifo") and not topic.endswith(".fifo"):
        # Amazon says it twice.
        raise invalid("Invalid parameter: Endpoint", _FIFO_QUEUE)
    return queue


def _check_url(protocol: str, endpoint: str) -> None:
    if not endpoint.startswith(f"{protocol}://"):
        raise invalid("Endpoint must match the specified protocol")
    try:
        host = urlsplit(endpoint).hostname
    except ValueError:
        host = None
    if not host or any(character.isspace() for character in endpoint):
        raise invalid("Unreachable Endpoint")


def _check_arn(protocol: str, endpoint: str) -> None:
    arn = parse_arn(endpoint)
    if protocol == "application":
        if arn is None or arn.service != "sns" or not arn.resource.startswith("endpoint/"):
            raise invalid(f"Application endpoint arn invalid:{endpoint}")
    elif arn is None or arn.service != protocol:
        raise invalid(f"{protocol.capitalize()} endpoint ARN")

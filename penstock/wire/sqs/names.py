"""What things are called at the SQS door: queue URLs and ARNs, message ids, sequence numbers, senders."""

from __future__ import annotations

from base64 import b32encode
from functools import lru_cache
from hashlib import sha256

from penstock import limits
from penstock.errors import QueueNotFound
from penstock.model import TenantId
from penstock.model.arns import ACCOUNT, parse_arn
from penstock.wire.aws.errors import missing
from penstock.wire.aws.gateway import Call

LONGEST_KNOWN_URL = 2048
"""A longer URL names no queue, and is not remembered."""

REMEMBERED_CHARACTERS = 512
"""A longer URL is read anew each time: the cache is bounded by its entries."""
_FIRST_SEQUENCE_NUMBER = 18_800_000_000_000_000_000


def queue_name(call: Call, url: str | None) -> str:
    """The queue that a request is about. The host of the URL does not matter, and a bare name will do."""
    if not url:
        url = call.path
        if not url:
            raise missing("QueueUrl")
    name = _remembered_name(url) if len(url) <= REMEMBERED_CHARACTERS else _name_in(url)
    if name is None:
        raise QueueNotFound(url[:LONGEST_KNOWN_URL])
    return name


def _name_in(url: str) -> str | None:
    name = url.rpartition("/")[2]
    return name if limits.QUEUE_NAME.fullmatch(name) else None


_remembered_name = lru_cache(4096)(_name_in)


def queue_url(call: Call, name: str, base_url: str | None) -> str:
    if base_url is None:
        host = call.request.found.get(b"host", b"localhost").decode("latin-1")
        base_url = f"http://{host}"
    return f"{base_url}/{ACCOUNT}/{name}"


def queue_in_arn(text: str, region: str) -> str | None:
    """The name of a queue in this region; None when the ARN is of anything else."""
    arn = parse_arn(text)
    if arn is None or arn.service != "sqs" or arn.region != region:
        return None
    return arn.resource if limits.QUEUE_NAME.fullmatch(arn.resource) else None


def sequence_number(message_id: int) -> str:
    """Twenty digits that rise within a queue, as the ids of its messages do."""
    return str(_FIRST_SEQUENCE_NUMBER + message_id)


@lru_cache(1024)
def sender_id(tenant: TenantId) -> str:
    """The id of an IAM user, as it were."""
    return "AIDA" + b32encode(sha256(f"tenant {tenant}".encode()).digest()).decode()[:17]

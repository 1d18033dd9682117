"""What things are called at the SQS door: queue URLs and ARNs, message ids, sequence numbers, senders."""

from __future__ import annotations

from base64 import b32encode
from functools import lru_cache
from hashlib import sha256

from penstock import limits
from penstock.errors import QueueNotFound
from penstock.model import TenantId
from penstock.wire.aws import ACCOUNT, Arn, Call, parse_arn, partition_of
from penstock.wire.aws_errors import missing

_SPACE = (1 << 60) - 1
_STIR = 0x9E3779B97F4A7C1
_STIR_AGAIN = 0xD1B54A32D192ED3
_STIR_BACK, _STIR_AGAIN_BACK = pow(_STIR, -1, 1 << 60), pow(_STIR_AGAIN, -1, 1 << 60)
_TAIL = 0x2545F4914F6CDD1D
_FIRST_SEQUENCE_NUMBER = 18_800_000_000_000_000_000


def queue_name(call: Call, url: str | None) -> str:
    """The queue that a request is about. The host of the URL does not matter, and a bare name will do."""
    if not url:
        url = call.path
        if not url:
            raise missing("QueueUrl")
    name = _name_in(url)
    if name is None:
        raise QueueNotFound(url)
    return name


@lru_cache(4096)
def _name_in(url: str) -> str | None:
    name = url.rpartition("/")[2]
    return name if limits.QUEUE_NAME.fullmatch(name) else None


def queue_url(call: Call, name: str, base_url: str | None) -> str:
    if base_url is None:
        host = call.request.found.get(b"host", b"localhost").decode("latin-1")
        base_url = f"http://{host}"
    return f"{base_url}/{ACCOUNT}/{name}"


def queue_arn(region: str, name: str) -> str:
    return str(Arn(partition_of(region), "sqs", region, ACCOUNT, name))


def queue_in_arn(text: str, region: str) -> str | None:
    """The name of a queue in this region; None when the ARN is of anything else."""
    arn = parse_arn(text)
    if arn is None or arn.service != "sqs" or arn.region != region:
        return None
    return arn.resource if limits.QUEUE_NAME.fullmatch(arn.resource) else None


def uuid_of(number: int) -> str:
    """A UUID of version 8 for one of our numbers. Neighbours look nothing alike; `number_of` leads back."""
    stirred = (number * _STIR) & _SPACE
    stirred = ((stirred ^ (stirred >> 30)) * _STIR_AGAIN) & _SPACE
    tail = (number * _TAIL) & 0x3FFFFFFFFFFFFFFF | 0x8000000000000000
    return (
        f"{stirred >> 28:08x}-{stirred >> 12 & 0xFFFF:04x}-8{stirred & 0xFFF:03x}-{tail >> 48:04x}"
        f"-{tail & 0xFFFFFFFFFFFF:012x}"
    )


def number_of(uuid: str) -> int | None:
    """The number behind a UUID of ours; None for any other."""
    digits = uuid.replace("-", "")
    try:
        stirred = int(digits[:12] + digits[13:16], 16)
    except ValueError:
        return None
    stirred = (stirred * _STIR_AGAIN_BACK) & _SPACE
    number = ((stirred ^ (stirred >> 30)) * _STIR_BACK) & _SPACE
    return number if uuid_of(number) == uuid else None


def sequence_number(message_id: int) -> str:
    """Twenty digits that rise within a queue, as the ids of its messages do."""
    return str(_FIRST_SEQUENCE_NUMBER + message_id)


@lru_cache(1024)
def sender_id(tenant: TenantId) -> str:
    """The id of an IAM user, as it were."""
    return "AIDA" + b32encode(sha256(f"tenant {tenant}".encode()).digest()).decode()[:17]

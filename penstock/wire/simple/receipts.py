"""Receipt handles that are UUIDs, and that name a message without naming its queue.

Of the 122 bits a UUID of version 8 leaves, 22 are a hash of the queue's name, 52 the lease and 48 the message id. The
door finds the queue by the hash among the names it has seen; a message id is unique in the database, so two queues of
one hash are no harm: the message is in one of them.
"""

from __future__ import annotations

import re
from functools import lru_cache
from time import monotonic
from zlib import crc32

from penstock.engine.queues.queues import Queues
from penstock.errors import InvalidReceipt
from penstock.model import Message, TenantId
from penstock.model.uuids import uuid_text

_UUID = re.compile(r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}")
_TAGS = 22
_TAG = (1 << _TAGS) - 1
_LEASE = (1 << 52) - 1
_ID = (1 << 48) - 1
_TAIL = (1 << 62) - 1

LIST_EVERY_S = 1.0
"""An unknown hash makes the door list the tenant's queues, at most this often."""
PAGE = 1000


@lru_cache(1024)
def tag_of(queue: str) -> int:
    return crc32(queue.encode()) & _TAG


def encode(queue: str, message: Message) -> str:
    lease = message.lease & _LEASE
    # The lease is cut into three: 26 bits beside the hash, 12 in the middle, 14 beside the id.
    return uuid_text(tag_of(queue) << 26 | lease >> 26, lease >> 14 & 0xFFF, (lease & 0x3FFF) << 48 | message.id & _ID)


def decode(receipt: str) -> tuple[int, int, int] | None:
    """Hash of the queue's name, message id and lease; None for a UUID that is no receipt of ours."""
    if _UUID.fullmatch(receipt) is None:
        raise InvalidReceipt("receipt_handles must be UUIDs", field="receipt_handles")
    number = int(receipt.replace("-", ""), 16)
    if number >> 76 & 0xF != 8 or number >> 62 & 0b11 != 0b10:
        return None
    number = number >> 80 << 74 | (number >> 64 & 0xFFF) << 62 | number & _TAIL
    return number >> 100, number & _ID, number >> 48 & _LEASE


class QueueNames:
    """Names of queues by their hash, per tenant."""

    def __init__(self, queues: Queues) -> None:
        self._queues = queues
        self._names: dict[tuple[TenantId, int], list[str]] = {}
        self._seen: set[tuple[TenantId, str]] = set()
        self._listed: dict[TenantId, float] = {}

    def see(self, tenant: TenantId, name: str) -> None:
        if (tenant, name) not in self._seen:
            self._seen.add((tenant, name))
            self._names.setdefault((tenant, tag_of(name)), []).append(name)

    def known(self, tenant: TenantId, tag: int) -> list[str]:
        return self._names.get((tenant, tag), [])

    async def look(self, tenant: TenantId) -> bool:
        """Learn the queues that others have created; False when that was done a moment ago."""
        now = monotonic()
        if self._listed.get(tenant, 0.0) > now:
            return False
        self._listed[tenant] = now + LIST_EVERY_S
        after = ""
        while page := await self._queues.list(tenant, after=after, limit=PAGE):
            for queue in page:
                self.see(tenant, queue.name)
            after = page[-1].name
        return True

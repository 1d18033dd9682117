"""Private queues: records addressed by unguessable ids, a different one for each party."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

SIGNED = "penstock-private-1"
"""First line of every signed text, so that a signature made for something else never fits."""


def signed_text(method: str, target: str, seconds: int, nonce: str, body: bytes | bytearray) -> bytes:
    """What a party signs: method, path with query, seconds since 1970, a nonce, and the SHA-256 of the body in hex."""
    return "\n".join([SIGNED, method, target, str(seconds), nonce, hashlib.sha256(body).hexdigest()]).encode()


class Party(StrEnum):
    """Who addresses a private queue, and so which id finds it."""

    RECIPIENT = "recipient"
    """Reads messages and manages the queue."""
    SENDER = "sender"
    """Only sends."""
    NOTIFIER = "notifier"
    """Only learns that messages wait."""
    LINK = "link"
    """Only reads the data of a short link."""


class PrivateStatus(StrEnum):
    ACTIVE = "active"
    SUSPENDED = "suspended"
    """By the recipient: nothing more can be sent."""
    BLOCKED = "blocked"
    """By the operator, for a reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateRecord:
    """A private queue as the database has it. Link data is not part of it: it is read when asked for.

    The ids belong to different parties, so nothing may show two of them together: `repr` shows the number alone.
    """

    number: int
    version: int
    """Rises with every change: of two copies the higher one is the truth."""
    recipient_id: bytes
    sender_id: bytes
    notifier_id: bytes | None = None
    link_id: bytes | None = None
    recipient_keys: tuple[bytes, ...]
    sender_key: bytes | None = None
    notifier_key: bytes | None = None
    status: PrivateStatus = PrivateStatus.ACTIVE
    block_reason: str | None = None
    webhook_key: str | None = None
    """Key of the subscription that tells the notifier's endpoint."""
    service_id: int | None = None
    created_at: datetime
    touched_at: datetime

    def id_of(self, party: Party) -> bytes | None:
        return {
            Party.RECIPIENT: self.recipient_id,
            Party.SENDER: self.sender_id,
            Party.NOTIFIER: self.notifier_id,
            Party.LINK: self.link_id,
        }[party]

    def keys_of(self, party: Party) -> tuple[bytes, ...]:
        """Public keys that may sign for a party; none for a sender before the queue is secured."""
        if party is Party.RECIPIENT:
            return self.recipient_keys
        key = self.sender_key if party is Party.SENDER else self.notifier_key
        return () if key is None else (key,)

    def __repr__(self) -> str:
        return f"PrivateRecord(number={self.number}, version={self.version})"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPrivateQueue:
    """A record on its way in: from a request, or from another system."""

    recipient_id: bytes
    sender_id: bytes
    recipient_keys: tuple[bytes, ...]
    sender_key: bytes | None = None
    notifier_id: bytes | None = None
    notifier_key: bytes | None = None
    link_id: bytes | None = None
    fixed_data: bytes | None = field(default=None)
    mutable_data: bytes | None = field(default=None)

    def __repr__(self) -> str:
        return "NewPrivateQueue(...)"


@dataclass(frozen=True, slots=True)
class LinkData:
    """What a short link leads to: a part that is set once, and a part that may change."""

    fixed: bytes
    mutable: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateCounts:
    """How many there are; deleted ones wait to be compacted and are not among the queues."""

    queues: int
    secured: int
    notifiers: int
    links: int
    services: int
    deleted: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSummary:
    """The queues of a service: how many, and a hash that does not depend on their order."""

    id: int
    queues: int
    hash: str

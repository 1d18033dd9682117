"""The shapes of the private queue API. Ids, keys and link data are base64 for URLs, without padding."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from msgspec import Meta, Struct

from penstock import limits
from penstock.model.private import PrivateStatus

Id = Annotated[str, Meta(description="24 bytes in base64 for URLs: 32 characters.")]
Key = Annotated[str, Meta(description="An Ed25519 public key: 32 bytes in base64 for URLs, 43 characters.")]
Data = Annotated[str, Meta(description="Bytes in base64 for URLs, without padding.")]
Moment = Annotated[datetime, Meta(tz=True)]


class Strict(Struct, forbid_unknown_fields=True, kw_only=True):
    """A request; an unknown field is refused."""


class NewPrivateQueue(Strict):
    recipient_key: Key
    sender_key: Key | None = None


class NewPrivateQueues(Strict):
    queues: Annotated[list[NewPrivateQueue], Meta(min_length=1, max_length=limits.PRIVATE_BATCH[1])]


class CreatedPrivateQueue(Struct):
    recipient_id: Id
    sender_id: Id


class CreatedPrivateQueues(Struct):
    queues: list[CreatedPrivateQueue]


class PrivateQueue(Struct, kw_only=True):
    """A private queue as its recipient sees it."""

    recipient_id: Id
    sender_id: Id
    notifier_id: Id | None
    link_id: Id | None
    is_secured: bool
    has_webhook: bool
    status: PrivateStatus
    block_reason: str | None
    service_id: int | None
    created_at: Moment


class PrivateQueueSender(Struct, kw_only=True):
    """A private queue as its sender sees it."""

    is_secured: bool
    status: PrivateStatus


class SignedLookup(Strict):
    """A signed GET of one id: what its headers would say."""

    id: Id
    timestamp: Annotated[int, Meta(ge=0, le=253_402_300_799)]
    nonce: Annotated[str, Meta(max_length=64)]
    signature: Data


class Lookups(Strict):
    requests: Annotated[list[SignedLookup], Meta(min_length=1, max_length=limits.PRIVATE_BATCH[1])]


class FoundRecipient(Struct):
    id: Id
    queue: PrivateQueue | None
    """Null when it does not exist, or the request is not signed with its key."""


class FoundSender(Struct):
    id: Id
    queue: PrivateQueueSender | None


class FoundNotifier(Struct):
    id: Id
    exists: bool


class GivenKey(Strict):
    key: Key


class GivenKeys(Strict):
    keys: Annotated[list[Key], Meta(min_length=limits.PRIVATE_KEYS[0], max_length=limits.PRIVATE_KEYS[1])]


class CreatedNotifier(Struct):
    notifier_id: Id


class GivenLink(Strict):
    fixed: Annotated[Data, Meta(description="Set once.")]
    mutable: Annotated[Data, Meta(description="May be set again.")] = ""
    link_id: Id | None = None


class CreatedLink(Struct):
    link_id: Id


class LinkData(Struct):
    fixed: Data
    mutable: Data


class GivenWebhook(Strict):
    url: Annotated[str, Meta(min_length=1, max_length=limits.ENDPOINT_BYTES)]


class CreatedWebhook(Struct):
    secret: Annotated[str, Meta(description="Signs the requests, as Standard Webhooks say.")]


class GivenService(Strict):
    service_id: Annotated[int, Meta(ge=1, le=(1 << 63) - 1)] | None


class NewService(Strict):
    fingerprint: Annotated[Data, Meta(description="SHA-256 of the certificate: 32 bytes.")]


class Service(Struct, kw_only=True):
    service_id: int
    queues: int
    hash: Annotated[str, Meta(description="Of the recipient ids of its queues, whatever their order.")]


class Block(Strict):
    """Names the queue by one of its ids; without a reason, a block is lifted."""

    recipient_id: Id | None = None
    sender_id: Id | None = None
    reason: str | None = None


class Counts(Struct, kw_only=True):
    queues: int
    secured: int
    notifiers: int
    links: int
    services: int
    deleted: int


class NewPrivateMessage(Strict):
    message: str
    delay: Annotated[int, Meta(ge=limits.DELAY_S[0], le=limits.DELAY_S[1])] | None = None


class PrivateReceiveQuery(Strict):
    max: Annotated[int, Meta(ge=1, le=100)] = 1
    wait: Annotated[int, Meta(ge=limits.RECEIVE_WAIT_S[0], le=limits.RECEIVE_WAIT_S[1])] = 0
    visibility_timeout: (
        Annotated[int, Meta(ge=limits.VISIBILITY_TIMEOUT_S[0], le=limits.VISIBILITY_TIMEOUT_S[1])] | None
    ) = None


class NotifierQuery(Strict):
    wait: Annotated[int, Meta(ge=limits.RECEIVE_WAIT_S[0], le=limits.RECEIVE_WAIT_S[1])] = 0


class NoQuery(Strict):
    pass


class PrivateMessage(Struct, kw_only=True):
    message: str
    receipt: Annotated[str, Meta(description="Deletes the message.")]
    sent_at: Moment
    receives: int


class Waiting(Struct):
    waiting: bool

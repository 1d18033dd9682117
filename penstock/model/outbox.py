"""The outbox: what would leave the machine for a phone or a mailbox, and the records of those it is for."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from penstock.model.tenants import TenantId


class Channel(StrEnum):
    """How it would have travelled."""

    SMS = "sms"
    EMAIL = "email"
    EMAIL_JSON = "email-json"
    PUSH = "application"
    LAMBDA = "lambda"
    FIREHOSE = "firehose"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewOutboxItem:
    tenant: TenantId
    channel: Channel
    address: str
    """A phone number, a mail address, the ARN of an endpoint or a function."""
    message_id: str
    body: str
    subject: str | None = None
    topic: str | None = None
    attributes: str | None = None
    """As `Send.attributes`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxItem(NewOutboxItem):
    id: int
    created_at: datetime


class RecordKind(StrEnum):
    """What the SNS door keeps for its clients; nothing else acts upon it."""

    APPLICATION = "application"
    ENDPOINT = "endpoint"
    SMS_SETTINGS = "sms"
    SANDBOX_NUMBER = "sandbox"
    OPTED_OUT = "opted_out"


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    kind: RecordKind
    name: str
    handle: str | None
    """A second name, unique among its kind."""
    attributes: dict[str, str]
    created_at: datetime

"""What a subscriber is sent: the envelope of a notice, its headers, and its signature.

The envelope and the text that is signed are those of SNS, so that existing verifiers accept them. One key serves all
nodes: the first node that needs it makes it, and the store keeps it. A signature does not cover the subscription, so a
publish is signed once for all subscribers.
"""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from hashlib import sha256
from urllib.parse import quote
from uuid import uuid4

import msgspec

from penstock.clock import Clock
from penstock.engine.topics.filters.policy import Attribute
from penstock.model.topics import Topic
from penstock.store import Store

CERTIFICATE_NAME = "SimpleNotificationService"
KEY_NAME = "notices"
"""What the store keeps the key under."""
KEY_BITS = 2048
CERTIFICATE_LASTS = timedelta(days=36_500)

USER_AGENT = "Amazon Simple Notification Service Agent"

_json = msgspec.json.Encoder().encode


class Kind(StrEnum):
    NOTIFICATION = "Notification"
    SUBSCRIPTION = "SubscriptionConfirmation"
    UNSUBSCRIPTION = "UnsubscribeConfirmation"


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """One message on its way to subscribers."""

    message_id: str
    topic_arn: str
    message: str
    sent_at: datetime
    kind: Kind = Kind.NOTIFICATION
    subject: str | None = None
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    sequence_number: str | None = None
    """Of FIFO topics, whose notices are not signed."""
    signature_version: str = "1"
    token: str | None = None
    """Of confirmations: what proves that the endpoint has received this."""


def confirmation(
    kind: Kind, topic_arn: str, subscription_arn: str, token: str, sent_at: datetime, signature_version: str
) -> Notice:
    """The notice that asks an endpoint to confirm its subscription, or tells it that the subscription has ended."""
    if kind is Kind.SUBSCRIPTION:
        message = (
            f"You have chosen to subscribe to the topic {topic_arn}.\n"
            "To confirm the subscription, visit the SubscribeURL included in this message."
        )
    else:
        message = (
            f"You have chosen to deactivate subscription {subscription_arn}.\n"
            "To cancel this operation and restore the subscription, visit the SubscribeURL included in this message."
        )
    return Notice(
        message_id=str(uuid4()),
        topic_arn=topic_arn,
        message=message,
        sent_at=sent_at,
        kind=kind,
        signature_version=signature_version,
        token=token,
    )


def headers_of(kind: Kind, message_id: str, topic_arn: str, subscription_arn: str | None) -> dict[str, str]:
    """The headers of a request that carries a notice."""
    headers = {
        "content-type": "text/plain; charset=UTF-8",
        "user-agent": USER_AGENT,
        "accept-encoding": "gzip,deflate",
        "x-amz-sns-message-type": kind.value,
        "x-amz-sns-message-id": message_id,
        "x-amz-sns-topic-arn": topic_arn,
    }
    if subscription_arn is not None:
        headers["x-amz-sns-subscription-arn"] = subscription_arn
    return headers


def signature_version_of(topic: Topic | None) -> str:
    """Topics of SNS use version 1 unless told otherwise; events of no topic use version 2."""
    version = "2" if topic is None else topic.attributes.get("SignatureVersion")
    return version if version in ("1", "2") else "1"


@dataclass(frozen=True, slots=True)
class Signed:
    """A notice for all subscribers: only the link to unsubscribe differs."""

    head: str
    tail: str
    base_url: str
    confirms: bool

    def envelope(self, subscription_arn: str) -> str:
        if self.confirms:
            return f"{self.head}{self.tail}\n}}"
        url = f"{self.base_url}/?Action=Unsubscribe&SubscriptionArn={quote(subscription_arn, safe=':')}"
        return f'{self.head},\n  "UnsubscribeURL" : {_text(url)}{self.tail}\n}}'


class Signer:
    """Signs notices with the key that all nodes of a database share."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._key: _Key | None = None
        self._loading = asyncio.Lock()

    async def certificate(self) -> str:
        """In PEM."""
        return (await self._loaded()).certificate

    async def sign(self, notice: Notice, base_url: str) -> Signed:
        """`base_url` is how subscribers reach this server: links in the envelope begin with it."""
        fields = _fields(notice, base_url)
        if notice.sequence_number is None:
            key = await self._loaded()
            fields["SignatureVersion"] = notice.signature_version
            fields["Signature"] = key.sign(signed_text(fields), notice.signature_version)
            fields["SigningCertURL"] = f"{base_url}/{key.file_name}"
        head = ",\n".join(f'  "{name}" : {_text(value)}' for name, value in fields.items())
        tail = _attributes_shown(notice.attributes) if notice.attributes else ""
        return Signed("{\n" + head, tail, base_url, notice.kind is not Kind.NOTIFICATION)

    async def _loaded(self) -> _Key:
        if self._key is None:
            async with self._loading:
                if self._key is None:
                    self._key = await self._load()
        return self._key

    async def _load(self) -> _Key:
        kept = await self._store.topics.find_secret(KEY_NAME)
        if kept is None:
            # Making a key takes long enough to hold everyone up.
            made = await asyncio.to_thread(_make_key, self._clock.now())
            kept = await self._store.topics.shared_secret(KEY_NAME, made)
        return _Key(kept)


# Envelopes


def timestamp(moment: datetime) -> str:
    moment = moment.astimezone(UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"


def subscribe_url(base_url: str, topic_arn: str, token: str) -> str:
    return f"{base_url}/?Action=ConfirmSubscription&TopicArn={quote(topic_arn, safe=':')}&Token={token}"


def _fields(notice: Notice, base_url: str) -> dict[str, str]:
    """In Amazon's order."""
    fields: dict[str, str | None] = {
        "Type": notice.kind.value,
        "MessageId": notice.message_id,
        "SequenceNumber": notice.sequence_number,
        "Token": notice.token,
        "TopicArn": notice.topic_arn,
        "Subject": notice.subject,
        "Message": notice.message,
        "SubscribeURL": None if notice.token is None else subscribe_url(base_url, notice.topic_arn, notice.token),
        "Timestamp": timestamp(notice.sent_at),
    }
    return {name: value for name, value in fields.items() if value is not None}


def signed_text(fields: Mapping[str, str]) -> bytes:
    """What Amazon signs: names and values, sorted by name."""
    names: tuple[str, ...]
    if fields["Type"] == Kind.NOTIFICATION:
        names = ("Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type")
    else:
        names = ("Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type")
    return "".join(f"{name}\n{fields[name]}\n" for name in names if name in fields).encode()


def _attributes_shown(attributes: Mapping[str, Attribute]) -> str:
    shown = ",\n".join(
        f"    {_text(name)} : {{{_text('Type')}:{_text(attribute.type)},{_text('Value')}:{_text(attribute.value)}}}"
        for name, attribute in attributes.items()
    )
    return f',\n  "MessageAttributes" : {{\n{shown}\n  }}'


def _text(value: str) -> str:
    return _json(value).decode()


# Keys. The library is heavy and few servers sign anything, so it is imported by who first does.


def _make_key(now: datetime) -> str:
    """A private key and a certificate for its public half, in PEM, one after the other."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(public_exponent=65_537, key_size=KEY_BITS)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "Penstock notices")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + CERTIFICATE_LASTS)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return private.decode() + certificate.public_bytes(serialization.Encoding.PEM).decode()


class _Key:
    def __init__(self, pem: str) -> None:
        private, begin, rest = pem.partition("-----BEGIN CERTIFICATE-----")
        self.certificate = begin + rest
        self.file_name = f"{CERTIFICATE_NAME}-{sha256(self.certificate.encode()).hexdigest()[:32]}.pem"
        self._signers = _signers(private)

    def sign(self, text: bytes, version: str) -> str:
        return b64encode(self._signers[version](text)).decode()


def _signers(private: str) -> dict[str, Callable[[bytes], bytes]]:
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import padding, rsa

    key = serialization.load_pem_private_key(private.encode(), None)
    assert isinstance(key, rsa.RSAPrivateKey)
    # Version 1 is SHA-1, and still what subscribers are sent who have not asked for version 2.
    return {
        "1": lambda text: key.sign(text, padding.PKCS1v15(), hashes.SHA1()),  # noqa: S303
        "2": lambda text: key.sign(text, padding.PKCS1v15(), hashes.SHA256()),
    }

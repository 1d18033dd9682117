"""Envelopes of notices and their signatures, judged by the library that made the key and by a public verifier."""

from __future__ import annotations

import asyncio
import json
from base64 import b64decode
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast

import pytest
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from sns_message_validator import SNSMessageValidator  # type: ignore[import-untyped]

from penstock.clock import FakeClock
from penstock.engine.topics.notices import Kind, Notice, Signed, Signer, signed_text, timestamp
from penstock.store import Store

BASE = "http://127.0.0.1:9324"
TOPIC = "arn:aws:sns:us-east-1:000000000000:orders"
SUBSCRIPTION = f"{TOPIC}:8a21d249-4329-4871-acc6-7be709c6ea7f"
MOMENT = datetime(2026, 1, 2, 3, 4, 5, 678_901, tzinfo=UTC)


@dataclass
class Attribute:
    type: str
    value: str


class Secrets:
    """The part of a store that signers share."""

    def __init__(self) -> None:
        self.topics = self
        self.kept: dict[str, str] = {}
        self.made = 0

    async def find_secret(self, name: str) -> str | None:
        return self.kept.get(name)

    async def shared_secret(self, name: str, fresh: str) -> str:
        self.made += 1
        return self.kept.setdefault(name, fresh)


SECRETS = Secrets()
"""Making a key takes a while, so that these tests share one."""


@pytest.fixture
def signer(clock: FakeClock) -> Signer:
    return Signer(cast(Store, SECRETS), clock)


def notice(**more: Any) -> Notice:
    given = {"message_id": "11111111-2222-4333-8444-555555555555", "topic_arn": TOPIC, "message": "hello"}
    return Notice(**{**given, "sent_at": MOMENT, **more})


def verify(certificate: str, envelope: dict[str, str]) -> None:
    key = x509.load_pem_x509_certificate(certificate.encode()).public_key()
    assert isinstance(key, rsa.RSAPublicKey)
    algorithm = hashes.SHA256() if envelope["SignatureVersion"] == "2" else hashes.SHA1()
    key.verify(b64decode(envelope["Signature"]), signed_text(envelope), padding.PKCS1v15(), algorithm)


async def test_an_envelope_reads_like_one_of_amazon(signer: Signer) -> None:
    attributes = {"colour": Attribute("String", 'b"lue'), "raw": Attribute("Binary", "AgME")}

    text = (await signer.sign(notice(subject="Hi", attributes=attributes), BASE)).envelope(SUBSCRIPTION)

    found = json.loads(text)
    signature, url = found["Signature"], found["SigningCertURL"]
    assert text == (
        "{\n"
        '  "Type" : "Notification",\n'
        '  "MessageId" : "11111111-2222-4333-8444-555555555555",\n'
        f'  "TopicArn" : "{TOPIC}",\n'
        '  "Subject" : "Hi",\n'
        '  "Message" : "hello",\n'
        '  "Timestamp" : "2026-01-02T03:04:05.678Z",\n'
        '  "SignatureVersion" : "1",\n'
        f'  "Signature" : "{signature}",\n'
        f'  "SigningCertURL" : "{url}",\n'
        f'  "UnsubscribeURL" : "{BASE}/?Action=Unsubscribe&SubscriptionArn={SUBSCRIPTION}",\n'
        '  "MessageAttributes" : {\n'
        '    "colour" : {"Type":"String","Value":"b\\"lue"},\n'
        '    "raw" : {"Type":"Binary","Value":"AgME"}\n'
        "  }\n"
        "}"
    )
    assert url.startswith(f"{BASE}/SimpleNotificationService-")
    assert url.endswith(".pem")


@pytest.mark.parametrize("version", ["1", "2"])
@pytest.mark.parametrize("subject", [None, "Subject"])
async def test_signatures_are_good_in_both_versions(signer: Signer, version: str, subject: str | None) -> None:
    given = notice(message='ü "quoted"\nline', subject=subject, signature_version=version)

    envelope = json.loads((await signer.sign(given, BASE)).envelope(SUBSCRIPTION))

    verify(await signer.certificate(), envelope)
    with pytest.raises(InvalidSignature):
        verify(await signer.certificate(), envelope | {"Message": "another"})


@pytest.mark.parametrize("kind", list(Kind))
async def test_a_public_verifier_accepts_every_kind(
    signer: Signer, kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = None if kind is Kind.NOTIFICATION else "f00d"
    envelope = json.loads((await signer.sign(notice(kind=kind, token=token), BASE)).envelope(SUBSCRIPTION))
    validator = SNSMessageValidator(cert_url_regex=rf"^{BASE}/SimpleNotificationService-[0-9a-f]+\.pem$")

    @dataclass
    class Answer:
        content: bytes

    answer = Answer((await signer.certificate()).encode())
    monkeypatch.setattr(validator._cert_session, "get", lambda url: answer)
    validator.validate_message(envelope)


async def test_a_confirmation_has_a_token_and_a_link_and_nothing_to_unsubscribe(signer: Signer) -> None:
    signed = await signer.sign(notice(kind=Kind.SUBSCRIPTION, token="f00d"), BASE)

    envelope = json.loads(signed.envelope(SUBSCRIPTION))

    assert list(envelope) == [
        "Type", "MessageId", "Token", "TopicArn", "Message", "SubscribeURL", "Timestamp", "SignatureVersion",
        "Signature", "SigningCertURL",
    ]  # fmt: skip
    assert envelope["SubscribeURL"] == f"{BASE}/?Action=ConfirmSubscription&TopicArn={TOPIC}&Token=f00d"


async def test_notices_of_fifo_topics_are_numbered_and_not_signed(signer: Signer) -> None:
    signed = await signer.sign(notice(sequence_number="10000000000000000001"), BASE)

    assert list(json.loads(signed.envelope(SUBSCRIPTION))) == [
        "Type", "MessageId", "SequenceNumber", "TopicArn", "Message", "Timestamp", "UnsubscribeURL",
    ]  # fmt: skip


async def test_one_signature_serves_every_subscriber(signer: Signer) -> None:
    signed = await signer.sign(notice(), BASE)

    envelopes = [json.loads(signed.envelope(f"{TOPIC}:{number}")) for number in range(3)]

    assert isinstance(signed, Signed)
    assert len({envelope["Signature"] for envelope in envelopes}) == 1
    assert len({envelope["UnsubscribeURL"] for envelope in envelopes}) == 3


async def test_nodes_and_restarts_share_one_key(clock: FakeClock) -> None:
    secrets = Secrets()
    first, second = (Signer(cast(Store, secrets), clock) for _ in range(2))

    both = await asyncio.gather(first.certificate(), second.certificate(), first.certificate())
    later = await Signer(cast(Store, secrets), clock).certificate()

    assert {*both, later} == {both[0]}
    assert secrets.made <= 2


def test_a_timestamp_has_milliseconds() -> None:
    assert timestamp(datetime(2026, 1, 2, tzinfo=UTC)) == "2026-01-02T00:00:00.000Z"

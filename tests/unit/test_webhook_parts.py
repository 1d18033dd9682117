"""What webhooks are made of: addresses, delays, circuit breakers, signatures."""

from __future__ import annotations

import json
import socket
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from standardwebhooks import Webhook

from penstock.engine.topics.addresses import AddressRefused, Guard, is_public, refusal_of_host
from penstock.engine.topics.breakers import FAILURES, Breakers
from penstock.engine.topics.retries import JITTER, delays_of, delivery_policy, jittered
from penstock.engine.topics.webhooks import is_secret, new_secret, signature
from penstock.model import DEFAULT_TENANT
from penstock.model.topics import Delivery, DeliveryState


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "127.9.9.9", "0.0.0.0", "10.1.2.3", "172.16.0.1", "172.31.255.255", "192.168.1.1",
        "169.254.169.254", "100.64.0.1", "198.18.0.1", "224.0.0.1", "240.0.0.1", "255.255.255.255", "192.0.0.192", "::",
        "::1", "fe80::1",
        "fe80::1%eth0", "fec0::1", "fc00::1", "fd00:ec2::254", "ff02::1", "::ffff:127.0.0.1", "::ffff:169.254.169.254",
        "64:ff9b::7f00:1", "64:ff9b:1::1", "2002:7f00:1::", "2001:db8::1", "2001::1", "::127.0.0.1",
        "not an address", "",
    ],
)  # fmt: skip
def test_addresses_that_are_not_public(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", ["8.8.8.8", "1.1.1.1", "172.32.0.1", "2606:4700::1111", "::ffff:8.8.8.8"])
def test_addresses_that_are_public(address: str) -> None:
    assert is_public(address)


def test_no_socket_is_made_for_an_address_that_is_not_public() -> None:
    for address in ("127.0.0.1", "no address"):
        with pytest.raises(AddressRefused):
            Guard(allow_loopback=False)((socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 80)))


def test_a_server_on_a_loopback_address_reaches_endpoints_there_and_no_other_private_ones() -> None:
    guard = Guard(allow_loopback=True)
    guard((socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 80))).close()

    with pytest.raises(AddressRefused):
        guard((socket.AF_INET, socket.SOCK_STREAM, 6, "", ("10.0.0.1", 80)))


@pytest.mark.parametrize(
    ("endpoint", "refused"),
    [
        ("http://localhost/x", True),
        ("http://127.0.0.1:80", True),
        ("http://[::1]/", True),
        ("http://10.0.0.1/", True),
        ("http://8.8.8.8/", False),
        ("https://example.com/", False),
        ("http://[::1", False),
    ],
)
def test_the_host_of_an_endpoint_says_whether_it_can_be_reached(endpoint: str, refused: bool) -> None:
    reason = refusal_of_host(endpoint, allow_loopback=False)

    assert (reason is not None) is refused
    assert reason is None or "PENSTOCK_HTTP_DELIVERY_PRIVATE=true" in reason


def test_without_a_policy_the_usual_delays_apply() -> None:
    assert delays_of(None) is None
    assert delays_of("no object") is None


@pytest.mark.parametrize(
    ("policy", "delays"),
    [
        ({"numRetries": 0}, ()),
        ({"numRetries": 3, "minDelayTarget": 1, "maxDelayTarget": 1}, (1.0, 1.0, 1.0)),
        ({"numRetries": 3, "minDelayTarget": 1, "maxDelayTarget": 5}, (1.0, 3.0, 5.0)),
        (
            {
                "numRetries": 5,
                "numNoDelayRetries": 1,
                "numMinDelayRetries": 1,
                "numMaxDelayRetries": 1,
                "minDelayTarget": 1,
                "maxDelayTarget": 9,
            },
            (0.0, 1.0, 1.0, 9.0, 9.0),
        ),
        (
            {"numRetries": 3, "minDelayTarget": 1, "maxDelayTarget": 4, "backoffFunction": "exponential"},
            (1.0, 2.0, 4.0),
        ),
        ({"numRetries": 1, "numNoDelayRetries": 9}, (0.0,)),
        ({"numRetries": "many"}, (20.0, 20.0, 20.0)),
    ],
)
def test_delays_of_a_delivery_policy(policy: dict[str, Any], delays: tuple[float, ...]) -> None:
    assert delays_of(policy) == pytest.approx(delays)


def test_no_policy_asks_for_more_than_a_hundred_retries() -> None:
    assert len(delays_of({"numRetries": 10**9}) or ()) == 100


TOPIC_POLICY = json.dumps({"http": {"defaultRequestPolicy": {"headerContentType": "text/csv"}}})


@pytest.mark.parametrize(
    ("own", "of_topic", "content_type"),
    [
        (None, None, None),
        ("no json", "[]", None),
        (None, TOPIC_POLICY, "text/csv"),
        ({"requestPolicy": {"headerContentType": "text/html"}}, TOPIC_POLICY, "text/html"),
        ({"healthyRetryPolicy": {"numRetries": 1}}, TOPIC_POLICY, "text/csv"),
        (
            {"requestPolicy": {"headerContentType": "text/html"}},
            json.dumps({"http": {"disableSubscriptionOverrides": True}}),
            None,
        ),
    ],
)
def test_the_policy_of_a_topic_applies_where_a_subscription_sets_none(
    own: Any, of_topic: str | None, content_type: str | None
) -> None:
    found = delivery_policy(json.dumps(own) if isinstance(own, dict) else own, of_topic)

    assert ((found.get("requestPolicy") or {}).get("headerContentType")) == content_type  # type: ignore[attr-defined]


def test_jitter_only_ever_delays() -> None:
    assert all(10 <= jittered(10) <= 10 * (1 + JITTER) for _ in range(100))


def test_an_endpoint_rests_after_failures_in_a_row() -> None:
    breakers = Breakers(10)
    for _ in range(FAILURES - 1):
        breakers.failed(1, 0.0)
    assert breakers.resting(0.0) == []

    breakers.failed(1, 0.0)
    assert breakers.resting(9.9) == [1]
    assert breakers.resting(10.0) == []

    breakers.failed(1, 10.0)
    assert breakers.resting(19.9) == [1]
    breakers.succeeded(1)
    assert breakers.resting(19.9) == []


def test_a_success_ends_the_row() -> None:
    breakers = Breakers(10)
    for _ in range(FAILURES - 1):
        breakers.failed(1, 0.0)
    breakers.succeeded(1)
    breakers.failed(1, 0.0)

    assert breakers.resting(0.0) == []


def delivery(secret: str | None) -> Delivery:
    now = datetime.now(UTC)
    return Delivery(
        id=1, tenant=DEFAULT_TENANT, subscription_id=1, subscription_key="k", topic=None, routing_key="a",
        message_id="m-1", endpoint="http://example.com", endpoint_key=1, body="", headers="{}", secret=secret,
        delays=None, dead_letter_queue=None, confirms=False, state=DeliveryState.SENDING, lease=1, attempts=1,
        created_at=now, due_at=now, finished_at=None, last_status=None, last_error=None,
    )  # fmt: skip


def test_a_verifier_of_standard_webhooks_accepts_our_signature() -> None:
    secret, body = new_secret(), '{"total":"€ 4"}'
    headers = signature(delivery(secret), body.encode(), datetime.now(UTC))

    assert Webhook(secret).verify(body, headers) == {"total": "€ 4"}
    with pytest.raises(Exception, match="signature"):
        Webhook(new_secret()).verify(body, headers)


def test_without_a_secret_nothing_is_signed() -> None:
    assert signature(replace(delivery(None)), b"", datetime.now(UTC)) == {}


@pytest.mark.parametrize(
    ("text", "good"), [("whsec_" + "A" * 32, True), ("A" * 32, True), ("whsec_AAAA", False), ("é", False)]
)
def test_secrets(text: str, good: bool) -> None:
    assert is_secret(text) is good
    assert is_secret(new_secret())

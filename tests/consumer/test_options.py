"""Options that contradict each other are refused before anything is connected."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.consumer import Consumer, MultiQueueConsumer, connect
from penstock.errors import Invalid

NOWHERE = "postgresql://nowhere.invalid/none"


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"max_messages": 0}, "max_messages must be at least 1"),
        ({"concurrency": 0}, "concurrency must be at least 1"),
        ({"unhandled": "ignore"}, "unhandled must be 'error', 'ack' or 'dead'"),
        ({"dead_interval": 5}, "name the subconsumer"),
        ({"heartbeat_interval": 5}, "heartbeat_interval is for cooperative"),
        ({"subconsumer": "a", "dead_interval": 5, "heartbeat_interval": 5}, "shorter than dead_interval"),
        ({"subconsumer": "a", "min_count": 5}, "no min_interval, min_count or min_lag"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        Consumer(NOWHERE, "orders", "shop", **options)


def test_an_unknown_option_is_refused_with_those_there_are() -> None:
    with pytest.raises(TypeError, match='unknown option "max_mesages"; known: max_messages, concurrency'):
        Consumer(NOWHERE, "orders", "shop", max_mesages=5)  # type: ignore[call-arg]


def test_the_address_of_the_server_is_not_that_of_the_database() -> None:
    with pytest.raises(Invalid, match="give its address, postgresql://"):
        connect("http://127.0.0.1:9324")


def test_a_consumer_tells_what_it_is() -> None:
    several = MultiQueueConsumer(NOWHERE, [("economy", "packer", 1), ("express", "packer", 0)])

    assert repr(Consumer(NOWHERE, "orders", "shop")) == "<Consumer shop of stream orders>"
    assert repr(several) == "<MultiQueueConsumer packer of stream express, packer of stream economy>"


@pytest.mark.parametrize(
    ("options", "terms", "complaint"),
    [
        ({"concurrency": 2}, {"transactional": True}, "concurrency must be 1"),
        ({"subconsumer": "a"}, {"ordered_by": "extra1"}, "a cooperative one has several"),
    ],
)
def test_handlers_that_do_not_fit_the_options_are_refused_at_the_start(
    options: dict[str, Any], terms: dict[str, Any], complaint: str
) -> None:
    consumer = Consumer(NOWHERE, "orders", "shop", **options)
    consumer.on("paid", **terms)(print)

    with pytest.raises(ValueError, match=complaint):
        consumer.start()


def test_several_queues_are_at_least_one() -> None:
    with pytest.raises(ValueError, match="at least one stream"):
        MultiQueueConsumer(NOWHERE, [])

"""Every request of the protocol's reference, and the answer it promises, on every store."""

from __future__ import annotations

import hashlib
import re
from typing import Any

from penstock.clock import FakeClock
from penstock.server.versions import version
from tests.wire.conftest import Live
from tests.wire.simple.conftest import Simple

UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
HELLO_MD5 = hashlib.md5(b"Hello, world!", usedforsecurity=False).hexdigest()


def full_message(queue: str) -> dict[str, Any]:
    return {
        "queue_name": queue,
        "message_body": "Hello, world!",
        "priority": 100,
        "delay_seconds": 0,
        "message_retention_period": 345600,
        "message_deduplication_id": "abc123",
        "message_deduplication_time_period": 300,
        "message_attributes": {"content_type": "application/json", "correlation_id": "req-12345"},
    }


def full_receive(queue: str, **fields: Any) -> dict[str, Any]:
    return {
        "queue_name": queue,
        "visibility_timeout": 30,
        "wait_time_seconds": 20,
        "max_number_of_messages": 1,
        "max_receives": 4,
        "dead_letter_queue_name": f"{queue}-dlq",
        "peek": False,
        "shuffle": False,
        **fields,
    }


async def test_a_message_is_sent_with_every_field_and_received_as_it_was_sent(simple: Simple, clock: FakeClock) -> None:
    queue = simple.name("my-queue")

    sent = await simple.post("/send", full_message(queue))
    clock.advance(seconds=2.5)
    received = await simple.post("/receive", full_receive(queue))

    assert set(sent) == {"message_id", "md5_of_message_body", "sequence_number"}
    assert UUID.fullmatch(sent["message_id"])
    assert (sent["md5_of_message_body"], sent["sequence_number"]) == (HELLO_MD5, 1)
    [message] = received["messages"]
    assert UUID.fullmatch(message.pop("receipt_handle"))
    now = int(clock.now().timestamp())
    assert message == {
        "message_id": sent["message_id"],
        "message_body": "Hello, world!",
        "md5_of_message_body": HELLO_MD5,
        "priority": 100,
        "approximate_receive_count": 1,
        "approximate_first_receive_timestamp": now,
        "sent_timestamp": now - 2,
        "sequence_number": 1,
        "message_attributes": {"content_type": "application/json", "correlation_id": "req-12345"},
    }


async def test_a_duplicate_is_409(simple: Simple) -> None:
    await simple.post("/send", full_message(simple.name("my-queue")))

    assert await simple.code("/send", full_message(simple.name("my-queue")), 409) == "DuplicateMessage"


async def test_a_batch_over_several_queues_numbers_each_queue_apart(simple: Simple) -> None:
    orders, alerts = simple.name("orders"), simple.name("alerts")
    batch = [
        {"queue_name": orders, "message_body": "order-1", "priority": 100},
        {"queue_name": orders, "message_body": "order-2", "priority": 50, "message_attributes": {"source": "web"}},
        {"queue_name": alerts, "message_body": "disk-full", "priority": 200},
    ]

    answer = await simple.post("/send_batch", {"messages": batch})

    assert answer["failed"] == []
    assert [(entry["index"], entry["sequence_number"]) for entry in answer["successful"]] == [(0, 1), (1, 2), (2, 1)]
    assert all(UUID.fullmatch(entry["message_id"]) for entry in answer["successful"])
    assert await simple.bodies("orders", max_number_of_messages=10) == ["order-1", "order-2"]
    assert await simple.bodies("alerts") == ["disk-full"]


async def test_a_bad_entry_of_a_batch_does_not_stop_the_others(simple: Simple) -> None:
    await simple.send("orders", "order-2", message_deduplication_id="two")
    orders, alerts = simple.name("orders"), simple.name("alerts")
    batch = [
        {"queue_name": orders, "message_body": "order-1"},
        {"queue_name": orders, "message_body": "order-2", "message_deduplication_id": "two"},
        {"queue_name": alerts, "message_body": "disk-full"},
        {"queue_name": "no such name!", "message_body": "x"},
        {"queue_name": alerts, "message_body": "x", "priority": 1001},
        {"queue_name": alerts, "message_body": "x", "priority": "high"},
        {"queue_name": alerts},
        {"queue_name": alerts, "message_body": "x" * (256 * 1024 + 1)},
    ]

    answer = await simple.post("/send_batch", {"messages": batch})

    assert [entry["index"] for entry in answer["successful"]] == [0, 2]
    assert [(entry["index"], entry["error"]["code"]) for entry in answer["failed"]] == [
        (1, "DuplicateMessage"),
        (3, "ValidationError"),
        (4, "ValidationError"),
        (5, "InvalidRequest"),
        (6, "InvalidRequest"),
        (7, "MessageSizeExceeded"),
    ]
    assert all(entry["error"]["message"] for entry in answer["failed"])


async def test_a_queue_without_messages_answers_an_empty_list(simple: Simple) -> None:
    answer = await simple.post("/receive", {"queue_name": simple.name("my-queue"), "wait_time_seconds": 0})

    assert answer == {"messages": []}


async def test_a_message_is_deleted_by_its_receipt_handle_alone(simple: Simple) -> None:
    await simple.send("my-queue")
    [message] = await simple.receive("my-queue")

    receipts = {"receipt_handles": [message["receipt_handle"]]}
    assert await simple.post("/delete", receipts) == {"deleted": 1}
    assert await simple.code("/delete", receipts, 404) == "NotFound"
    assert await simple.length("my-queue") == (0, 0)


async def test_a_receipt_handle_of_nobody_is_404(simple: Simple) -> None:
    receipts = {"receipt_handles": ["7c9e6679-7425-40de-944b-e07fc1f90ae7"]}

    assert await simple.code("/delete", receipts, 404) == "NotFound"


async def test_a_message_is_hidden_for_longer_or_released(simple: Simple, clock: FakeClock) -> None:
    await simple.send("my-queue")
    [message] = await simple.receive("my-queue", visibility_timeout=30)
    receipts = [message["receipt_handle"]]

    longer = await simple.post("/change_visibility", {"receipt_handles": receipts, "visibility_timeout": 60})
    clock.advance(seconds=45)
    hidden = await simple.receive("my-queue")
    released = await simple.post("/change_visibility", {"receipt_handles": receipts, "visibility_timeout": -1})
    [again] = await simple.receive("my-queue")

    assert longer == released == {"result": "ok"}
    assert hidden == []
    assert again["approximate_receive_count"] == 2
    assert again["receipt_handle"] != receipts[0]
    stale = {"receipt_handles": receipts, "visibility_timeout": 60}
    assert await simple.code("/change_visibility", stale, 404) == "NotFound"


async def test_all_messages_of_a_queue_are_deleted(simple: Simple) -> None:
    await simple.send("my-queue")
    await simple.send("my-queue")
    await simple.send("other")

    answer = await simple.post("/delete_all", {"queue_name": simple.name("my-queue")})

    assert answer == {"result": "ok", "deleted": 2}
    assert (await simple.length("my-queue"), await simple.length("other")) == ((0, 0), (1, 0))


async def test_a_star_deletes_the_messages_of_all_queues(alone: Simple) -> None:
    for queue in ("a", "b"):
        await alone.send(queue)

    await alone.post("/delete_all", {"queue_name": "*"})

    assert (await alone.length("a"), await alone.length("b")) == ((0, 0), (0, 0))


async def test_the_length_of_a_queue_tells_visible_messages_and_those_in_flight(simple: Simple) -> None:
    for _ in range(3):
        await simple.send("my-queue")
    await simple.send("my-queue", delay_seconds=60)
    await simple.receive("my-queue")

    assert await simple.length("my-queue") == (2, 1)


async def test_all_queues_are_listed_with_their_lengths(simple: Simple) -> None:
    await simple.send("orders")
    await simple.send("orders")
    await simple.receive("orders")
    await simple.send("notifications")

    listed = (await simple.http.get("/queues")).json()

    ours = [item for item in listed if item["queue_name"].startswith(simple.prefix)]
    assert ours == [
        {"queue_name": simple.name("notifications"), "count": 1, "in_flight": 0},
        {"queue_name": simple.name("orders"), "count": 1, "in_flight": 1},
    ]


async def test_health_tells_status_and_version(simple: Simple) -> None:
    answer = await simple.http.get("/health")

    assert (answer.status_code, answer.json()) == (200, {"status": "ok", "version": version()})


async def test_stats_is_a_page_that_counts_requests(simple: Simple) -> None:
    await simple.send("my-queue")
    await simple.send("my-queue")
    await simple.code("/send", {"queue_name": "q"})

    answer = await simple.http.get("/stats")

    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert "unsafe" not in answer.headers["content-security-policy"]
    assert "<tr><td>POST</td><td>/send</td><td>200</td><td>2</td></tr>" in answer.text
    assert "<tr><td>POST</td><td>/send</td><td>400</td><td>1</td></tr>" in answer.text


async def test_the_older_calls_enqueue_and_dequeue_still_work(simple: Simple) -> None:
    query = {"queue_name": simple.name("my-queue"), "priority": "7"}

    answer = await simple.http.post("/enqueue", params=query, content="Hello, world!")
    received = await simple.post("/dequeue", {"queue_name": simple.name("my-queue"), "wait_time_seconds": 0})

    assert answer.status_code == 200
    assert answer.json()["md5_of_message_body"] == HELLO_MD5
    [message] = received["messages"]
    assert (message["message_body"], message["priority"]) == ("Hello, world!", 7)
    assert message["message_id"] == answer.json()["message_id"]


async def test_the_native_api_and_the_simple_protocol_share_queues(simple: Simple, served: Live) -> None:
    await simple.send("shared", "from simple")
    async with served.client() as native:
        messages = f"/v1/queues/{simple.name('shared')}/messages"
        [found] = (await native.get(messages)).json()
        await native.delete(f"{messages}/{found['id']}")
        await native.post(messages, json={"message": {"from": "native"}})

    [message] = await simple.receive("shared")

    assert found["message"] == "from simple"
    assert (message["message_body"], message["sequence_number"]) == ('{"from":"native"}', 2)

"""What the simple protocol does differently, and what it shares with the other doors."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest

from penstock.clock import FakeClock
from penstock.store.sqlite.store import SqliteStore
from penstock.wire.simple import receipts
from tests.wire.conftest import Live, running
from tests.wire.simple.conftest import Simple


async def test_higher_priorities_come_first_and_zero_is_a_priority(simple: Simple) -> None:
    for body, priority in (("low", 0), ("usual", None), ("high", 1000)):
        await simple.send("q", body, priority=priority)

    assert await simple.bodies("q", max_number_of_messages=10) == ["high", "usual", "low"]


async def test_a_name_that_ends_in_lifo_reverses_the_order_within_a_priority(simple: Simple) -> None:
    for body, priority in (("1", 100), ("2", 100), ("first", 200)):
        await simple.send("jobs_lifo", body, priority=priority)

    assert await simple.bodies("jobs_lifo", max_number_of_messages=10) == ["first", "2", "1"]


async def test_peek_changes_nothing_and_gives_no_receipt(simple: Simple) -> None:
    await simple.send("q", "first")
    await simple.send("q", "second")

    peeked = [await simple.receive("q", peek=True, max_number_of_messages=10) for _ in range(2)]

    assert peeked[0] == peeked[1]
    [message] = peeked[0]
    assert (message["message_body"], message["approximate_receive_count"]) == ("first", 0)
    assert {"receipt_handle", "message_attributes", "approximate_first_receive_timestamp"}.isdisjoint(message)
    assert await simple.length("q") == (2, 0)


async def test_peek_at_a_queue_that_nobody_uses_does_not_create_it(alone: Simple) -> None:
    assert await alone.receive("never", peek=True) == []
    assert (await alone.http.get("/queues")).json() == []


async def test_shuffle_returns_any_message_and_hides_it(simple: Simple) -> None:
    for number in range(5):
        await simple.send("q", str(number))

    found = [body for _ in range(5) for body in await simple.bodies("q", shuffle=True)]

    assert sorted(found) == ["0", "1", "2", "3", "4"]


async def test_poison_is_deleted_after_the_default_of_four_receives(simple: Simple) -> None:
    await simple.send("q")

    received = [len(await simple.receive("q", visibility_timeout=0)) for _ in range(5)]

    assert received == [1, 1, 1, 1, 0]
    assert await simple.length("q") == (0, 0)


async def test_poison_goes_to_the_dead_letter_queue_that_the_receive_names(simple: Simple) -> None:
    sent = await simple.send("q", "poison", message_attributes={"a": "b"})
    rule = {"max_receives": 2, "dead_letter_queue_name": simple.name("q-dlq"), "visibility_timeout": 0}

    received = [len(await simple.receive("q", **rule)) for _ in range(3)]
    [dead] = await simple.receive("q-dlq")

    assert received == [1, 1, 0]
    assert (dead["message_id"], dead["sequence_number"]) == (sent["message_id"], sent["sequence_number"])
    assert dead["approximate_receive_count"] == 1
    assert dead["message_attributes"] == {"a": "b"}


async def test_poison_is_deleted_when_its_dead_letter_queue_is_full(clock: FakeClock) -> None:
    async with (
        running(clock=clock, simple=True, simple_max_queue_length=1) as live,
        httpx.AsyncClient(base_url=live.url, trust_env=False) as http,
    ):
        simple = Simple(http)
        await simple.send("q-dlq", "occupied")
        await simple.send("q", "poison")
        rule = {"max_receives": 1, "dead_letter_queue_name": simple.name("q-dlq"), "visibility_timeout": 0}
        await simple.receive("q", **rule)

        assert await simple.receive("q", **rule) == []
        assert await simple.bodies("q-dlq", max_number_of_messages=10) == ["occupied"]


async def test_a_queue_made_elsewhere_keeps_its_own_rules_for_poison(simple: Simple, served: Live) -> None:
    async with served.client() as native:
        await native.post("/v1/queues", json={"name": simple.name("made")})
    sent = await simple.send("made")

    received = [len(await simple.receive("made", visibility_timeout=0)) for _ in range(6)]
    [message] = await simple.receive("made")

    assert received == [1] * 6
    assert message["sequence_number"] == sent["sequence_number"]


async def test_a_delayed_message_waits(simple: Simple, clock: FakeClock) -> None:
    await simple.send("q", delay_seconds=60)

    early = await simple.receive("q")
    clock.advance(seconds=61)

    assert early == []
    assert len(await simple.receive("q")) == 1


async def test_a_message_is_gone_after_its_own_retention_period(simple: Simple, clock: FakeClock) -> None:
    await simple.send("q", "short", message_retention_period=60)
    await simple.send("q", "long")

    clock.advance(seconds=61)

    assert await simple.bodies("q", max_number_of_messages=10) == ["long"]


async def test_a_deduplication_id_is_kept_after_a_delete_until_its_period_ends(
    simple: Simple, clock: FakeClock
) -> None:
    fields: dict[str, Any] = {"message_deduplication_id": "abc123", "message_deduplication_time_period": 60}
    again = {"queue_name": simple.name("q"), "message_body": "again", **fields}
    await simple.send("q", **fields)
    [message] = await simple.receive("q")
    await simple.post("/delete", {"receipt_handles": [message["receipt_handle"]]})

    assert await simple.code("/send", again, 409) == "DuplicateMessage"
    await simple.send("other", **fields)
    clock.advance(seconds=61)
    assert (await simple.send("q", **fields))["sequence_number"] == 2


async def test_a_full_queue_is_503(clock: FakeClock) -> None:
    async with (
        running(clock=clock, simple=True, simple_max_queue_length=2) as live,
        httpx.AsyncClient(base_url=live.url, trust_env=False) as http,
    ):
        simple = Simple(http)
        await simple.send("q")
        await simple.send("q")

        full = {"queue_name": simple.name("q"), "message_body": "x"}
        assert await simple.code("/send", full, 503) == "QueueFull"
        await simple.send("other")


async def test_a_message_may_have_256_kib_and_not_a_byte_more(simple: Simple) -> None:
    await simple.send("q", '"' * 262_144)
    await simple.send("q", "ä" * 131_072)

    for body in ("x" * 262_145, "ä" * 131_072 + "x"):
        large = {"queue_name": simple.name("q"), "message_body": body}
        assert await simple.code("/send", large, 413) == "MessageSizeExceeded"


async def test_a_body_that_could_hold_no_message_is_refused_before_it_is_read(alone: Simple) -> None:
    large = {"queue_name": "q", "message_body": "x" * 600_000}

    assert await alone.code("/send", large, 413) == "MessageSizeExceeded"
    answer = await alone.http.post("/enqueue?queue_name=q", content=b"x" * 262_145)
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "MessageSizeExceeded")


async def test_a_receive_waits_for_a_message_of_its_own_queue(simple: Simple) -> None:
    waiting = asyncio.create_task(simple.receive("q", wait_time_seconds=20))
    await simple.send("other")
    await simple.send("q", "late")

    [message] = await asyncio.wait_for(waiting, 10)

    assert message["message_body"] == "late"


async def test_ten_receipts_of_several_queues_are_deleted_at_once(simple: Simple) -> None:
    for queue in ("a", "b"):
        for _ in range(5):
            await simple.send(queue)
    found = [message for queue in ("a", "b") for message in await simple.receive(queue, max_number_of_messages=10)]
    handles = [message["receipt_handle"] for message in found]

    assert len(set(handles)) == 10
    assert await simple.post("/delete", {"receipt_handles": handles}) == {"deleted": 10}


async def test_a_receipt_is_good_once_however_often_it_is_given(simple: Simple) -> None:
    await simple.send("q")
    [message] = await simple.receive("q")
    handle = message["receipt_handle"]

    assert await simple.post("/delete", {"receipt_handles": [handle, handle.upper()]}) == {"deleted": 1}


async def test_a_receipt_works_after_the_visibility_timeout_until_the_message_is_received_again(
    simple: Simple, clock: FakeClock
) -> None:
    await simple.send("q")
    [first] = await simple.receive("q", visibility_timeout=30)
    clock.advance(seconds=31)
    extended = {"receipt_handles": [first["receipt_handle"]], "visibility_timeout": 30}
    assert await simple.post("/change_visibility", extended) == {"result": "ok"}
    clock.advance(seconds=31)
    [second] = await simple.receive("q")

    assert await simple.code("/delete", {"receipt_handles": [first["receipt_handle"]]}, 404) == "NotFound"
    assert await simple.post("/delete", {"receipt_handles": [second["receipt_handle"]]}) == {"deleted": 1}


async def test_a_receipt_works_at_a_server_that_has_never_seen_its_queue(tmp_path: Any, clock: FakeClock) -> None:
    path = tmp_path / "queues.db"
    handles = []
    async with (
        running(store=SqliteStore(path), clock=clock, simple=True) as live,
        httpx.AsyncClient(base_url=live.url, trust_env=False) as http,
    ):
        simple = Simple(http)
        for queue in ("a", "b"):
            await simple.send(queue)
            handles += [message["receipt_handle"] for message in await simple.receive(queue)]
    async with (
        running(store=SqliteStore(path), clock=clock, simple=True) as live,
        httpx.AsyncClient(base_url=live.url, trust_env=False) as http,
    ):
        assert await Simple(http).post("/delete", {"receipt_handles": handles}) == {"deleted": 2}


async def test_a_receipt_finds_its_queue_among_two_of_one_hash(alone: Simple, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receipts, "tag_of", lambda name: 7)
    for queue in ("a", "b", "c"):
        await alone.send(queue, queue)
    handles = [(await alone.receive(queue))[0]["receipt_handle"] for queue in ("a", "b", "c")]

    assert await alone.post("/delete", {"receipt_handles": [handles[1]]}) == {"deleted": 1}
    assert [await alone.length(queue) for queue in ("a", "b", "c")] == [(0, 1), (0, 0), (0, 1)]


async def test_a_queue_that_another_protocol_drops_comes_back_with_its_next_use(simple: Simple, served: Live) -> None:
    await simple.send("q", "lost")
    async with served.client() as native:
        await native.delete(f"/v1/queues/{simple.name('q')}")
        sent = await simple.send("q", "found")
        await native.delete(f"/v1/queues/{simple.name('q')}")

    assert sent["sequence_number"] == 1
    assert await simple.receive("q") == []


async def test_a_fifo_queue_can_be_read_but_not_sent_to(simple: Simple, served: Live) -> None:
    name = simple.name("orders.fifo")
    async with served.client() as native:
        await native.post("/v1/queues", json={"name": name})
        await native.post(f"/v1/queues/{name}/messages", json={"message": "1", "group_id": "g", "dedup_id": "d"})

    [message] = await simple.receive("orders.fifo")

    assert await simple.code("/send", {"queue_name": name, "message_body": "x"}) == "ValidationError"
    assert await simple.post("/delete", {"receipt_handles": [message["receipt_handle"]]}) == {"deleted": 1}


async def test_an_operators_new_limits_reach_the_queues_that_exist(tmp_path: Any, clock: FakeClock) -> None:
    path = tmp_path / "queues.db"

    async def lengths(most: int, changed: int | None = None) -> list[int | None]:
        store = SqliteStore(path)
        async with (
            running(store=store, clock=clock, simple=True, simple_max_queue_length=most) as live,
            live.client() as http,
        ):
            for queue in ("untouched", "changed"):
                body = {"queue_name": queue, "message_body": "x"}
                assert (await http.post("/send", json=body)).status_code == 200
            if changed is not None:
                await http.patch("/v1/queues/changed", json={"max_length": changed})
            found = [(await http.get(f"/v1/queues/{queue}")).json() for queue in ("untouched", "changed")]
            return [queue["settings"]["max_length"] for queue in found]

    assert await lengths(100, changed=50) == [100, 50]
    assert await lengths(200) == [200, 50]


# Bad input


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/send", {"queue_name": "no spaces"}),
        ("/send", {"queue_name": "x" * 81}),
        ("/send", {"queue_name": ""}),
        ("/send", {"priority": -1}),
        ("/send", {"priority": 1001}),
        ("/send", {"delay_seconds": -1}),
        ("/send", {"delay_seconds": 43_201}),
        ("/send", {"message_retention_period": 59}),
        ("/send", {"message_retention_period": 1_209_601}),
        ("/send", {"message_deduplication_id": "no-hyphens"}),
        ("/send", {"message_deduplication_id": ""}),
        ("/send", {"message_deduplication_id": "x" * 129}),
        ("/send", {"message_deduplication_time_period": 0}),
        ("/send", {"message_deduplication_time_period": 43_201}),
        ("/send", {"message_attributes": {str(number): "x" for number in range(11)}}),
        ("/send", {"message_attributes": {"": "x"}}),
        ("/send", {"message_attributes": {"x" * 65: "x"}}),
        ("/send", {"message_attributes": {"x": "x" * 1025}}),
        ("/send", {"message_body": "NUL \0"}),
        ("/send_batch", {"messages": []}),
        ("/send_batch", {"messages": [{}] * 11}),
        ("/receive", {"visibility_timeout": -1}),
        ("/receive", {"visibility_timeout": 43_201}),
        ("/receive", {"wait_time_seconds": 21}),
        ("/receive", {"max_number_of_messages": 0}),
        ("/receive", {"max_number_of_messages": 11}),
        ("/receive", {"max_receives": 0}),
        ("/receive", {"max_receives": 11}),
        ("/receive", {"dead_letter_queue_name": "q"}),
        ("/receive", {"dead_letter_queue_name": "not ours!"}),
        ("/receive", {"peek": True, "dead_letter_queue_name": "q-dlq"}),
        ("/delete", {"receipt_handles": []}),
        ("/delete", {"receipt_handles": ["7c9e6679-7425-40de-944b-e07fc1f90ae7"] * 11}),
        ("/delete", {"receipt_handles": ["not a UUID"]}),
        ("/change_visibility", {"visibility_timeout": 43_201}),
        ("/change_visibility", {"visibility_timeout": -43_201}),
        ("/queue_length", {"queue_name": "*"}),
        ("/delete_all", {"queue_name": "a*"}),
    ],
)
async def test_a_value_out_of_bounds_is_a_validation_error(alone: Simple, path: str, fields: dict[str, Any]) -> None:
    usual: dict[str, dict[str, Any]] = {
        "/send": {"queue_name": "q", "message_body": "x"},
        "/change_visibility": {"receipt_handles": ["7c9e6679-7425-40de-944b-e07fc1f90ae7"], "visibility_timeout": 1},
    }

    assert await alone.code(path, usual.get(path, {"queue_name": "q"}) | fields) == "ValidationError"
    assert (await alone.http.get("/queues")).json() == []


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/send", b""),
        ("/send", b"{"),
        ("/send", b"[]"),
        ("/send", b"\xff\xfe"),
        ("/send", b'{"queue_name": "q"}'),
        ("/send", b'{"message_body": "x"}'),
        ("/send", b'{"queue_name": "q", "message_body": ""}'),
        ("/send", b'{"queue_name": "q", "message_body": {"a": 1}}'),
        ("/send", b'{"queue_name": "q", "message_body": "x", "priority": 1.5}'),
        ("/send", b'{"queue_name": "q", "message_body": "x", "message_attributes": {"a": 1}}'),
        ("/send_batch", b"{}"),
        ("/receive", b"{}"),
        ("/receive", b'{"queue_name": "q", "peek": "yes"}'),
        ("/delete", b"{}"),
        ("/delete", b'{"receipt_handles": "one"}'),
        ("/change_visibility", b'{"receipt_handles": []}'),
        ("/queue_length", b"{}"),
        ("/delete_all", b"{}"),
        ("/enqueue", b"no queue"),
        ("/enqueue?queue_name=q", b""),
        ("/enqueue?queue_name=q", b"\xff"),
    ],
)
async def test_malformed_json_and_missing_fields_are_an_invalid_request(alone: Simple, path: str, body: bytes) -> None:
    answer = await alone.http.post(path, content=body)

    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "InvalidRequest")


async def test_fields_that_nobody_knows_and_null_are_passed_over(alone: Simple) -> None:
    body = {"queue_name": "q", "message_body": "x", "priority": None, "message_attributes": None, "colour": "blue"}

    await alone.post("/send", body)


POSTS = [
    "send",
    "send_batch",
    "receive",
    "dequeue",
    "delete",
    "change_visibility",
    "delete_all",
    "queue_length",
    "enqueue",
]


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        *((method, f"/{path}", "OPTIONS, POST") for path in POSTS for method in ("GET", "PUT", "DELETE")),
        *(("POST", path, "GET, HEAD, OPTIONS") for path in ("/queues", "/health", "/stats")),
    ],
)
async def test_the_wrong_method_is_405_in_json(alone: Simple, method: str, path: str, allowed: str) -> None:
    answer = await alone.http.request(method, path)

    assert answer.status_code == 405
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["allow"] == allowed
    assert answer.json()["error"]["code"] == "MethodNotAllowed"


async def test_what_lies_below_a_path_is_404_in_json(alone: Simple) -> None:
    answer = await alone.http.post("/send/more", json={})

    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "NotFound")


async def test_a_failure_of_ours_tells_no_details(alone: Simple, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*args: object) -> None:
        raise RuntimeError("/secret/path")

    monkeypatch.setattr(SqliteStore, "send_many", fail)

    answer = await alone.post("/send", {"queue_name": "q", "message_body": "x"}, 500)

    assert answer == {"error": {"code": "InternalError", "message": "an internal error occurred"}}


async def test_other_doors_keep_their_paths_and_errors(alone: Simple) -> None:
    headers = {"authorization": "Bearer me"}
    leased = await alone.http.post("/queues/q/lease", json={"worker_id": "ada"}, headers=headers)
    wrong = await alone.http.put("/jobs", headers=headers)
    native = await alone.http.put("/v1/queues", headers=headers)

    assert (leased.status_code, leased.json()) == (200, None)
    assert (wrong.json()["code"], native.json()["code"]) == ("MethodNotAllowed", "MethodNotAllowed")
    assert json.loads((await alone.http.get("/ready")).text) == {"status": "ok"}

"""The checks of streams, schedules and webhooks on histories written by hand."""

from __future__ import annotations

from tests.fire.checks.all import violations
from tests.fire.history import Call, History, Outcome
from tests.fire.test_queue_checks import create, fault, receive


def found(*calls: Call) -> list[str]:
    return [violation.check for violation in violations(History(calls))]


def flow(*calls: Call) -> list[str]:
    return found(Call("create", "flow", 0, 0, "ok", {"consumers": ["c"]}), *calls)


def event(*keys: str, outcome: Outcome = "ok") -> Call:
    return Call("event", "flow", 1, 1.1, outcome, {"keys": list(keys)})


def batch(number: int, *keys: str, at: float) -> Call:
    return Call("batch", "flow", at, at + 0.1, "ok", {"consumer": "c"}, {"batch": number, "keys": list(keys)})


def ack(number: int, at: float, outcome: Outcome = "ok") -> Call:
    return Call("ack batch", "flow", at, at + 0.1, outcome, {"consumer": "c", "batch": number})


def test_events_in_batches_are_fine() -> None:
    assert flow(event("a", "b"), batch(1, "a", at=2), ack(1, 3), batch(2, "b", at=4), ack(2, 5)) == []


def test_a_batch_that_comes_again_before_its_ack_is_fine() -> None:
    assert flow(event("a"), batch(1, "a", at=2), batch(1, "a", at=3), ack(1, 4, "unknown"), batch(1, "a", at=5)) == []


def test_a_committed_event_that_never_comes_is_named() -> None:
    assert flow(event("a", "b"), batch(1, "a", at=2), ack(1, 3)) == ["event lost"]


def test_an_event_that_was_rolled_back_is_a_phantom() -> None:
    assert flow(event("a", outcome="fail"), batch(1, "a", at=2)) == ["phantom event"]


def test_an_event_after_its_acknowledged_batch_is_named() -> None:
    assert flow(event("a"), batch(1, "a", at=2), ack(1, 3), batch(2, "a", at=4)) == ["event twice"]


def test_an_event_in_two_acknowledged_batches_is_named() -> None:
    calls = (batch(1, "a", at=2), batch(2, "a", at=2.5), ack(1, 3), ack(2, 3.5))
    assert flow(event("a"), *calls) == ["event twice"]


def sink(*rows: str) -> Call:
    return Call("sink", "flow", 9, 9, "ok", {"consumer": "s"}, list(rows))


def test_rows_of_the_sink_are_the_events() -> None:
    assert found(event("a"), event("b", outcome="unknown"), sink("a")) == []
    assert found(event("a"), event("b", outcome="unknown"), sink("a", "b")) == []
    assert found(event("a"), sink()) == ["sink"]
    assert found(event("a"), sink("a", "a")) == ["sink"]
    assert found(event("a"), event("b", outcome="fail"), sink("a", "b")) == ["sink"]


def fire(second: int, message_id: str) -> Call:
    mark = {"name": "tick", "scheduled_for": f"2026-03-29T01:00:{second:02}Z", "out_of_band": False}
    call = receive("tick", at=10 + second, queue="scheduled", headers={"_schedule": mark})
    return Call(call.op, call.target, call.began, call.ended, "ok", call.given, [{**call.result[0], "id": message_id}])


def ticks(*calls: Call) -> list[str]:
    schedule = Call("schedule", "tick", 0, 0, "ok", {"step_s": 1})
    return found(create("scheduled", fed_by="schedule"), schedule, *calls)


def test_a_fire_for_each_time_is_fine() -> None:
    assert ticks(fire(1, "1"), fire(2, "2"), fire(3, "3")) == []


def test_a_second_fire_for_a_time_is_named() -> None:
    assert ticks(fire(1, "1"), fire(1, "2")) == ["fired twice"]


def test_a_time_that_was_left_out_is_named() -> None:
    assert ticks(fire(1, "1"), fire(3, "3")) == ["not fired"]


def test_a_schedule_that_never_fires_is_named() -> None:
    assert ticks() == ["not fired"]


def made(second: int) -> Call:
    given = {"step_s": 1, "at": f"2026-03-29T01:00:{second:02}Z"}
    return Call("schedule", "tick", 0, 0, "ok", given)


def paused(second: int) -> Call:
    return Call("pause", "tick", 0, 0, "ok", {"at": f"2026-03-29T01:00:{second:02}Z"})


def test_a_schedule_that_begins_late_is_named() -> None:
    queue = create("scheduled", fed_by="schedule")
    assert found(queue, made(0), fire(1, "1")) == []
    assert found(queue, made(0), fire(3, "3")) == ["not fired"]


def test_a_schedule_that_stops_before_its_pause_is_named() -> None:
    assert ticks(fire(1, "1"), paused(15)) == []
    assert ticks(fire(1, "1"), paused(20)) == ["not fired"] * 3


def arrival(at: float, status: int) -> Call:
    return Call("arrival", "webhook", at, at, "ok", {"id": "m"}, status)


def test_an_attempt_beside_a_successful_one_is_named() -> None:
    assert found(arrival(1, 200), arrival(1.5, 200)) == ["webhook"]
    assert found(arrival(1, 500), arrival(1.5, 200)) == []
    assert found(arrival(1, 200), arrival(1.5, 200), fault("kill server", 1.1, 1.2)) == []
    # The answer may have been lost, or come too late.
    assert found(arrival(1, 200), arrival(4.5, 200)) == []


def publish(*, arrived: bool, state: str, messages: int = 1) -> list[str]:
    given = {"key": "e-1", "queues": ["out"], "webhook": True}
    calls = [create("out", fed_by="topic"), Call("publish", "fire", 1, 1.1, "ok", given, {"id": "m"})]
    for number in range(messages):
        call = receive("e-1", at=2, queue="out")
        calls.append(Call("receive", "out", 2, 2.1, "ok", {"vt": 5}, [{**call.result[0], "id": str(number)}]))
    calls += [Call("arrival", "webhook", 2, 2, "ok", {"id": "m"}, 200)] if arrived else []
    return found(*calls, Call("delivery", "webhook", 9, 9, "ok", {"id": "m"}, {"state": state}))


def test_a_publish_that_arrives_or_is_exhausted_is_fine() -> None:
    assert publish(arrived=True, state="delivered") == []
    assert publish(arrived=False, state="exhausted") == []


def test_a_webhook_that_is_marked_and_never_arrived_is_named() -> None:
    assert publish(arrived=False, state="delivered") == ["webhook"]


def test_a_webhook_that_never_ends_is_named() -> None:
    assert publish(arrived=True, state="sending") == ["webhook"]


def test_a_publish_that_comes_to_a_queue_twice_or_never_is_named() -> None:
    assert publish(arrived=True, state="delivered", messages=0) == ["publish"]
    assert publish(arrived=True, state="delivered", messages=2) == ["publish"]

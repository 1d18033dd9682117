"""The checks of queues on histories written by hand: good ones pass, and each bad one is named."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fire.checks import Check
from tests.fire.checks.all import CHECKS, violations
from tests.fire.history import Call, History, Outcome


def create(queue: str = "work", **settings: Any) -> Call:
    return Call("create", queue, 0, 0, "ok", settings)


def send(body: str, began: float = 1, outcome: Outcome = "ok", queue: str = "work", **more: Any) -> Call:
    message = {"body": body, "attributes": {}, **more}
    return Call("send", queue, began, began + 0.1, outcome, {"messages": [message]}, {"refused": []})


def receive(*bodies: str, at: float, count: int = 1, queue: str = "work", vt: float = 5, **more: Any) -> Call:
    result = [{"id": body.partition(" ")[0], "count": count, "body": body, "group": None, **more} for body in bodies]
    return Call("receive", queue, at, at + 0.1, "ok", {"vt": vt}, result)


def delete(
    key: str, at: float, outcome: Outcome = "ok", queue: str = "work", count: int = 1, door: str = "rest"
) -> Call:
    given = {"id": key, "count": count, "door": door}
    return Call("delete", queue, at, at + 0.1, outcome, given, outcome == "ok" or None)


def fault(kind: str, began: float, ended: float, **given: Any) -> Call:
    return Call("fault", kind, began, ended, "ok", given)


def found(*calls: Call) -> list[str]:
    return [violation.check for violation in violations(History(calls))]


def test_a_plain_life_is_fine() -> None:
    assert found(create(), send("a 1"), receive("a 1", at=2), delete("a", 3)) == []


def test_a_send_without_a_delivery_is_lost() -> None:
    assert found(create(), send("a 1")) == ["lost"]


@pytest.mark.parametrize("outcome", ["unknown", "fail"])
def test_a_send_that_was_not_acknowledged_may_be_missing(outcome: Outcome) -> None:
    assert found(create(), send("a 1", outcome=outcome)) == []


def test_an_unknown_send_may_be_delivered() -> None:
    assert found(create(), send("a 1", outcome="unknown"), receive("a 1", at=2)) == []


def test_a_dead_letter_is_not_lost() -> None:
    queues_of = (create("dead", fed_by="dead letters"), create(max_receives=1, dead_letter_queue="dead"))
    calls = (send("a 1"), receive("a 1", at=2), receive("a 1", at=9, queue="dead"))
    assert found(*queues_of, *calls) == []


def test_a_message_from_nowhere_is_a_phantom() -> None:
    assert found(create(), receive("a 1", at=2)) == ["phantom"]


def test_a_refused_send_that_is_delivered_is_a_phantom() -> None:
    assert found(create(), send("a 1", outcome="fail"), receive("a 1", at=2)) == ["phantom"]


@pytest.mark.parametrize("changes", [{"attributes": {"x": "1"}}, {"body": "a 2"}, {"group": "other"}])
def test_another_body_or_attribute_is_named(changes: dict[str, Any]) -> None:
    assert found(create(), send("a 1"), receive("a 1", at=2, **changes)) == ["altered"]


def test_a_receive_after_a_confirmed_delete_is_named() -> None:
    calls = (create(), send("a 1"), receive("a 1", at=2), delete("a", 3), receive("a 1", at=9, count=2))
    assert found(*calls) == ["deleted"]


def test_a_receive_after_an_unknown_delete_is_fine() -> None:
    assert (
        found(create(), send("a 1"), receive("a 1", at=2), delete("a", 3, "unknown"), receive("a 1", at=9, count=2))
        == []
    )


def test_a_receive_that_overlaps_the_delete_is_fine() -> None:
    slow = Call("receive", "work", 3.05, 9, "ok", {"vt": 5}, receive("a 1", at=0, count=2).result)
    assert found(create(), send("a 1"), receive("a 1", at=2), delete("a", 3), slow) == []


def test_two_receives_within_the_timeout_are_two_holders() -> None:
    assert found(create(), send("a 1"), receive("a 1", at=2), receive("a 1", at=4, count=2)) == ["two holders"]


def test_a_receive_after_the_timeout_is_fine() -> None:
    assert found(create(), send("a 1"), receive("a 1", at=2), receive("a 1", at=7.5, count=2)) == []


def test_a_claim_may_be_forgotten_by_a_crash_of_postgresql() -> None:
    calls = (create(), send("a 1"), receive("a 1", at=2), fault("kill postgres", 2.5, 3), receive("a 1", at=4))
    assert found(*calls) == []


def test_a_claim_is_not_forgotten_by_a_crash_of_a_server() -> None:
    calls = (create(), send("a 1"), receive("a 1", at=2), fault("kill server", 2.5, 3), receive("a 1", at=4, count=2))
    assert found(*calls) == ["two holders"]


def test_a_clock_that_is_ahead_shortens_the_timeout() -> None:
    calls = (
        create(),
        fault("step clock", 0, 99, seconds=2.0),
        send("a 1"),
        receive("a 1", at=2),
        receive("a 1", at=5.5, count=2),
    )
    assert found(*calls) == []


def test_a_clock_that_was_behind_and_is_ahead_shortens_the_timeout_twice() -> None:
    steps = [fault("step clock", began, began + 1, seconds=2.0) for began in (1, 4)]
    calls = (create(), send("a 1"), receive("a 1", at=2, vt=9), receive("a 1", at=8, count=2, vt=9))
    assert found(*calls, *steps) == []
    assert found(*calls, *steps[:1]) == ["two holders"]


def test_an_old_receipt_that_deletes_is_named() -> None:
    calls = (create(), send("a 1"), receive("a 1", at=2), receive("a 1", at=9, count=2), delete("a", 10, count=1))
    assert found(*calls) == ["stale receipt"]


def test_an_old_receipt_deletes_at_sqs() -> None:
    calls = (create(), send("a 1"), receive("a 1", at=2), receive("a 1", at=9, count=2))
    assert found(*calls, delete("a", 10, count=1, door="sqs")) == []


@pytest.mark.parametrize("counts", [(1, 1), (1, 3), (2, 3)])
def test_receive_counts_that_do_not_rise_by_one_are_named(counts: tuple[int, int]) -> None:
    deliveries = [receive("a 1", at=2 + 7 * place, count=count) for place, count in enumerate(counts)]
    assert "receive count" in found(create(), send("a 1"), *deliveries)


def test_a_gap_in_the_counts_may_be_a_receive_without_an_answer() -> None:
    lost = Call("receive", "work", 8, 8.1, "unknown", {"vt": 5})
    assert found(create(), send("a 1"), receive("a 1", at=2), lost, receive("a 1", at=15, count=3)) == []


@pytest.mark.parametrize("at", [3, 60])
def test_a_gap_in_the_counts_at_another_time_is_named(at: float) -> None:
    lost = Call("receive", "work", at - 0.1, at, "unknown", {"vt": 5})
    calls = (receive("a 1", at=40), receive("a 1", at=50, count=3))
    assert found(create(), send("a 1"), lost, *calls) == ["receive count"]


def test_a_gap_of_two_is_not_one_receive_without_an_answer() -> None:
    lost = Call("receive", "work", 8, 8.1, "unknown", {"vt": 5})
    assert found(create(), send("a 1"), receive("a 1", at=2), lost, receive("a 1", at=15, count=4)) == ["receive count"]


def test_a_message_twice_in_one_answer_is_named() -> None:
    twice = receive("a 1", "a 1", at=2).result
    twice[1]["count"] = 2
    assert found(create(), send("a 1"), Call("receive", "work", 2, 2.1, "ok", {"vt": 5}, twice)) == ["two holders"]


def hide(at: float, seconds: int, *, done: bool = True, outcome: Outcome = "ok") -> Call:
    given = {"id": "a", "count": 1, "door": "rest", "seconds": seconds}
    return Call("hide", "work", at, at + 0.1, outcome, given, done)


def test_a_confirmed_change_of_the_timeout_holds() -> None:
    calls = (create(), send("a 1"), receive("a 1", at=2))
    assert found(*calls, hide(3, 9), receive("a 1", at=10, count=2)) == ["two holders"]
    assert found(*calls, hide(3, 9), receive("a 1", at=13, count=2)) == []
    assert found(*calls, hide(3, 0), receive("a 1", at=4, count=2)) == []


def test_a_refused_change_of_the_timeout_changes_nothing() -> None:
    calls = (create(), send("a 1"), receive("a 1", at=2))
    assert found(*calls, hide(3, 0, done=False), receive("a 1", at=4, count=2)) == ["two holders"]
    assert found(*calls, hide(3, 0, outcome="unknown"), receive("a 1", at=4, count=2)) == []


def test_an_old_receipt_is_known_by_itself_where_a_crash_repeats_counts() -> None:
    first, second = receive("a 1", at=2, receipt="r1"), receive("a 1", at=5, receipt="r2")
    crash = fault("kill postgres", 3, 4)
    for receipt, wrong in (("r1", ["stale receipt"]), ("r2", [])):
        gone = delete("a", 6)
        gone = Call("delete", "work", gone.began, gone.ended, "ok", {**gone.given, "receipt": receipt}, True)
        assert found(create(), send("a 1"), first, crash, second, gone) == wrong


def drained(*calls: Call) -> list[str]:
    facts = {"queue_length": 0, "total_messages": 1}
    return found(create(), send("a 1"), receive("a 1", at=2), *calls, Call("counts", "work", 90, 90, "ok", {}, facts))


def test_a_message_that_vanishes_after_a_delivery_is_named() -> None:
    assert drained() == ["lost"]
    refused = Call("delete", "work", 3, 3.1, "ok", {"id": "a", "count": 1, "door": "rest"}, False)
    assert drained(refused) == ["lost"]
    assert drained(delete("a", 3)) == []
    assert drained(delete("a", 3, "unknown")) == []


def test_a_deleted_message_may_not_come_from_another_queue() -> None:
    made = (create("dead", fed_by="dead letters"), create(max_receives=1, dead_letter_queue="dead"), send("a 1"))
    calls = (receive("a 1", at=2), delete("a", 3), receive("a 1", at=9, count=2, queue="dead"))
    assert found(*made, *calls) == ["deleted"]


def test_a_send_that_comes_as_two_messages_is_named() -> None:
    again = [{**receive("a 1", at=3).result[0], "id": "b"}]
    calls = (receive("a 1", at=2), Call("receive", "work", 3, 3.1, "ok", {"vt": 5}, again))
    assert found(create(), send("a 1"), *calls) == ["duplicate"]
    assert found(create(), send("a 1"), send("a 1", outcome="unknown"), *calls) == []


def steps(*calls: Call) -> list[str]:
    sends = [send(f"g-{n} x", began=0.1 * n, queue="s.fifo", group="g", dedup_id=f"g-{n}") for n in range(3)]
    return found(create("s.fifo", numbered=True), *sends, *calls)


def step(*numbers: int, at: float, count: int = 1) -> Call:
    return receive(*(f"g-{number} x" for number in numbers), at=at, count=count, queue="s.fifo", group="g")


def test_a_group_in_order_is_fine() -> None:
    gone = [delete(f"g-{n}", 3 + n, queue="s.fifo") for n in range(3)]
    assert steps(step(0, 1, at=2), *gone[:2], step(2, at=4.5), gone[2]) == []


def test_a_message_before_an_earlier_one_is_deleted_is_named() -> None:
    assert steps(step(0, at=2), step(1, at=3), step(2, at=9)) == ["order", "order"]


def test_a_refused_delete_does_not_open_a_group() -> None:
    refused = Call("delete", "s.fifo", 2.5, 2.6, "ok", {"id": "g-0", "count": 1, "door": "rest"}, False)
    assert set(steps(step(0, at=2), refused, step(1, 2, at=3))) == {"order"}


def test_messages_swapped_in_one_answer_are_named() -> None:
    assert steps(step(1, 0, 2, at=2)) == ["order"]


def test_two_messages_of_one_deduplication_id_are_named() -> None:
    calls = (send("a 1", dedup_id="d"), send("b 1", dedup_id="d"), receive("a 1", at=2), receive("b 1", at=2))
    assert found(create(), *calls) == ["duplicate"]


def test_one_message_of_a_deduplication_id_is_enough() -> None:
    calls = (send("a 1", dedup_id="d"), send("b 1", dedup_id="d"), receive("a 1", at=2))
    assert found(create(), *calls) == []


def test_no_message_of_a_deduplication_id_is_a_loss() -> None:
    assert found(create(), send("a 1", dedup_id="d"), send("b 1", dedup_id="d")) == ["lost", "lost"]


def test_a_message_before_its_delay_is_named() -> None:
    assert found(create(), send("a 1", delay=3), receive("a 1", at=2)) == ["delay"]
    assert found(create(), send("a 1", delay=3), receive("a 1", at=4)) == []


def dead(*calls: Call) -> list[str]:
    made = (create("dead", fed_by="dead letters"), create(max_receives=2, dead_letter_queue="dead"), send("a 1"))
    return found(*made, *calls)


def test_a_dead_letter_at_the_limit_is_fine() -> None:
    assert dead(receive("a 1", at=2), receive("a 1", at=9, count=2), receive("a 1", at=20, count=3, queue="dead")) == []


def test_a_dead_letter_one_too_late_is_named() -> None:
    late = [receive("a 1", at=2 + 7 * n, count=n + 1) for n in range(3)]
    assert dead(*late, receive("a 1", at=30, count=4, queue="dead")) == ["dead letter"]


def test_a_dead_letter_one_too_early_is_named() -> None:
    assert dead(receive("a 1", at=2), receive("a 1", at=20, count=2, queue="dead")) == ["dead letter"]


def test_a_dead_letter_too_early_may_have_had_a_receive_without_an_answer() -> None:
    calls = (receive("a 1", at=2), receive("a 1", at=90, count=2, queue="dead"))
    assert dead(Call("receive", "work", 8, 8.1, "unknown", {"vt": 5}), *calls) == []
    assert dead(Call("receive", "work", 95, 95.1, "unknown", {"vt": 5}), *calls) == ["dead letter"]


def test_a_dead_letter_that_is_still_in_its_queue_is_named() -> None:
    calls = (receive("a 1", at=2), receive("a 1", at=9, queue="dead", count=3), receive("a 1", at=19, count=2))
    assert "dead letter" in dead(*calls)


def test_a_message_of_another_tenant_is_named() -> None:
    calls = (create(tenant="one"), send("two-1 x"), receive("two-1 x", at=2))
    assert found(*calls) == ["tenant"]


@pytest.mark.parametrize(("length", "total"), [(1, 1), (0, 0), (0, 2)])
def test_counts_that_are_not_the_facts_are_named(length: int, total: int) -> None:
    counts = Call("counts", "work", 9, 9, "ok", {}, {"queue_length": length, "total_messages": total})
    assert found(create(), send("a 1"), receive("a 1", at=2), delete("a", 3), counts) == ["counts"]


@pytest.mark.parametrize("check", CHECKS)
def test_every_check_says_what_it_checks(check: Check) -> None:
    assert check.__doc__

"""What the deliveries of a message must satisfy: who holds it, what its receipts do, how it is counted, how it ends."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from tests.fire.checks import CLOCK_S, Check, Violation
from tests.fire.history import Call, Delivery, History, Key


def of_messages(history: History) -> Iterator[tuple[Key, list[Delivery]]]:
    """Queue and id of each message, and its deliveries in the order of their counts."""
    for (queue, _), deliveries in history.deliveries.items():
        by_id: dict[str, list[Delivery]] = {}
        for delivery in deliveries:
            by_id.setdefault(delivery.id, []).append(delivery)
        for message_id, each in by_id.items():
            yield (queue, message_id), each


def endings(history: History, *ops: str) -> dict[str, list[Call]]:
    """Calls that ended a delivery or may have, by message. Ids are unique in the database, and kept in moves."""
    found: dict[str, list[Call]] = {}
    for call in history.of(*ops):
        if call.outcome == "unknown" or (call.outcome == "ok" and call.result):
            found.setdefault(call.given["id"], []).append(call)
    return found


def nothing_after_delete(history: History) -> list[Violation]:
    """After a confirmed delete, no receive that begins later returns the message, from no queue."""
    deleted: dict[str, Call] = {}
    for call in history.of("delete"):
        if call.outcome == "ok" and call.result:
            deleted.setdefault(call.given["id"], call)
    return [
        Violation("deleted", f"{key} was delivered from {queue} after its delete was confirmed", (done, delivery.call))
        for (queue, key), deliveries in history.deliveries.items()
        for delivery in deliveries
        if (done := deleted.get(delivery.id)) is not None and delivery.call.began > done.ended
    ]


def nothing_vanishes(history: History) -> list[Violation]:
    """What was delivered and never deleted is delivered until the end, when all that is left is deleted."""
    drained = {call.target for call in history.of("counts")}
    deletes = endings(history, "delete")
    ends = {queue: history.settings.get(queue, {}).get("dead_letter_queue") for queue in drained}
    seen = {(queue, delivery.id) for (queue, _), each in history.deliveries.items() for delivery in each}
    return [
        Violation("lost", f"{each[-1].key} of {queue} was delivered, never deleted, and is gone", (each[-1].call,))
        for (queue, message_id), each in of_messages(history)
        if queue in drained and message_id not in deletes and (ends[queue], message_id) not in seen
    ]


def one_holder(history: History) -> list[Violation]:
    """Nobody receives a message while another holder's visibility timeout runs, and nobody twice in one answer."""
    touched = endings(history, "hide", "delete")
    found = []
    for (queue, message_id), deliveries in of_messages(history):
        ordered = sorted(deliveries, key=lambda delivery: delivery.call.ended)
        for first, second in pairwise(ordered):
            calls = (first.call, second.call)
            if second.call is first.call:
                found.append(Violation("two holders", f"{first.key} of {queue} came twice in one answer", calls[:1]))
                continue
            until = _held_until(first, second, touched.get(message_id, []))
            skew = history.skew(first.call.began, second.call.ended)
            early = second.call.began >= first.call.ended and second.call.ended < until - skew - CLOCK_S
            if early and not history.crashed(first.call.began - 1, second.call.ended):
                message = f"{first.key} of {queue} was received twice within its timeout"
                found.append(Violation("two holders", message, calls))
    return found


def _held_until(first: Delivery, second: Delivery, touched: list[Call]) -> float:
    """The timeout of the receive, or that of the last confirmed change; no time where a change may have ended it."""
    until: float = first.call.began + first.call.given["vt"]
    for call in touched:
        if call.ended < first.call.began or call.began > second.call.ended:
            continue
        certain = call.op == "hide" and call.outcome == "ok" and call.began > first.call.ended
        if not certain or call.ended > second.call.began:
            return 0
        until = call.began + call.given["seconds"]
    return until


def stale_receipts(history: History) -> list[Violation]:
    """A receipt of an earlier delivery changes nothing (except at the SQS door of a standard queue).

    SQS answers success as well when the message is gone already.
    """
    touched = endings(history, "delete", "hide")
    deliveries = dict(of_messages(history))
    found = []
    for call in history.of("delete", "hide"):
        count = call.given.get("count")
        fifo = call.target.endswith(".fifo")
        if call.outcome != "ok" or not call.result or count is None or (call.given["door"] == "sqs" and not fifo):
            continue
        others = (each for each in touched.get(call.given["id"], []) if each.op == "delete" and each is not call)
        if call.given["door"] == "sqs" and any(each.began < call.ended for each in others):
            continue
        later = _after(call, deliveries.get((call.target, call.given["id"]), []))
        if later is not None:
            message = f"a receipt of delivery {count} was accepted after delivery {later.count}"
            found.append(Violation("stale receipt", message, (later.call, call)))
    return found


def _after(call: Call, deliveries: list[Delivery]) -> Delivery | None:
    """A delivery between the one whose receipt this call has, and the call. A crash may repeat counts, not receipts."""
    receipt = call.given.get("receipt")
    own = next((each for each in deliveries if receipt is not None and each.receipt == receipt), None)
    for each in deliveries:
        later = each.count > call.given["count"] if own is None else each.call.began > own.call.ended
        if later and each.call.ended < call.began:
            return each
    return None


def counts_rise(history: History) -> list[Violation]:
    """The receive count of a message rises by one with each delivery, but for receives without an answer."""
    found = []
    for (queue, _), deliveries in of_messages(history):
        key = deliveries[0].key
        found += list(_wrong_counts(history, queue, key, deliveries))
        # Dead letters go on counting.
        dead = history.settings.get(queue, {}).get("fed_by") == "dead letters"
        before = deliveries[0].count - 1 if dead else 0
        since = deliveries[0].call.began if dead else 0.0
        for delivery in deliveries:
            if delivery.count - before - 1 > len(history.unanswered(queue, since, delivery.call.ended)):
                message = f"{key} of {queue} was delivered with the receive count {delivery.count} after {before}"
                found.append(Violation("receive count", message, (delivery.call,)))
            before, since = delivery.count, delivery.call.began
    return found


def _wrong_counts(history: History, queue: str, key: str, deliveries: list[Delivery]) -> Iterator[Violation]:
    """Repeated counts, and counts against the order of the calls. A crash of PostgreSQL forgets claims."""
    for first, second in pairwise(deliveries):
        calls = (first.call, second.call)
        since, until = min(call.began for call in calls), max(call.ended for call in calls)
        if history.crashed(since - 1, until):
            continue
        if first.count == second.count:
            yield Violation("receive count", f"{key} of {queue} was delivered twice with count {first.count}", calls)
        elif second.call.ended < first.call.began:
            message = f"{key} of {queue} was delivered with count {second.count} before count {first.count}"
            yield Violation("receive count", message, calls)


CHECKS: tuple[Check, ...] = (nothing_after_delete, nothing_vanishes, one_holder, stale_receipts, counts_rise)

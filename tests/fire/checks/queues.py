"""What a history of queues must satisfy."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from tests.fire.checks import Check, Violation
from tests.fire.history import FORGETTING, Call, Delivery, History

CLOCK_S = 0.05
"""How far the monotonic clock and the wall clock of a machine may drift apart during a call."""

Key = tuple[str, str]


def sent_is_delivered(history: History) -> list[Violation]:
    """An acknowledged send is delivered, or is a dead letter."""
    found = []
    everywhere = {key for _, key in history.deliveries}
    for (queue, key), attempts in history.sends.items():
        acknowledged = next((call for call, _, outcome in attempts if outcome == "ok"), None)
        dead = history.settings.get(queue, {}).get("dead_letter_queue")
        if acknowledged is None or (queue, key) in history.deliveries or (dead, key) in history.deliveries:
            continue
        if attempts[0][1].get("dedup_id") is not None and _first_of_duplicates(history, queue, attempts[0][1]):
            continue
        elsewhere = " (it was delivered elsewhere)" if key in everywhere else ""
        found.append(
            Violation("lost", f"{key} was acknowledged by {queue}, never delivered{elsewhere}", (acknowledged,))
        )
    return found


def _first_of_duplicates(history: History, queue: str, entry: dict[str, object]) -> bool:
    """Whether another message with the same deduplication id was delivered."""
    return (queue, str(entry["dedup_id"])) in history.delivered_ids


def delivered_was_sent(history: History) -> list[Violation]:
    """Nothing is delivered that was never sent, and body and attributes are unchanged."""
    found = []
    sources = {settings.get("dead_letter_queue"): queue for queue, settings in history.settings.items()}
    for (queue, key), deliveries in history.deliveries.items():
        if history.settings.get(queue, {}).get("fed_by") is not None:
            continue  # by a schedule or a topic, whose own checks know what was sent
        attempts = history.sends.get((queue, key)) or history.sends.get((sources.get(queue, ""), key), [])
        possible = [(call, entry) for call, entry, outcome in attempts if outcome != "fail"]
        for delivery in deliveries:
            if not possible:
                calls = (*(call for call, _, _ in attempts), delivery.call)
                found.append(Violation("phantom", f"{key} was delivered from {queue} but never sent", calls))
                break
            if all(_differs(entry, delivery) for _, entry in possible):
                message = f"{key} was delivered from {queue} with another body or other attributes"
                found.append(Violation("altered", message, (possible[0][0], delivery.call)))
                break
    return found


def _differs(entry: dict[str, object], delivery: Delivery) -> bool:
    return (entry["body"], entry.get("attributes") or {}) != (delivery.body, delivery.attributes)


def nothing_after_delete(history: History) -> list[Violation]:
    """After a confirmed delete, no receive that begins later returns the message."""
    deleted: dict[tuple[str, str], Call] = {}
    for call in history.of("delete"):
        if call.outcome == "ok" and call.result:
            deleted.setdefault((call.target, call.given["id"]), call)
    return [
        Violation("deleted", f"{key} was delivered from {queue} after its delete was confirmed", (done, delivery.call))
        for (queue, key), deliveries in history.deliveries.items()
        for delivery in deliveries
        if (done := deleted.get((queue, delivery.id))) is not None and delivery.call.began > done.ended
    ]


def one_holder(history: History) -> list[Violation]:
    """Nobody receives a message while another holder's visibility timeout runs."""
    touched = _touches(history)
    found = []
    for (queue, key), deliveries in history.deliveries.items():
        ordered = sorted(deliveries, key=lambda delivery: delivery.call.ended)
        for first, second in pairwise(ordered):
            skew = history.skew(first.call.began, second.call.ended)
            held_until = first.call.began + first.call.given["vt"] - skew - CLOCK_S
            if first.id != second.id or second.call is first.call or second.call.began < first.call.ended:
                continue
            released = any(
                call.began < second.call.ended and call.ended > first.call.began
                for call in touched.get((queue, first.id), [])
            )
            if second.call.ended < held_until and not released:
                if history.crashed(first.call.began - 1, second.call.ended):
                    continue
                calls = (first.call, second.call)
                found.append(Violation("two holders", f"{key} of {queue} was received twice within its timeout", calls))
    return found


def _touches(history: History) -> dict[tuple[str, str], list[Call]]:
    """Calls that may have ended a delivery early, by queue and message."""
    found: dict[tuple[str, str], list[Call]] = {}
    for call in history.of("hide", "delete"):
        if call.outcome != "fail":
            found.setdefault((call.target, call.given["id"]), []).append(call)
    return found


def stale_receipts(history: History) -> list[Violation]:
    """A receipt of an earlier delivery changes nothing (except at the SQS door of a standard queue).

    SQS answers success as well when the message is gone already.
    """
    deletes = _touches(history)
    latest: dict[tuple[str, str], list[Delivery]] = {}
    for (queue, _), deliveries in history.deliveries.items():
        for delivery in deliveries:
            latest.setdefault((queue, delivery.id), []).append(delivery)
    found = []
    for call in history.of("delete", "hide"):
        count = call.given.get("count")
        fifo = call.target.endswith(".fifo")
        if call.outcome != "ok" or not call.result or count is None or (call.given["door"] == "sqs" and not fifo):
            continue
        others = (each for each in deletes.get((call.target, call.given["id"]), []) if each.op == "delete")
        if call.given["door"] == "sqs" and any(each is not call and each.began < call.ended for each in others):
            continue
        for delivery in latest.get((call.target, call.given["id"]), []):
            if delivery.count > count and delivery.call.ended < call.began:
                message = f"a receipt of delivery {count} was accepted after delivery {delivery.count}"
                found.append(Violation("stale receipt", message, (delivery.call, call)))
                break
    return found


def counts_rise(history: History) -> list[Violation]:
    """The receive count of a message rises by one with each delivery."""
    unknown = {call.target for call in history.of("receive") if call.outcome == "unknown"}
    crashes = any(fault.target in FORGETTING for fault in history.faults)
    found = []
    for (queue, key), deliveries in history.deliveries.items():
        by_id: dict[str, list[Delivery]] = {}
        for delivery in deliveries:
            by_id.setdefault(delivery.id, []).append(delivery)
        for each in by_id.values():
            found += list(_wrong_counts(history, queue, key, each))
            counts = [delivery.count for delivery in each]
            dead = history.settings.get(queue, {}).get("fed_by") == "dead letters"
            if not crashes and queue not in unknown and not dead and counts != list(range(1, len(counts) + 1)):
                message = f"{key} of {queue} was delivered with the receive counts {counts}"
                found.append(Violation("receive count", message, tuple(delivery.call for delivery in each)))
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


def fifo_order(history: History) -> list[Violation]:
    """No message of a group is delivered while an earlier one is neither deleted nor before it in the same answer."""
    deletes: dict[tuple[str, str], float] = {}
    for call in history.of("delete"):
        if call.outcome != "fail":
            key = (call.target, call.given["id"])
            deletes[key] = min(deletes.get(key, call.began), call.began)
    found = []
    for queue, group, deliveries in _groups(history):
        ids = {_sequence(delivery): delivery.id for delivery in deliveries}
        first = {number: min(d.call.ended for d in deliveries if _sequence(d) == number) for number in ids}
        for delivery in deliveries:
            inside = {_sequence(d) for d in deliveries if d.call is delivery.call and d.place < delivery.place}
            for number, message_id in ids.items():
                if number >= _sequence(delivery) or number in inside:
                    continue
                if deletes.get((queue, message_id), float("inf")) > delivery.call.ended:
                    message = (
                        f"{delivery.key} of group {group} of {queue} was delivered before number {number} was deleted"
                    )
                    earlier = [d.call for d in deliveries if _sequence(d) == number and d.call.ended == first[number]]
                    found.append(Violation("order", message, (*earlier[:1], delivery.call)))
                    break
    return found


def _groups(history: History) -> Iterator[tuple[str, str, list[Delivery]]]:
    groups: dict[tuple[str, str], list[Delivery]] = {}
    for (queue, _), deliveries in history.deliveries.items():
        if queue.endswith(".fifo") and history.settings.get(queue, {}).get("numbered"):
            for delivery in deliveries:
                groups.setdefault((queue, delivery.group or ""), []).append(delivery)
    for (queue, group), deliveries in groups.items():
        yield queue, group, deliveries


def _sequence(delivery: Delivery) -> int:
    """The number that its only sender gave it within the group."""
    return int(delivery.key.rpartition("-")[2])


def no_duplicates(history: History) -> list[Violation]:
    """A deduplication id stores one message, from any sender, on any node and across restarts."""
    return [
        Violation("duplicate", f"{dedup_id} of {queue} was stored as messages {sorted(ids)}", tuple(ids.values()))
        for (queue, dedup_id), ids in history.delivered_ids.items()
        if len(ids) > 1
    ]


def delays_hold(history: History) -> list[Violation]:
    """No message is delivered before its delay has passed since its send began."""
    found = []
    for (queue, key), deliveries in history.deliveries.items():
        attempts = [each for each in history.sends.get((queue, key), []) if each[2] != "fail"]
        if not attempts:
            continue
        call, entry, _ = attempts[0]
        due = call.began + (entry.get("delay") or 0)
        due -= history.skew(call.began, due) + CLOCK_S
        early = [delivery.call for delivery in deliveries if delivery.call.ended < due]
        if entry.get("delay") and early:
            found.append(
                Violation("delay", f"{key} of {queue} came before its delay of {entry['delay']} s", (call, early[0]))
            )
    return found


def dead_letters(history: History) -> list[Violation]:
    """A message becomes a dead letter exactly at the limit, and is then gone from its queue."""
    found = []
    unknown = {call.target for call in history.of("receive") if call.outcome == "unknown"}
    crashes = any(fault.target in FORGETTING for fault in history.faults)
    for queue, settings in history.settings.items():
        limit, target = settings.get("max_receives"), settings.get("dead_letter_queue")
        if limit is None or target is None:
            continue
        for (at, key), deliveries in history.deliveries.items():
            late = [delivery.call for delivery in deliveries if at == queue and delivery.count > limit]
            if late:
                message = f"{key} was received more than {limit} times from {queue}"
                found.append(Violation("dead letter", message, tuple(late[:1])))
            if at != target:
                continue
            before = history.deliveries.get((queue, key), [])
            counts = {delivery.count for delivery in before}
            if len(counts) < limit and queue not in unknown and not crashes and (queue, key) in history.sends:
                calls = tuple(delivery.call for delivery in (*before, *deliveries[:1]))
                found.append(
                    Violation("dead letter", f"{key} left {queue} after {len(counts)} of {limit} receives", calls)
                )
            moved = min(delivery.call.ended for delivery in deliveries)
            after = [delivery.call for delivery in before if delivery.call.began > moved]
            if after:
                message = f"{key} was received from {queue} after it was a dead letter"
                found.append(Violation("dead letter", message, (deliveries[0].call, after[0])))
    return found


def tenants_apart(history: History) -> list[Violation]:
    """A tenant receives only what it sent. The key of a message begins with its tenant."""
    return [
        Violation("tenant", f"{key} was delivered to tenant {settings['tenant']}", (deliveries[0].call,))
        for (queue, key), deliveries in history.deliveries.items()
        if (settings := history.settings.get(queue, {})).get("tenant") is not None
        and not key.startswith(f"{settings['tenant']}-")
    ]


def counts_are_facts(history: History) -> list[Violation]:
    """When everything is drained, a queue counts no messages, and as many sent as were acknowledged."""
    found = []
    for call in history.of("counts"):
        certain: set[str] = set()
        possible: set[str] = set()
        for (queue, key), attempts in history.sends.items():
            for number, (_, entry, outcome) in enumerate(attempts if queue == call.target else []):
                # Without a deduplication id every attempt may have stored a message.
                name = entry.get("dedup_id") or f"{key} {number}"
                certain |= {name} if outcome == "ok" else set()
                possible |= {name} if outcome != "fail" else set()
        fed = history.settings.get(call.target, {}).get("fed_by") is not None
        length, total = call.result["queue_length"], call.result["total_messages"]
        if length != 0:
            found.append(Violation("counts", f"{call.target} is drained and counts {length} messages", (call,)))
        if not fed and not len(certain) <= total <= len(possible):
            message = f"{call.target} counts {total} sent; {len(certain)} were acknowledged, {len(possible)} possible"
            found.append(Violation("counts", message, (call,)))
    return found


CHECKS: tuple[Check, ...] = (
    sent_is_delivered,
    delivered_was_sent,
    nothing_after_delete,
    one_holder,
    stale_receipts,
    counts_rise,
    fifo_order,
    no_duplicates,
    delays_hold,
    dead_letters,
    tenants_apart,
    counts_are_facts,
)

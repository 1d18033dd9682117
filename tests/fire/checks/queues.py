"""What a history of queues must satisfy."""

from __future__ import annotations

from collections.abc import Iterator

from tests.fire.checks import CLOCK_S, Check, Violation
from tests.fire.checks.deliveries import endings
from tests.fire.history import Delivery, History


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
    """Nothing is delivered that was never sent, and body, attributes and group are unchanged."""
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
                message = f"{key} was delivered from {queue} with another body, group or other attributes"
                found.append(Violation("altered", message, (possible[0][0], delivery.call)))
                break
    return found


def _differs(entry: dict[str, object], delivery: Delivery) -> bool:
    sent = (entry["body"], entry.get("attributes") or {}, entry.get("group"))
    return sent != (delivery.body, delivery.attributes, delivery.group)


def fifo_order(history: History) -> list[Violation]:
    """No message of a group is delivered while an earlier one is neither deleted nor before it in the same answer."""
    deletes = {key: min(call.began for call in calls) for key, calls in endings(history, "delete").items()}
    found = []
    for queue, group, deliveries in _groups(history):
        ids = {_sequence(delivery): delivery.id for delivery in deliveries}
        first = {number: min(d.call.ended for d in deliveries if _sequence(d) == number) for number in ids}
        for delivery in deliveries:
            inside = {_sequence(d) for d in deliveries if d.call is delivery.call and d.place < delivery.place}
            for number, message_id in ids.items():
                if number >= _sequence(delivery) or number in inside:
                    continue
                if deletes.get(message_id, float("inf")) > delivery.call.ended:
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
    """A deduplication id stores one message, from any sender, on any node and across restarts.

    Without one, each attempt stores at most one message, which stays one as a dead letter.
    """
    found = [
        Violation("duplicate", f"{dedup_id} of {queue} was stored as messages {sorted(ids)}", tuple(ids.values()))
        for (queue, dedup_id), ids in history.delivered_ids.items()
        if len(ids) > 1
    ]
    sources = {settings.get("dead_letter_queue"): queue for queue, settings in history.settings.items()}
    for (queue, key), deliveries in history.deliveries.items():
        attempts = history.sends.get((queue, key)) or history.sends.get((sources.get(queue, ""), key), [])
        possible = sum(outcome != "fail" for _, _, outcome in attempts)
        calls = {delivery.id: delivery.call for delivery in deliveries}
        if attempts and len(calls) > max(possible, 1):
            message = f"{key} of {queue} was sent {possible} times and came as messages {sorted(calls)}"
            found.append(Violation("duplicate", message, tuple(calls.values())))
    return found


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
            moved = min(delivery.call.ended for delivery in deliveries)
            sent = history.sends.get((queue, key))
            if sent and len(before) + len(history.unanswered(queue, sent[0][0].began, moved)) < limit:
                calls = tuple(delivery.call for delivery in (*before, *deliveries[:1]))
                found.append(
                    Violation("dead letter", f"{key} left {queue} after {len(before)} of {limit} receives", calls)
                )
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
    fifo_order,
    no_duplicates,
    delays_hold,
    dead_letters,
    tenants_apart,
    counts_are_facts,
)

"""Standard queues: sending, receiving, deleting, hiding, expiring."""

from __future__ import annotations

from datetime import timedelta

import pytest

from penstock.errors import QueueFull, QueueNotFound, TooLarge
from penstock.limits import DEFAULT_PRIORITY
from penstock.model import Outcome, Receive, Sent
from tests.store.caller import Caller, failed, received
from tests.store.conftest import MakeQueue


async def test_a_message_comes_out_as_it_went_in(caller: Caller, make_queue: MakeQueue) -> None:
    queue = await make_queue()
    fields = {
        "json": True,
        "priority": 7,
        "group_id": "g",
        "dedup_id": "d",
        "attributes": '{"a": {"type": "String", "value": "ü"}}',
        "headers": '{"h": 1}',
        "trace": "Root=1-5e",
    }
    [sent] = await caller.send(queue, '{"price": "5 €"}', **fields)
    caller.clock.advance(seconds=2)

    message = await caller.receive_one(queue, visibility_timeout_s=30)

    assert message.id == sent
    assert message.body == '{"price": "5 €"}'
    assert {name: getattr(message, name) for name in fields} == fields
    assert message.lease > 0
    assert message.receives == 1
    assert message.sent_at == caller.clock.now() - timedelta(seconds=2)
    assert message.first_received_at == caller.clock.now()
    assert message.visible_at == caller.clock.now() + timedelta(seconds=30)
    assert message.dead_letter_source is None


async def test_what_was_not_given_comes_out_as_nothing(caller: Caller, make_queue: MakeQueue) -> None:
    queue = await make_queue()
    await caller.send(queue, "")

    message = await caller.receive_one(queue)

    assert (message.body, message.json, message.priority) == ("", False, DEFAULT_PRIORITY)
    assert (message.group_id, message.dedup_id, message.attributes, message.headers, message.trace) == (None,) * 5


async def test_ids_rise_across_queues_and_are_never_reused(caller: Caller, make_queue: MakeQueue) -> None:
    one, two = await make_queue(), await make_queue()
    [first] = await caller.send(one, "a")
    [second] = await caller.send(two, "b")
    await caller.delete(two, second)

    [third, fourth] = await caller.send(one, "c", "d")

    assert first < second < third < fourth


async def test_messages_come_oldest_first(caller: Caller, make_queue: MakeQueue) -> None:
    queue = await make_queue()
    await caller.send(queue, "a", "b")
    await caller.send(queue, "c")

    assert await caller.bodies(queue, 2) == ["a", "b"]
    assert await caller.bodies(queue, 2) == ["c"]


async def test_higher_priority_comes_first(caller: Caller, make_queue: MakeQueue) -> None:
    queue = await make_queue()
    for priority in (0, 1000, None, 500, 1000):
        await caller.send(queue, f"{priority}", priority=priority)

    messages = await caller.receive(queue, 10)

    assert [message.priority for message in messages] == [1000, 1000, 500, DEFAULT_PRIORITY, 0]
    assert messages[0].id < messages[1].id


async def test_a_usual_message_comes_before_low_ones_that_are_being_received(
    caller: Caller, make_queue: MakeQueue
) -> None:
    queue = await make_queue()
    await caller.send(queue, "low", "lower", priority=1)
    await caller.receive(queue)
    await caller.send(queue, "usual")

    assert await caller.bodies(queue, 1) == ["usual"]


async def test_a_lifo_queue_gives_the_newest_of_a_priority_first(caller: Caller, make_queue: MakeQueue) -> None:
    queue = await make_queue(lifo=True)
    await caller.send(queue, "a", "b")
    await caller.send(queue, "urgent-a", "urgent-b", priority=200)

    assert await caller.bodies(queue) == ["urgent-b", "urgent-a", "b", "a"]


async def test_a_group_id_means_nothing_to_a_standard_queue(caller: Caller, make_queue: MakeQueue) -> None:
    queue = await make_queue()
    await caller.send(queue, "a", "b", group_id="g")

    assert [message.group_id for message in await caller.receive(queue)] == ["g"]
    assert await caller.bodies(queue) == ["b"]


async def test_a_received_message_is_hidden_until_its_timeout_ends(caller: Caller, make_queue: MakeQueue) -> None:
    queue = await make_queue(visibility_timeout_s=30)
    await caller.send(queue, "a")
    first = await caller.receive_one(queue)

    caller.clock.advance(seconds=29.999999)
    assert await caller.receive(queue) == []
    caller.clock.advance(seconds=0.000001)
    again = await caller.receive_one(queue)

    assert (again.id, again.receives) == (first.id, 2)
    assert again.lease > first.lease
    assert again.first_received_at == first.first_received_at


async def test_the_requests_timeout_wins_over_the_queues(caller: Caller, make_queue: MakeQueue) -> None:
    queue = await make_queue(visibility_timeout_s=30)
    await caller.send(queue, "a")
    await caller.receive(queue, visibility_timeout_s=5)

    caller.clock.advance(seconds=5)

    assert await caller.bodies(queue) == ["a"]


async def test_a_timeout_of_zero_counts_the_receive_and_hides_nothing(caller: Caller, make_queue: MakeQueue) -> None:
    queue = await make_queue()
    await caller.send(queue, "a", "b")

    first = await caller.receive(queue, 10, visibility_timeout_s=0)
    again = await caller.receive(queue, 10, visibility_timeout_s=0)

    assert [message.body for message in first] == [message.body for message in again] == ["a", "b"]
    assert [message.receives for message in again] == [2, 2]
    assert all(later.lease > earlier.lease for earlier, later in zip(first, again, strict=True))
    assert await caller.state(queue) == (2, 0, 0)


async def test_a_message_whose_lease_ran_out_returns_to_its_old_place(caller: Caller, make_queue: MakeQueue) -> None:
    queue = await make_queue()
    await caller.send(queue, "a", "b", "c")
    await caller.receive(queue, visibility_timeout_s=5)

    caller.clock.advance(seconds=5)

    assert await caller.bodies(queue) == ["a", "b", "c"]


async def test_an_empty_receive_tells_when_the_next_message_is_due(caller: Caller, make_queue: MakeQueue) -> None:
    queue = await make_queue()
    nothing = received(await caller.ask(queue))
    await caller.send(queue, "later", delay_s=60)
    await caller.send(queue, "a")
    await caller.receive(queue, visibility_timeout_s=20)

    answer = received(await caller.ask(queue))

    assert (nothing.messages, nothing.next_due_at) == ([], None)
    assert (answer.messages, answer.next_due_at) == ([], caller.clock.now() + timedelta(seconds=20))


async def test_requests_of_one_call_share_the_messages_in_their_order(caller: Caller, make_queue: MakeQueue) -> None:
    queue, other = await make_queue(), await make_queue()
    await caller.send(queue, "a", "b", "c")
    await caller.send(other, "x")
    requests = [
        Receive(tenant=caller.tenant, queue=name, limit=limit)
        for name, limit in ((queue, 2), (other, 1), (queue, 2), (queue, 2))
    ]

    answers = await caller.store.receive_many(requests, caller.clock.now())

    assert [[m.body for m in received(answer).messages] for answer in answers] == [["a", "b"], ["x"], ["c"], []]


async def test_a_delayed_message_waits(caller: Caller, make_queue: MakeQueue) -> None:
    queue = await make_queue()
    await caller.send(queue, "later", delay_s=10)
    await caller.send(queue, "now")

    assert await caller.peek(queue) == ["now"]
    assert await caller.bodies(queue, visibility_timeout_s=100) == ["now"]
    caller.clock.advance(seconds=9)
    assert await caller.bodies(queue) == []
    caller.clock.advance(seconds=1)
    assert await caller.peek(queue) == ["later"]
    assert await caller.bodies(queue) == ["later"]


async def test_the_queues_delay_holds_unless_the_message_has_its_own(caller: Caller, make_queue: MakeQueue) -> None:
    queue = await make_queue(delay_s=10)
    await caller.send(queue, "slow")
    await caller.send(queue, "fast", delay_s=0)

    assert await caller.bodies(queue, visibility_timeout_s=100) == ["fast"]
    caller.clock.advance(seconds=10)
    assert await caller.bodies(queue) == ["slow"]


async def test_an_expired_message_is_never_seen_again(caller: Caller, make_queue: MakeQueue) -> None:
    queue = await make_queue(retention_s=100)
    await caller.send(queue, "short", retention_s=60)
    await caller.send(queue, "queue's own")
    await caller.send(queue, "long", retention_s=200)

    caller.clock.advance(seconds=60)
    assert await caller.peek(queue) == ["queue's own", "long"]
    caller.clock.advance(seconds=40)
    assert await caller.peek(queue) == ["long"]
    assert await caller.bodies(queue, visibility_timeout_s=0) == ["long"]
    caller.clock.advance(seconds=100)
    assert await caller.bodies(queue) == []


async def test_a_sweep_removes_what_has_expired(caller: Caller, make_queue: MakeQueue) -> None:
    queue = await make_queue(retention_s=100)
    await caller.send(queue, "a", "b", "c")
    await caller.send(queue, "delayed", delay_s=1000)
    await caller.send(queue, "long", retention_s=200)
    held = await caller.receive_one(queue)
    caller.clock.advance(seconds=100)

    assert await caller.sweep() >= 4

    assert await caller.state(queue) == (1, 0, 0)
    assert await caller.delete(queue, held) == [Outcome.ABSENT]
    assert await caller.bodies(queue) == ["long"]


async def test_peek_changes_nothing(caller: Caller, make_queue: MakeQueue) -> None:
    queue = await make_queue()
    await caller.send(queue, "low", priority=1)
    await caller.send(queue, "high", "high too")
    await caller.receive(queue, visibility_timeout_s=5)

    [peeked] = await caller.store.peek(caller.tenant, queue, 1, caller.clock.now())
    assert (peeked.body, peeked.lease, peeked.receives) == ("high too", 0, 0)
    assert await caller.peek(queue) == ["high too", "low"]
    caller.clock.advance(seconds=5)
    assert await caller.peek(queue) == ["high", "high too", "low"]
    assert [(m.body, m.receives) for m in await caller.receive(queue, 2)] == [("high", 2), ("high too", 1)]


async def test_shuffle_gives_any_visible_message_once(caller: Caller, make_queue: MakeQueue) -> None:
    queue = await make_queue()
    everything = [f"{number}" for number in range(40)]
    await caller.send(queue, *everything)
    await caller.send(queue, "hidden", delay_s=60)

    peeked = await caller.peek(queue, 40, shuffle=True)
    first = await caller.bodies(queue, 15, shuffle=True)
    rest = await caller.bodies(queue, 100, shuffle=True)

    assert sorted(peeked) == sorted(first + rest) == sorted(everything)
    # By chance in order: once in 40! runs.
    assert peeked != everything


async def test_a_deleted_message_is_gone(caller: Caller, make_queue: MakeQueue) -> None:
    queue = await make_queue()
    await caller.send(queue, "a")
    message = await caller.receive_one(queue)

    assert await caller.delete(queue, message) == [Outcome.DONE]

    assert await caller.delete(queue, message) == [Outcome.ABSENT]
    caller.clock.advance(seconds=1000)
    assert await caller.receive(queue) == []
    assert await caller.state(queue) == (0, 0, 0)


async def test_a_lease_that_ran_out_may_still_delete(caller: Caller, make_queue: MakeQueue) -> None:
    queue = await make_queue()
    await caller.send(queue, "a")
    message = await caller.receive_one(queue, visibility_timeout_s=5)
    caller.clock.advance(seconds=60)

    assert await caller.delete(queue, message) == [Outcome.DONE]
    assert await caller.receive(queue) == []


async def test_a_receipt_dies_when_the_message_is_received_again(caller: Caller, make_queue: MakeQueue) -> None:
    queue = await make_queue()
    await caller.send(queue, "a")
    old = await caller.receive_one(queue, visibility_timeout_s=5)
    caller.clock.advance(seconds=5)
    current = await caller.receive_one(queue)

    assert await caller.delete(queue, old) == [Outcome.STALE]
    assert await caller.hide(queue, old, 0) == (Outcome.STALE, None)
    assert await caller.store.archive_many([caller.handle(queue, old)], caller.clock.now()) == [Outcome.STALE]
    assert await caller.receive(queue) == []
    assert await caller.delete(queue, current) == [Outcome.DONE]


async def test_without_a_lease_the_id_alone_deletes(caller: Caller, make_queue: MakeQueue) -> None:
    queue = await make_queue()
    [ready, held] = await caller.send(queue, "ready", "held")
    await caller.hide(queue, await caller.receive_one(queue), 0)

    assert await caller.delete(queue, ready, held) == [Outcome.DONE, Outcome.DONE]
    assert await caller.state(queue) == (0, 0, 0)


async def test_a_message_of_another_queue_is_absent(caller: Caller, make_queue: MakeQueue) -> None:
    queue, other = await make_queue(), await make_queue()
    await caller.send(queue, "a")
    message = await caller.receive_one(queue)

    assert await caller.delete(other, message, message.id) == [Outcome.ABSENT, Outcome.ABSENT]
    assert await caller.hide(other, message, 0) == (Outcome.ABSENT, None)
    assert await caller.delete(queue, message) == [Outcome.DONE]


@pytest.mark.parametrize("message_id", [0, -1, 2**62])
async def test_an_id_nobody_gave_out_is_absent(caller: Caller, make_queue: MakeQueue, message_id: int) -> None:
    queue = await make_queue()

    assert await caller.delete(queue, message_id) == [Outcome.ABSENT]
    assert await caller.hide(queue, message_id, 5) == (Outcome.ABSENT, None)


async def test_the_same_handle_twice_in_a_batch_is_done_once(caller: Caller, make_queue: MakeQueue) -> None:
    queue = await make_queue()
    await caller.send(queue, "a", "b")
    [first, second] = await caller.receive(queue, 2)

    outcomes = await caller.delete(queue, first, first, second, first)

    assert outcomes == [Outcome.DONE, Outcome.ABSENT, Outcome.DONE, Outcome.ABSENT]
    assert await caller.state(queue) == (0, 0, 0)


async def test_archiving_removes_a_message_like_a_delete(caller: Caller, make_queue: MakeQueue) -> None:
    queue, keeping = await make_queue(), await make_queue(archive=True)
    await caller.send(queue, "a")
    await caller.send(keeping, "b")
    message, kept = await caller.receive_one(queue), await caller.receive_one(keeping)
    handle = caller.handle(queue, message)

    outcomes = await caller.store.archive_many([handle, handle], caller.clock.now())

    assert outcomes == [Outcome.DONE, Outcome.ABSENT]
    assert await caller.delete(keeping, kept) == [Outcome.DONE]
    caller.clock.advance(seconds=100)
    assert await caller.bodies(queue) == await caller.bodies(keeping) == []


async def test_hiding_longer_counts_from_now(caller: Caller, make_queue: MakeQueue) -> None:
    queue = await make_queue()
    await caller.send(queue, "a")
    message = await caller.receive_one(queue, visibility_timeout_s=30)
    caller.clock.advance(seconds=20)

    answer = await caller.hide(queue, message, 30)

    assert answer == (Outcome.DONE, caller.clock.now() + timedelta(seconds=30))
    caller.clock.advance(seconds=29)
    assert await caller.receive(queue) == []
    caller.clock.advance(seconds=1)
    assert await caller.bodies(queue) == ["a"]


@pytest.mark.parametrize("seconds", [0, -1, -43_200])
async def test_hiding_for_no_time_releases_at_once(caller: Caller, make_queue: MakeQueue, seconds: int) -> None:
    queue = await make_queue()
    await caller.send(queue, "a", "b")
    message = await caller.receive_one(queue)

    assert await caller.hide(queue, message, seconds) == (Outcome.DONE, caller.clock.now())

    assert await caller.bodies(queue) == ["a", "b"]


async def test_a_lease_that_ran_out_may_hide_the_message_again(caller: Caller, make_queue: MakeQueue) -> None:
    queue = await make_queue()
    await caller.send(queue, "a")
    message = await caller.receive_one(queue, visibility_timeout_s=5)
    caller.clock.advance(seconds=60)
    assert await caller.peek(queue) == ["a"]

    answer = await caller.hide(queue, message, 10)

    assert answer == (Outcome.DONE, caller.clock.now() + timedelta(seconds=10))
    assert await caller.receive(queue) == []
    assert await caller.delete(queue, message) == [Outcome.DONE]


async def test_without_a_lease_only_a_received_message_can_be_hidden(caller: Caller, make_queue: MakeQueue) -> None:
    queue = await make_queue()
    [held, fresh] = await caller.send(queue, "held", "fresh")
    [delayed] = await caller.send(queue, "delayed", delay_s=60)
    await caller.receive(queue)

    assert await caller.hide(queue, held, 10) == (Outcome.DONE, caller.clock.now() + timedelta(seconds=10))
    assert await caller.hide(queue, fresh, 10) == (Outcome.ABSENT, None)
    assert await caller.hide(queue, delayed, 0) == (Outcome.ABSENT, None)
    assert await caller.state(queue) == (1, 1, 1)


async def test_a_message_over_the_queues_size_is_too_large(caller: Caller, make_queue: MakeQueue) -> None:
    queue = await make_queue(max_message_bytes=4)

    assert failed(await caller.send_one(queue, "12345"), TooLarge, "message")
    assert failed(await caller.send_one(queue, "äöü"), TooLarge, "message")
    assert failed(await caller.send_one(queue, "1", size=5), TooLarge, "message")
    assert isinstance(await caller.send_one(queue, "1234"), Sent)
    assert isinstance(await caller.send_one(queue, "äö"), Sent)
    assert (await caller.counts(queue)).total == 2


async def test_a_full_queue_refuses_each_message_too_many(caller: Caller, make_queue: MakeQueue) -> None:
    queue, other = await make_queue(max_length=3), await make_queue()
    await caller.send(queue, "delayed", delay_s=60)
    entries = [caller.entry(name, body) for name, body in ((queue, "a"), (queue, "b"), (queue, "c"), (other, "d"))]

    answers = await caller.store.send_many(entries, caller.clock.now())

    assert [type(answer) for answer in answers] == [Sent, Sent, QueueFull, Sent]
    held = await caller.receive_one(queue)
    assert failed(await caller.send_one(queue, "d"), QueueFull)
    await caller.delete(queue, held)
    assert isinstance(await caller.send_one(queue, "d"), Sent)
    assert await caller.bodies(queue) == ["b", "d"]


async def test_many_messages_pass_through_in_order(caller: Caller, make_queue: MakeQueue) -> None:
    queue = await make_queue()
    bodies = [f"{number}" for number in range(1000)]
    await caller.send(queue, *bodies)

    messages = await caller.receive(queue, 1000)

    assert [message.body for message in messages] == bodies
    assert set(await caller.delete(queue, *messages)) == {Outcome.DONE}
    assert await caller.state(queue) == (0, 0, 0)


async def test_more_due_messages_than_one_release_takes_are_all_found(caller: Caller, make_queue: MakeQueue) -> None:
    queue = await make_queue()
    await caller.send(queue, *(f"{number}" for number in range(2500)), delay_s=10)
    caller.clock.advance(seconds=10)

    found = [len(await caller.receive(queue, 1000)) for _ in range(4)]

    assert found == [1000, 1000, 500, 0]


async def test_an_exchange_sends_deletes_and_receives_in_one_call(caller: Caller, make_queue: MakeQueue) -> None:
    queue = await make_queue()
    [old] = await caller.send(queue, "old")

    sent, claimed, outcomes = await caller.store.exchange(
        [caller.entry(queue, "new"), caller.entry("nowhere", "lost"), caller.entry(queue, "newer")],
        [
            Receive(tenant=caller.tenant, queue=queue, limit=10, visibility_timeout_s=30),
            Receive(tenant=caller.tenant, queue="nowhere"),
        ],
        [caller.handle(queue, old), caller.handle(queue, old), caller.handle("nowhere", old)],
        caller.clock.now(),
    )

    assert isinstance(sent[0], Sent)
    assert isinstance(sent[2], Sent)
    assert all(isinstance(answer, QueueNotFound) for answer in (sent[1], claimed[1], outcomes[2]))
    assert [message.body for message in received(claimed[0]).messages] == ["new", "newer"]
    assert outcomes[:2] == [Outcome.DONE, Outcome.ABSENT]
    assert await caller.bodies(queue) == []


async def test_an_exchange_may_lack_parts(caller: Caller, make_queue: MakeQueue) -> None:
    queue = await make_queue()
    now = caller.clock.now()
    request = Receive(tenant=caller.tenant, queue=queue, visibility_timeout_s=30)

    sent, claimed, outcomes = await caller.store.exchange([caller.entry(queue, "a")], [request], [], now)
    assert (len(sent), outcomes) == (1, [])
    [message] = received(claimed[0]).messages

    sent, claimed, outcomes = await caller.store.exchange([], [request], [caller.handle(queue, message)], now)
    assert (sent, received(claimed[0]).messages, outcomes) == ([], [], [Outcome.DONE])


async def test_requests_of_one_call_share_what_is_due(caller: Caller, make_queue: MakeQueue) -> None:
    queue = await make_queue()
    await caller.send(queue, "a", "b", "c", delay_s=10)
    caller.clock.advance(seconds=10)
    request = Receive(tenant=caller.tenant, queue=queue, visibility_timeout_s=30)

    claimed = await caller.store.receive_many([request] * 4, caller.clock.now())

    assert [[message.body for message in received(answer).messages] for answer in claimed] == [["a"], ["b"], ["c"], []]

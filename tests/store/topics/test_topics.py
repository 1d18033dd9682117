"""Topics and subscriptions, and what a publish leads to: one contract for every store."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from penstock.errors import SubscriptionNotFound, TopicNotFound
from penstock.model import Send
from penstock.model.topics import (
    Fanout,
    NewSubscription,
    Published,
    QueueDelivery,
    Stale,
    Subscription,
    TopicCounts,
)
from tests.store.caller import Caller
from tests.store.conftest import MakeQueue


async def make_topic(caller: Caller, name: str = "news", **attributes: str) -> int:
    topic, _ = await caller.store.topics.create_topic(caller.tenant, name, attributes, {}, caller.clock.now())
    return topic.id


async def subscribe(caller: Caller, **fields: Any) -> Subscription:
    fields = {"protocol": "sqs", "endpoint": "queue-1", "target": "queue-1", **fields}
    if "pattern" not in fields:
        fields.setdefault("topic", "news")
    new = NewSubscription(tenant=caller.tenant, **fields)
    subscription, _ = await caller.store.topics.subscribe(new, caller.clock.now())
    return subscription


async def version(caller: Caller) -> int:
    return (await caller.store.topics.routes(caller.tenant, None)).version


def fanout(caller: Caller, *queues: str, body: str = "hello", **fields: Any) -> Fanout:
    entries = [
        QueueDelivery(
            subscription_id=1,
            send=Send(
                tenant=caller.tenant,
                queue=queue,
                body=body,
                group_id=fields.get("group_id"),
                dedup_id=fields.get("dedup_id"),
            ),
            dead_letter_queue=fields.pop("dead_letters", None),
        )
        for queue in queues
    ]
    given = {"id": str(uuid4()), "topic_id": None, "topic": "news", "routing_key": None, "version": None, **fields}
    return Fanout(tenant=caller.tenant, queues=entries, **given)


async def publish(caller: Caller, *fanouts: Fanout) -> list[Published]:
    answers = await caller.store.topics.publish_many(fanouts, caller.clock.now())
    return [answer for answer in answers if isinstance(answer, Published)]


# Topics


async def test_a_topic_keeps_its_attributes_and_tags_without_any_subscription(caller: Caller) -> None:
    topics = caller.store.topics
    made, created = await topics.create_topic(
        caller.tenant, "news", {"DisplayName": "News"}, {"team": "a"}, caller.clock.now()
    )

    assert created
    assert await topics.list_topics(caller.tenant) == [made]
    assert (made.attributes, made.tags, made.fifo) == ({"DisplayName": "News"}, {"team": "a"}, False)


async def test_a_topic_that_exists_is_left_as_it_is(caller: Caller) -> None:
    first = await make_topic(caller, DisplayName="one")

    again, created = await caller.store.topics.create_topic(
        caller.tenant, "news", {"DisplayName": "two"}, {}, caller.clock.now()
    )

    assert (again.id, again.attributes, created) == (first, {"DisplayName": "one"}, False)


async def test_a_change_sets_and_removes_by_name(caller: Caller) -> None:
    await make_topic(caller, DisplayName="one", Policy="{}")

    changed = await caller.store.topics.update_topic(
        caller.tenant, "news", attributes={"DisplayName": "two", "Policy": None}, tags={"a": "b"}
    )

    assert (changed.attributes, changed.tags) == ({"DisplayName": "two"}, {"a": "b"})


async def test_topics_come_by_name_and_in_pages(caller: Caller) -> None:
    for name in ("b", "a", "c.fifo"):
        await make_topic(caller, name)

    found = await caller.store.topics.list_topics(caller.tenant, after="a", limit=1)

    assert [topic.name for topic in found] == ["b"]
    assert [topic.fifo for topic in await caller.store.topics.list_topics(caller.tenant)] == [False, False, True]


async def test_what_is_not_there_says_so(caller: Caller) -> None:
    topics = caller.store.topics
    with pytest.raises(TopicNotFound, match="Topic 'nothing' does not exist"):
        await topics.get_topic(caller.tenant, "nothing")
    with pytest.raises(TopicNotFound, match="Topic 'nothing' does not exist"):
        await topics.update_topic(caller.tenant, "nothing", attributes={}, tags={})
    with pytest.raises(TopicNotFound, match="Topic 'nothing' does not exist"):
        await topics.count_subscriptions(caller.tenant, "nothing")
    with pytest.raises(TopicNotFound, match="Topic 'nothing' does not exist"):
        await subscribe(caller, topic="nothing")
    for key in (str(uuid4()), "no uuid"):
        with pytest.raises(SubscriptionNotFound):
            await topics.get_subscription(caller.tenant, key)
        assert await topics.unsubscribe(caller.tenant, key) is None
    assert not await topics.drop_topic(caller.tenant, "nothing")


async def test_a_dropped_topic_takes_its_subscriptions_along(caller: Caller) -> None:
    await make_topic(caller)
    subscription = await subscribe(caller)

    assert await caller.store.topics.drop_topic(caller.tenant, "news")
    with pytest.raises(SubscriptionNotFound):
        await caller.store.topics.get_subscription(caller.tenant, subscription.key)
    assert await caller.store.topics.list_subscriptions(caller.tenant) == []


# Subscriptions


async def test_an_endpoint_is_subscribed_once(caller: Caller) -> None:
    await make_topic(caller)
    first = await subscribe(caller, attributes={"RawMessageDelivery": "true"})

    new = NewSubscription(tenant=caller.tenant, topic="news", protocol="sqs", endpoint="queue-1", target="queue-1")
    again, created = await caller.store.topics.subscribe(new, caller.clock.now())

    assert (again, created) == (first, False)
    assert again.raw


async def test_subscriptions_are_counted(caller: Caller) -> None:
    await make_topic(caller)
    gone = await subscribe(caller)
    await subscribe(caller, endpoint="http://a", protocol="http", target=None, confirmed=False, token_sha256="t1")
    await subscribe(caller, endpoint="queue-2")

    await caller.store.topics.unsubscribe(caller.tenant, gone.key)

    counts = await caller.store.topics.count_subscriptions(caller.tenant, "news")
    assert counts == TopicCounts(confirmed=1, pending=1, deleted=1)


async def test_a_token_confirms_and_a_newer_one_takes_its_place(caller: Caller) -> None:
    await make_topic(caller)
    web = {"endpoint": "http://a", "protocol": "http", "target": None, "confirmed": False}
    old, new = uuid4().hex, uuid4().hex
    await subscribe(caller, token_sha256=old, **web)
    await subscribe(caller, token_sha256=new, **web)

    with pytest.raises(SubscriptionNotFound):
        await caller.store.topics.confirm_subscription(caller.tenant, old)
    assert (await caller.store.topics.confirm_subscription(None, new)).confirmed
    # Confirming once more changes nothing.
    assert (await caller.store.topics.confirm_subscription(caller.tenant, new)).confirmed


async def test_another_tenants_token_and_key_do_nothing(caller: Caller) -> None:
    await make_topic(caller)
    token = uuid4().hex
    web = {"endpoint": "http://a", "protocol": "http", "target": None, "confirmed": False}
    subscription = await subscribe(caller, token_sha256=token, **web)
    stranger = (await caller.store.create_tenant(f"stranger-{uuid4().hex}", caller.clock.now())).id
    topics = caller.store.topics

    with pytest.raises(SubscriptionNotFound):
        await topics.confirm_subscription(stranger, token)
    with pytest.raises(SubscriptionNotFound):
        await topics.get_subscription(stranger, subscription.key)
    with pytest.raises(SubscriptionNotFound):
        await topics.update_subscription(stranger, subscription.key, {"a": "b"})
    assert await topics.unsubscribe(stranger, subscription.key) is None
    assert (await topics.routes(stranger, None)).subscriptions == []


async def test_subscriptions_are_listed_by_topic_pattern_and_queue(caller: Caller) -> None:
    await make_topic(caller)
    one = await subscribe(caller)
    two = await subscribe(caller, endpoint="queue-2", target="queue-2")
    three = await subscribe(caller, pattern="a.#")
    topics = caller.store.topics

    assert await topics.list_subscriptions(caller.tenant) == [one, two]
    assert await topics.list_subscriptions(caller.tenant, topic="news", after=one.id) == [two]
    assert await topics.list_subscriptions(caller.tenant, pattern="a.#") == [three]
    assert await topics.list_subscriptions(caller.tenant, target="queue-1") == [one, three]


async def test_the_attributes_of_a_subscription_change(caller: Caller) -> None:
    await make_topic(caller)
    subscription = await subscribe(caller, attributes={"FilterPolicy": "{}", "RawMessageDelivery": "true"})

    changed = await caller.store.topics.update_subscription(
        caller.tenant, subscription.key, {"FilterPolicy": None, "RawMessageDelivery": "false"}
    )

    assert changed.attributes == {"RawMessageDelivery": "false"}


# Subscribers


async def test_routes_tell_what_changed_since(caller: Caller) -> None:
    topics = caller.store.topics
    await make_topic(caller)
    gone_topic = await make_topic(caller, "old")
    gone = await subscribe(caller)
    before = (await topics.routes(caller.tenant, None)).version

    fresh = await subscribe(caller, endpoint="queue-2")
    await topics.unsubscribe(caller.tenant, gone.key)
    await topics.drop_topic(caller.tenant, "old")
    changes = await topics.routes(caller.tenant, before)

    assert changes.version > before
    assert not changes.whole
    assert (changes.topics, changes.subscriptions) == ([], [fresh])
    assert (changes.gone_topics, changes.gone_subscriptions) == ([gone_topic], [gone.id])
    assert (await topics.routes(caller.tenant, changes.version)).subscriptions == []


async def test_a_tenant_without_topics_has_version_zero(caller: Caller) -> None:
    changes = await caller.store.topics.routes(caller.tenant, None)

    assert (changes.version, changes.topics, changes.subscriptions) == (0, [], [])


# Publishing


async def test_a_publish_reaches_every_queue(caller: Caller, make_queue: MakeQueue) -> None:
    queues = [await make_queue() for _ in range(3)]

    [published] = await publish(caller, fanout(caller, *queues))

    assert [queue for queue, _ in published.sent] == queues
    for queue, message_id in published.sent:
        [message] = await caller.receive(queue)
        assert (message.id, message.body) == (message_id, "hello")


async def test_routes_that_changed_since_are_refused(caller: Caller, make_queue: MakeQueue) -> None:
    queue = await make_queue()
    await make_topic(caller)
    known = await version(caller)
    await subscribe(caller)

    answers = await caller.store.topics.publish_many(
        [fanout(caller, queue, version=known), fanout(caller, queue, version=await version(caller), body="new")],
        caller.clock.now(),
    )

    assert [isinstance(answer, Stale) for answer in answers] == [True, False]
    assert await caller.bodies(queue) == ["new"]


async def test_a_queue_that_cannot_take_it_stops_nobody(caller: Caller, make_queue: MakeQueue) -> None:
    queue, dead = await make_queue(), await make_queue("dead")

    [published] = await publish(caller, fanout(caller, "no-such-queue", queue, dead_letters=dead))

    assert [name for name, _ in published.sent] == [queue]
    assert await caller.bodies(dead) == ["hello"]


async def test_a_fifo_topic_numbers_its_publishes_and_knows_a_repetition(caller: Caller, make_queue: MakeQueue) -> None:
    topic_id = await make_topic(caller, "news.fifo")
    queue = await make_queue(fifo=True)

    def to(body: str, dedup_id: str) -> Fanout:
        return fanout(
            caller, queue, body=f"{body} @", topic_id=topic_id, group_id="g", dedup_id=dedup_id, sequence_mark="@"
        )

    first, repeated = await publish(caller, to("a", "one"), to("b", "one"))
    caller.clock.advance(seconds=299)
    [again] = await publish(caller, to("c", "one"))
    caller.clock.advance(seconds=1)
    [later] = await publish(caller, to("d", "one"))

    assert (repeated.id, repeated.sequence, repeated.duplicate) == (first.id, first.sequence, True)
    assert (again.id, again.duplicate) == (first.id, True)
    assert first.sequence is not None
    assert later.sequence is not None
    assert later.sequence > first.sequence
    assert not later.duplicate
    assert await caller.bodies(queue) == [f"a {10**19 + first.sequence}", f"d {10**19 + later.sequence}"]


async def test_deduplication_ids_of_two_groups_differ_where_the_topic_says_so(caller: Caller) -> None:
    topic_id = await make_topic(caller, "news.fifo")

    answers = await publish(
        caller,
        *(
            fanout(caller, topic_id=topic_id, group_id=group, dedup_id="one", dedup_scope=group)
            for group in ("a", "b", "a")
        ),
    )

    assert [answer.duplicate for answer in answers] == [False, False, True]


async def test_a_secret_is_kept_by_whoever_was_first(caller: Caller) -> None:
    name = uuid4().hex

    assert await caller.store.topics.find_secret(name) is None
    assert await caller.store.topics.shared_secret(name, "one") == "one"
    assert await caller.store.topics.shared_secret(name, "two") == "one"
    assert await caller.store.topics.find_secret(name) == "one"

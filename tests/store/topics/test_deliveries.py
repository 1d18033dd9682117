"""Webhook deliveries: one contract for every store."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from penstock.errors import Conflict, DeliveryNotFound
from penstock.model.topics import Attempted, Delivery, DeliveryState, Fanout, NewDelivery
from tests.store.caller import Caller
from tests.store.conftest import MakeQueue

FIRST = -(2**63)


class Desk:
    """Deliveries of one test. Tests share a database, so each has endpoint keys of its own and sees only these."""

    def __init__(self, caller: Caller) -> None:
        self.caller = caller
        self.topics = caller.store.topics
        self.base = uuid4().int % 2**60

    async def add(self, *bodies: str, key: int = 0, **fields: Any) -> None:
        webhooks = [
            NewDelivery(
                **{
                    "subscription_id": 7,
                    "subscription_key": "k",
                    "endpoint": "http://example.com",
                    "endpoint_key": self.base + key,
                    "body": body,
                    "headers": "{}",
                    **fields,
                }
            )
            for body in bodies
        ]
        fanout = Fanout(
            tenant=self.caller.tenant,
            id=uuid4().hex,
            topic_id=None,
            topic="news",
            routing_key=None,
            version=None,
            webhooks=webhooks,
        )
        await self.topics.publish_many([fanout], self.caller.clock.now())

    async def claim(self, limit: int = 100, each: int = 100, lease_s: float = 10, **more: Any) -> list[Delivery]:
        options: dict[str, Any] = {"busy": {}, "after": FIRST, **more}
        found = await self.topics.claim_deliveries(
            self.caller.clock.now(), limit=limit, each=each, lease_s=lease_s, **options
        )
        return [delivery for delivery in found if delivery.tenant == self.caller.tenant]

    async def finish(self, delivery: Delivery, *, delivered: bool = False, retry_s: float | None = None) -> bool:
        now = self.caller.clock.now()
        retry_at = None if retry_s is None else now + timedelta(seconds=retry_s)
        attempt = Attempted(
            id=delivery.id, lease=delivery.lease, delivered=delivered, retry_at=retry_at, status=500, error="no"
        )
        [done] = await self.topics.finish_deliveries([attempt], now)
        return done

    async def get(self, delivery: Delivery) -> Delivery:
        return await self.topics.get_delivery(self.caller.tenant, delivery.id)

    async def bodies(self, **filters: Any) -> list[str]:
        """Of what a list shows. The list itself has no bodies."""
        found = await self.topics.list_deliveries(self.caller.tenant, **filters)
        assert {delivery.body for delivery in found} <= {""}
        return [(await self.get(delivery)).body for delivery in found]


@pytest.fixture
def desk(caller: Caller) -> Desk:
    return Desk(caller)


async def test_a_delivery_is_claimed_once_until_its_lease_ends(desk: Desk) -> None:
    await desk.add("a")

    [first] = await desk.claim(lease_s=10)
    desk.caller.clock.advance(seconds=9)
    assert await desk.claim() == []
    desk.caller.clock.advance(seconds=1)
    [second] = await desk.claim()

    assert (first.attempts, second.attempts) == (1, 2)
    assert second.lease > first.lease
    assert first.state is DeliveryState.SENDING


async def test_whoever_lost_its_claim_changes_nothing(desk: Desk) -> None:
    await desk.add("a")
    [first] = await desk.claim(lease_s=10)
    desk.caller.clock.advance(seconds=10)
    [second] = await desk.claim()

    assert not await desk.finish(first, delivered=True)
    assert (await desk.get(second)).state is DeliveryState.SENDING
    assert await desk.finish(second, delivered=True)
    assert not await desk.finish(second)


async def test_a_failed_attempt_is_due_again_at_its_time(desk: Desk) -> None:
    await desk.add("a")
    [claimed] = await desk.claim()

    assert await desk.finish(claimed, retry_s=30)
    waiting = await desk.get(claimed)
    assert (waiting.state, waiting.last_status, waiting.last_error) == (DeliveryState.PENDING, 500, "no")
    desk.caller.clock.advance(seconds=29)
    assert await desk.claim() == []
    desk.caller.clock.advance(seconds=1)
    assert [found.attempts for found in await desk.claim()] == [2]


async def test_one_that_is_given_up_is_kept_and_can_be_replayed(desk: Desk) -> None:
    await desk.add("a")
    [claimed] = await desk.claim()
    await desk.finish(claimed)
    tenant = desk.caller.tenant

    [kept] = await desk.topics.list_deliveries(tenant, state=DeliveryState.EXHAUSTED)
    assert ((await desk.get(kept)).body, kept.finished_at) == ("a", desk.caller.clock.now())
    assert await desk.claim() == []

    replayed = await desk.topics.replay_delivery(tenant, claimed.id, desk.caller.clock.now())
    assert (replayed.state, replayed.attempts, replayed.finished_at) == (DeliveryState.PENDING, 0, None)
    with pytest.raises(Conflict):
        await desk.topics.replay_delivery(tenant, claimed.id, desk.caller.clock.now())
    [again] = await desk.claim()
    assert again.lease > claimed.lease


async def test_what_is_given_up_goes_to_its_dead_letter_queue(desk: Desk, make_queue: MakeQueue) -> None:
    dead = await make_queue("dead")
    await desk.add("a", dead_letter_queue=dead)
    await desk.add("b", dead_letter_queue="no-such-queue")
    for claimed in await desk.claim():
        assert await desk.finish(claimed)

    assert await desk.caller.bodies(dead) == ["a"]


async def test_an_endpoint_is_given_no_more_than_its_share(desk: Desk) -> None:
    await desk.add("a", "b", "c", key=1)
    await desk.add("d", key=2)

    claimed = await desk.claim(each=2, busy={desk.base + 2: 2})
    assert [found.body for found in claimed] == ["a", "b"]
    assert [found.body for found in await desk.claim(each=2, busy={desk.base + 1: 1})] == ["c", "d"]


async def test_the_walk_over_the_endpoints_goes_round(desk: Desk) -> None:
    for key in (1, 2, 3):
        await desk.add(str(key), key=key)

    # Others' deliveries may be due too; these have endpoint keys next to each other.
    claimed = await desk.claim(after=desk.base + 1)

    assert sorted(found.body for found in claimed) == ["1", "2", "3"]
    assert [found.body for found in claimed[:2]] == ["2", "3"]


async def test_deliveries_are_listed_newest_first(desk: Desk) -> None:
    await desk.add("a")
    await desk.add("b", subscription_id=8)
    await desk.add("c")
    tenant, topics = desk.caller.tenant, desk.topics

    assert await desk.bodies() == ["c", "b", "a"]
    [newest] = await topics.list_deliveries(tenant, limit=1)
    assert await desk.bodies(before=newest.id) == ["b", "a"]
    assert await desk.bodies(subscription_id=8) == ["b"]
    assert await topics.list_deliveries(tenant, subscription_id=8, state=DeliveryState.DELIVERED) == []
    assert len(await topics.list_deliveries(tenant, state=DeliveryState.PENDING)) == 3


async def test_another_tenant_sees_and_changes_nothing(desk: Desk) -> None:
    await desk.add("a")
    [claimed] = await desk.claim()
    await desk.finish(claimed)
    stranger = (await desk.caller.store.create_tenant(f"stranger-{uuid4().hex}", desk.caller.clock.now())).id

    with pytest.raises(DeliveryNotFound):
        await desk.topics.get_delivery(stranger, claimed.id)
    with pytest.raises(DeliveryNotFound):
        await desk.topics.replay_delivery(stranger, claimed.id, desk.caller.clock.now())
    assert not await desk.topics.drop_delivery(stranger, claimed.id)
    assert await desk.topics.list_deliveries(stranger) == []


async def test_a_dropped_delivery_is_gone(desk: Desk) -> None:
    await desk.add("a")
    [listed] = await desk.topics.list_deliveries(desk.caller.tenant)

    assert await desk.topics.drop_delivery(desk.caller.tenant, listed.id)
    assert await desk.claim() == []


async def test_old_deliveries_that_have_ended_are_forgotten_and_no_others(desk: Desk) -> None:
    await desk.add("made", "given up", "waiting")
    made, given_up, waiting = await desk.claim()
    await desk.finish(made, delivered=True)
    await desk.finish(given_up)
    await desk.finish(waiting, retry_s=5)
    clock = desk.caller.clock
    clock.advance(seconds=100)

    never = clock.now() - timedelta(days=365)
    await desk.topics.sweep_topics(
        clock.now(), delivered_before=clock.now() - timedelta(seconds=101), exhausted_before=never, limit=1000
    )
    assert len(await desk.topics.list_deliveries(desk.caller.tenant)) == 3
    while await desk.topics.sweep_topics(clock.now(), delivered_before=clock.now(), exhausted_before=never, limit=1000):
        pass
    assert await desk.bodies() == ["waiting", "given up"]

    while await desk.topics.sweep_topics(clock.now(), delivered_before=never, exhausted_before=clock.now(), limit=1000):
        pass
    assert await desk.bodies() == ["waiting"]


async def test_all_that_was_given_comes_back(desk: Desk) -> None:
    await desk.add("a", headers='{"a":"b"}', secret="s", delays=(0.0, 1.5), confirms=True)

    [claimed] = await desk.claim()

    assert (claimed.headers, claimed.secret, claimed.delays, claimed.confirms) == ('{"a":"b"}', "s", (0.0, 1.5), True)
    assert (claimed.subscription_id, claimed.subscription_key, claimed.topic) == (7, "k", "news")

"""Webhook deliveries between several nodes."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import UTC, datetime
from uuid import uuid4

from penstock.model import DEFAULT_TENANT
from penstock.model.topics import Attempted, Fanout, NewDelivery
from penstock.store.postgres.store import PostgresStore

NODES = 4
DELIVERIES = 300


async def test_nodes_never_make_the_same_attempt(migrated_database: str) -> None:
    nodes = [PostgresStore(migrated_database, max_connections=3) for _ in range(NODES)]
    await asyncio.gather(*(node.open() for node in nodes))
    now = datetime.now(UTC)
    webhooks = [
        NewDelivery(
            subscription_id=1, subscription_key="k", endpoint="http://a", endpoint_key=n % 7, body=str(n), headers="{}"
        )
        for n in range(DELIVERIES)
    ]
    fanout = Fanout(
        tenant=DEFAULT_TENANT,
        id=uuid4().hex,
        topic_id=None,
        topic=None,
        routing_key="a",
        version=None,
        webhooks=webhooks,
    )
    await nodes[0].topics.publish_many([fanout], now)
    attempts: Counter[tuple[int, int]] = Counter()

    async def work(node: PostgresStore, after: int) -> None:
        while claimed := await node.topics.claim_deliveries(now, limit=10, each=3, busy={}, after=after, lease_s=30):
            attempts.update((delivery.id, delivery.attempts) for delivery in claimed)
            done = [
                Attempted(id=delivery.id, lease=delivery.lease, delivered=delivery.attempts == 2, retry_at=now)
                for delivery in claimed
            ]
            assert all(await node.topics.finish_deliveries(done, now))

    # A node that finds all free ones locked by the others may leave early; someone stays until all are done.
    for _ in range(20):
        await asyncio.gather(*(work(node, after) for after, node in enumerate(nodes)))
    await asyncio.gather(*(node.close() for node in nodes))

    assert attempts == Counter({(number, attempt): 1 for number in {n for n, _ in attempts} for attempt in (1, 2)})
    assert len(attempts) == 2 * DELIVERIES

"""The outbox and the records of those it is for."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from penstock.clock import FakeClock
from penstock.engine.topics.outbox import KEPT, Outbox
from penstock.model import TenantId
from penstock.model.outbox import Channel, NewOutboxItem, RecordKind
from penstock.store import Store

ENDPOINT = RecordKind.ENDPOINT


def item(tenant: TenantId, body: str, channel: Channel = Channel.SMS, **more: Any) -> NewOutboxItem:
    return NewOutboxItem(tenant=tenant, channel=channel, address="+15550100", message_id="id", body=body, **more)


@pytest.fixture
async def stranger(store: Store, clock: FakeClock) -> TenantId:
    return (await store.create_tenant("stranger", clock.now())).id


async def test_items_are_listed_newest_first_and_come_back_whole(
    store: Store, tenant: TenantId, clock: FakeClock
) -> None:
    whole = item(tenant, "two", Channel.EMAIL, subject="s", topic="t", attributes='{"a": 1}')

    ids = await store.outbox.add_outbox([item(tenant, "one"), whole], clock.now())

    found = await store.outbox.list_outbox(tenant)
    assert ids == sorted(ids)
    assert [each.body for each in found] == ["two", "one"]
    assert (found[0].subject, found[0].topic, found[0].attributes) == ("s", "t", '{"a": 1}')
    assert (found[0].channel, found[0].created_at, found[0].id) == (Channel.EMAIL, clock.now(), ids[1])


async def test_a_page_ends_before_a_given_id_and_may_be_of_one_channel(
    store: Store, tenant: TenantId, clock: FakeClock
) -> None:
    ids = await store.outbox.add_outbox(
        [item(tenant, "a"), item(tenant, "b", Channel.EMAIL), item(tenant, "c"), item(tenant, "d")], clock.now()
    )

    page = await store.outbox.list_outbox(tenant, channel=Channel.SMS, before=ids[3], limit=5)

    assert [each.body for each in page] == ["c", "a"]
    assert len(await store.outbox.list_outbox(tenant, limit=2)) == 2


async def test_tenants_have_outboxes_of_their_own(
    store: Store, tenant: TenantId, stranger: TenantId, clock: FakeClock
) -> None:
    await store.outbox.add_outbox([item(tenant, "mine")], clock.now())

    assert await store.outbox.clear_outbox(stranger) == 0
    assert [each.body for each in await store.outbox.list_outbox(tenant)] == ["mine"]
    assert await store.outbox.clear_outbox(tenant) == 1
    assert await store.outbox.list_outbox(tenant) == []


async def test_old_items_are_swept(store: Store, tenant: TenantId, clock: FakeClock) -> None:
    outbox = Outbox(store, clock)
    await outbox.add([item(tenant, "old")])
    clock.advance(seconds=(KEPT + timedelta(seconds=1)).total_seconds())

    await outbox.add([item(tenant, "new")])
    await outbox.sweep(1000)

    assert [each.body for each in await outbox.list(tenant)] == ["new"]


async def test_a_record_is_added_once_by_name_and_by_handle(store: Store, tenant: TenantId, clock: FakeClock) -> None:
    first, created = await store.outbox.add_record(tenant, ENDPOINT, "app/1", {"a": "1"}, clock.now(), "token")

    by_name = await store.outbox.add_record(tenant, ENDPOINT, "app/1", {"a": "2"}, clock.now(), "other")
    by_handle = await store.outbox.add_record(tenant, ENDPOINT, "app/2", {"a": "2"}, clock.now(), "token")

    assert created
    assert by_name == by_handle == (first, False)
    assert await store.outbox.find_record(tenant, ENDPOINT, handle="token") == first
    assert await store.outbox.find_record(tenant, RecordKind.APPLICATION, name="app/1") is None


async def test_a_change_of_a_record_keeps_what_it_does_not_name(
    store: Store, tenant: TenantId, clock: FakeClock
) -> None:
    await store.outbox.add_record(tenant, ENDPOINT, "app/1", {"a": "1", "b": "1"}, clock.now(), "token")

    changed = await store.outbox.update_record(tenant, ENDPOINT, "app/1", {"b": "2"}, "rotated")

    assert changed is not None
    assert (changed.attributes, changed.handle) == ({"a": "1", "b": "2"}, "rotated")
    assert await store.outbox.update_record(tenant, ENDPOINT, "app/9", {}) is None


async def test_records_are_listed_by_prefix_in_order_of_their_names(
    store: Store, tenant: TenantId, stranger: TenantId, clock: FakeClock
) -> None:
    for name in ("app/b", "app/C", "app/a", "apq", "app_"):
        await store.outbox.add_record(tenant, ENDPOINT, name, {}, clock.now())
    await store.outbox.add_record(stranger, ENDPOINT, "app/x", {}, clock.now())

    found = await store.outbox.list_records(tenant, ENDPOINT, prefix="app/")
    rest = await store.outbox.list_records(tenant, ENDPOINT, prefix="app/", after="app/C", limit=1)

    assert [each.name for each in found] == ["app/C", "app/a", "app/b"]
    assert [each.name for each in rest] == ["app/a"]


async def test_records_are_dropped_by_name_or_by_prefix(store: Store, tenant: TenantId, clock: FakeClock) -> None:
    for name in ("app/1", "app/2", "apple"):
        await store.outbox.add_record(tenant, ENDPOINT, name, {}, clock.now())

    assert await store.outbox.drop_records(tenant, ENDPOINT, name="nobody") == 0
    assert await store.outbox.drop_records(tenant, ENDPOINT, name="apple") == 1
    assert await store.outbox.drop_records(tenant, ENDPOINT, prefix="app/") == 2
    assert await store.outbox.list_records(tenant, ENDPOINT) == []

"""Queues: made, read, listed, changed, emptied, dropped, counted."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

import pytest

from penstock.clock import FakeClock
from penstock.errors import Invalid, QueueNotFound
from penstock.model import DedupScope, Outcome, QueueSettings, Sent, TenantId, ThroughputLimit
from penstock.store import Store
from tests.store.caller import Caller, failed
from tests.store.conftest import MakeQueue

EVERYTHING = QueueSettings(
    visibility_timeout_s=7,
    delay_s=3,
    retention_s=600,
    receive_wait_s=5,
    max_message_bytes=2048,
    max_length=9,
    max_receives=4,
    lifo=True,
    archive=True,
    content_dedup=True,
    dedup_window_s=60,
    dedup_scope=DedupScope.GROUP,
    throughput_limit=ThroughputLimit.GROUP,
    tags={"team": "blue", "näme": "✓"},
    labels={"Policy": '{"Version": "2012"}'},
)


async def test_a_store_answers_a_ping(store: Store) -> None:
    await store.ping()

    assert set(store.pool_numbers()) == {"size", "idle", "active", "acquire_timeouts"}


async def test_a_queue_is_read_back_as_it_was_created(store: Store, tenant: TenantId, clock: FakeClock) -> None:
    created, new = await store.create_queue(tenant, "orders", EVERYTHING, clock.now())

    assert new
    assert created.settings == EVERYTHING
    assert (created.name, created.tenant, created.fifo) == ("orders", tenant, False)
    assert created.created_at == created.updated_at == clock.now()
    assert await store.get_queue(tenant, "orders") == created


async def test_defaults_are_read_back_too(store: Store, tenant: TenantId, clock: FakeClock) -> None:
    queue, _ = await store.create_queue(tenant, "plain", QueueSettings(), clock.now())

    assert queue.settings == QueueSettings(visibility_timeout_s=30)


async def test_a_name_that_ends_in_fifo_makes_a_fifo_queue(store: Store, tenant: TenantId, clock: FakeClock) -> None:
    queue, _ = await store.create_queue(tenant, "orders.fifo", QueueSettings(), clock.now())

    assert queue.fifo


async def test_creating_a_queue_again_answers_the_one_that_is_there(
    store: Store, tenant: TenantId, clock: FakeClock
) -> None:
    first, _ = await store.create_queue(tenant, "orders", EVERYTHING, clock.now())

    clock.advance(seconds=5)
    again, new = await store.create_queue(tenant, "orders", QueueSettings(), clock.now())

    assert not new
    assert again == first


async def test_an_unknown_queue_is_not_found(store: Store, tenant: TenantId, clock: FakeClock) -> None:
    for verb in (
        store.get_queue(tenant, "absent"),
        store.update_queue(tenant, "absent", {"delay_s": 1}, clock.now()),
        store.purge_queue(tenant, "absent"),
        store.dead_letter_sources(tenant, "absent"),
        store.peek(tenant, "absent", 1, clock.now()),
    ):
        with pytest.raises(QueueNotFound):
            await verb


async def test_an_unknown_queue_is_each_entrys_own_error(caller: Caller, make_queue: MakeQueue) -> None:
    queue = await make_queue()
    entries = [caller.entry("absent", "a"), caller.entry(queue, "b")]

    lost, sent = await caller.store.send_many(entries, caller.clock.now())
    unread = await caller.ask("absent")
    [undeleted] = await caller.delete("absent", 1)
    unhidden = await caller.hide("absent", 1, 5)
    [unarchived] = await caller.store.archive_many([caller.handle("absent", 1)], caller.clock.now())

    assert all(failed(answer, QueueNotFound) for answer in (lost, unread, undeleted, unhidden, unarchived))
    assert [sent] == [Sent(message.id) for message in await caller.receive(queue)]


async def test_tenants_do_not_see_each_others_queues(store: Store, tenant: TenantId, clock: FakeClock) -> None:
    other = (await store.create_tenant(f"other-{uuid4().hex}", clock.now())).id
    mine = Caller(store, tenant, clock)
    await mine.make_queue("shared-name")
    [message_id] = await mine.send("shared-name", "mine")

    assert await store.list_queues(other) == []
    assert await store.queue_counts(other, None, clock.now()) == []
    with pytest.raises(QueueNotFound):
        await store.get_queue(other, "shared-name")
    theirs = Caller(store, other, clock)
    await theirs.make_queue("shared-name")
    assert await theirs.bodies("shared-name") == []
    assert await theirs.delete("shared-name", message_id) == [Outcome.ABSENT]
    assert await mine.bodies("shared-name") == ["mine"]


async def test_queues_are_listed_by_name_in_pages(store: Store, tenant: TenantId, make_queue: MakeQueue) -> None:
    for name in ("c", "a", "e", "b", "d"):
        await make_queue(name)

    first = [queue.name for queue in await store.list_queues(tenant, limit=2)]
    second = [queue.name for queue in await store.list_queues(tenant, after=first[-1], limit=2)]
    third = [queue.name for queue in await store.list_queues(tenant, after=second[-1], limit=2)]

    assert (first, second, third) == (["a", "b"], ["c", "d"], ["e"])


async def test_a_prefix_is_taken_literally(store: Store, tenant: TenantId, make_queue: MakeQueue) -> None:
    for name in ("job_a", "job-a", "jobs", "JOB_A", "a_job"):
        await make_queue(name)

    assert [queue.name for queue in await store.list_queues(tenant, prefix="job_")] == ["job_a"]


async def test_an_update_replaces_only_what_it_names(store: Store, tenant: TenantId, clock: FakeClock) -> None:
    created, _ = await store.create_queue(tenant, "orders", EVERYTHING, clock.now())

    clock.advance(seconds=5)
    changes = {"delay_s": 11, "max_length": None, "tags": {"k": "v"}, "dedup_scope": DedupScope.QUEUE}
    updated = await store.update_queue(tenant, "orders", changes, clock.now())

    assert updated.settings == replace(
        EVERYTHING, delay_s=11, max_length=None, tags={"k": "v"}, dedup_scope=DedupScope.QUEUE
    )
    assert (updated.created_at, updated.updated_at) == (created.created_at, clock.now())
    assert await store.get_queue(tenant, "orders") == updated


async def test_an_unknown_setting_is_invalid(store: Store, tenant: TenantId, clock: FakeClock) -> None:
    created, _ = await store.create_queue(tenant, "orders", QueueSettings(), clock.now())

    with pytest.raises(Invalid) as caught:
        await store.update_queue(tenant, "orders", {"delay_s": 5, "colour": "blue"}, clock.now())

    assert caught.value.field == "colour"
    assert await store.get_queue(tenant, "orders") == created


async def test_a_dead_letter_queue_must_exist(store: Store, tenant: TenantId, clock: FakeClock) -> None:
    settings = QueueSettings(max_receives=3, dead_letter_queue="absent")

    with pytest.raises(QueueNotFound):
        await store.create_queue(tenant, "orders", settings, clock.now())
    with pytest.raises(QueueNotFound):
        await store.get_queue(tenant, "orders")
    await store.create_queue(tenant, "orders", QueueSettings(), clock.now())
    with pytest.raises(QueueNotFound):
        await store.update_queue(tenant, "orders", {"dead_letter_queue": "absent"}, clock.now())


async def test_a_dead_letter_queue_knows_its_sources(store: Store, tenant: TenantId, make_queue: MakeQueue) -> None:
    await make_queue("dead")
    await make_queue("b", max_receives=3, dead_letter_queue="dead")
    await make_queue("a", max_receives=3, dead_letter_queue="dead")
    await make_queue("c")

    assert await store.dead_letter_sources(tenant, "dead") == ["a", "b"]
    assert await store.dead_letter_sources(tenant, "c") == []


async def test_dropping_a_dead_letter_queue_leaves_its_sources_without_one(
    store: Store, tenant: TenantId, make_queue: MakeQueue
) -> None:
    await make_queue("dead")
    await make_queue("orders", max_receives=3, dead_letter_queue="dead")

    await store.drop_queue(tenant, "dead")
    await make_queue("dead")

    settings = (await store.get_queue(tenant, "orders")).settings
    assert (settings.max_receives, settings.dead_letter_queue) == (3, None)
    assert await store.dead_letter_sources(tenant, "dead") == []


async def test_dropping_a_queue_frees_its_name_and_loses_its_messages(caller: Caller, make_queue: MakeQueue) -> None:
    await make_queue("orders")
    await caller.send("orders", "a", "b")
    held = await caller.receive_one("orders")

    assert await caller.store.drop_queue(caller.tenant, "orders")
    assert not await caller.store.drop_queue(caller.tenant, "orders")
    assert failed(await caller.ask("orders"), QueueNotFound)

    await make_queue("orders")
    assert await caller.peek("orders") == []
    assert await caller.bodies("orders") == []
    assert await caller.delete("orders", held, held.id) == [Outcome.ABSENT, Outcome.ABSENT]
    assert (await caller.counts("orders")).sent == 0


async def test_purge_removes_messages_of_every_state_at_once(caller: Caller, make_queue: MakeQueue) -> None:
    queue = await make_queue()
    await caller.send(queue, "a", "b", "c")
    await caller.send(queue, "later", delay_s=60)
    held = await caller.receive_one(queue)

    assert await caller.store.purge_queue(caller.tenant, queue) == 4

    assert await caller.state(queue) == (0, 0, 0)
    assert await caller.delete(queue, held, held.id) == [Outcome.ABSENT, Outcome.ABSENT]
    assert await caller.hide(queue, held, 5) == (Outcome.ABSENT, None)
    caller.clock.advance(seconds=100)
    assert await caller.bodies(queue) == []
    assert await caller.store.purge_queue(caller.tenant, queue) == 0


async def test_a_purged_queue_goes_on(caller: Caller, make_queue: MakeQueue) -> None:
    queue = await make_queue()
    [old] = await caller.send(queue, "old")
    await caller.store.purge_queue(caller.tenant, queue)

    [new] = await caller.send(queue, "new")

    assert new > old
    assert await caller.bodies(queue) == ["new"]


async def test_sweeping_the_remains_of_a_purge_leaves_the_queue_alone(caller: Caller, make_queue: MakeQueue) -> None:
    queue, dropped = await make_queue(), await make_queue()
    await caller.send(queue, *(f"old-{number}" for number in range(20)))
    await caller.send(dropped, *(f"old-{number}" for number in range(20)))
    await caller.store.purge_queue(caller.tenant, queue)
    await caller.store.drop_queue(caller.tenant, dropped)
    await caller.send(queue, "new")

    assert await caller.sweep() >= 40

    assert (await caller.counts(queue)).total == 1
    assert await caller.bodies(queue) == ["new"]


async def test_counts_tell_the_states_apart(caller: Caller, make_queue: MakeQueue) -> None:
    queue = await make_queue()
    await caller.send(queue, "a", "b", "c")
    await caller.send(queue, "later", delay_s=60)
    await caller.receive(queue, visibility_timeout_s=30)

    assert await caller.state(queue) == (2, 1, 1)
    caller.clock.advance(seconds=30)
    assert await caller.state(queue) == (3, 0, 1)
    caller.clock.advance(seconds=30)
    assert await caller.state(queue) == (4, 0, 0)


async def test_a_released_message_counts_as_visible(caller: Caller, make_queue: MakeQueue) -> None:
    queue = await make_queue()
    await caller.send(queue, "a")
    held = await caller.receive_one(queue)

    await caller.release(queue, held)

    assert await caller.state(queue) == (1, 0, 0)


async def test_sent_counts_every_message_ever_sent(caller: Caller, make_queue: MakeQueue) -> None:
    queue = await make_queue()
    await caller.send(queue, "a", "b")
    await caller.send(queue, "c", dedup_id="once")
    await caller.send(queue, "c", dedup_id="once")
    await caller.delete(queue, await caller.receive_one(queue))
    await caller.store.purge_queue(caller.tenant, queue)
    await caller.send(queue, "d")

    assert (await caller.counts(queue)).sent == 4


async def test_counts_tell_the_age_of_the_oldest_and_the_newest(caller: Caller, make_queue: MakeQueue) -> None:
    queue = await make_queue()
    empty = await caller.counts(queue)
    start = caller.clock.now()
    for _ in range(3):
        await caller.send(queue, "a")
        caller.clock.advance(seconds=10)

    full = await caller.counts(queue)
    await caller.delete(queue, await caller.receive_one(queue))
    less = await caller.counts(queue)

    assert (empty.oldest_sent_at, empty.newest_sent_at) == (None, None)
    assert (full.oldest_sent_at, full.newest_sent_at) == (start, start + timedelta(seconds=20))
    assert less.oldest_sent_at == start + timedelta(seconds=10)


async def test_counts_of_named_queues_leave_unknown_names_out(caller: Caller, make_queue: MakeQueue) -> None:
    for name in ("a", "b", "c"):
        await make_queue(name)
    await caller.send("b", "x")
    now = caller.clock.now()

    some = await caller.store.queue_counts(caller.tenant, ["b", "absent", "a"], now)
    every = await caller.store.queue_counts(caller.tenant, None, now)
    none = await caller.store.queue_counts(caller.tenant, [], now)
    everyones = await caller.store.queue_counts(None, None, now)

    assert {counts.queue: counts.total for _, counts in some} == {"a": 0, "b": 1}
    assert {counts.queue for _, counts in every} == {"a", "b", "c"}
    assert none == []
    assert {(caller.tenant, name) for name in "abc"} <= {(tenant, counts.queue) for tenant, counts in everyones}

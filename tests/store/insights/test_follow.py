"""Following one thing, on every store."""

from __future__ import annotations

import pytest

from penstock.clock import FakeClock
from penstock.engine import Engine
from penstock.errors import Invalid
from penstock.model import TenantId
from penstock.model.follow import Trail
from penstock.model.jobs import Failure, LeaseRequest, NewJob
from penstock.model.streams import NewEvent
from penstock.model.topics import NewSubscription, Publish
from penstock.model.traces import beginnings, trace_id_of
from penstock.model.uuids import uuid_of
from penstock.store import Store
from tests.store.caller import Caller

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


@pytest.fixture
def engine(store: Store, clock: FakeClock) -> Engine:
    return Engine(store, clock)


def everything(_: str) -> bool:
    return True


def told(trail: Trail) -> list[tuple[str, str, str]]:
    return [(step.kind.value, step.where, step.what) for step in trail.steps]


async def test_a_message_is_followed_from_sending_to_the_dead_letter_queue(
    engine: Engine, caller: Caller, tenant: TenantId, clock: FakeClock
) -> None:
    await caller.make_queue("dead")
    await caller.make_queue("work", max_receives=1, dead_letter_queue="dead", visibility_timeout_s=5)
    [number] = await caller.send("work", "hello")

    assert told(await engine.follow.trail(tenant, str(number), everything)) == [
        ("message", "work", "sent"), ("message", "work", "waiting"),
    ]  # fmt: skip
    clock.advance(seconds=1)
    await caller.receive("work")
    flying = await engine.follow.trail(tenant, f"message:{number}", everything)
    assert told(flying)[1:] == [("message", "work", "first received"), ("message", "work", "in flight")]
    clock.advance(seconds=10)
    assert await caller.receive("work") == []

    trail = await engine.follow.trail(tenant, uuid_of(number), everything)

    assert told(trail) == [
        ("message", "work", "sent"),
        ("message", "work", "first received"),
        ("message", "dead", "dead-lettered"),
        ("message", "dead", "waiting"),
    ]
    assert "received once" in trail.steps[2].detail


async def test_hidden_messages_come_in_the_order_in_which_they_become_visible(
    engine: Engine, caller: Caller, tenant: TenantId, clock: FakeClock
) -> None:
    await caller.make_queue("work", visibility_timeout_s=60)
    await caller.make_queue("other")
    await caller.send("other", "elsewhere", delay_s=10)
    [flying] = await caller.send("work", "flying")
    await caller.receive("work")
    [late] = await caller.send("work", "late", delay_s=90)
    [soon] = await caller.send("work", "soon", delay_s=30)
    await caller.send("work", "visible")

    async def hidden() -> list[tuple[int, str, int]]:
        return [(one.id, one.state.value, one.receives) for one in await engine.follow.hidden(tenant, "work")]

    assert await hidden() == [(soon, "delayed", 0), (flying, "in flight", 1), (late, "delayed", 0)]
    clock.advance(seconds=61)
    assert await hidden() == [(late, "delayed", 0)]
    assert [one.id for one in await engine.store.follow.hidden(tenant, "work", 0, clock.now())] == []


async def test_a_deleted_message_is_followed_into_the_archive(engine: Engine, caller: Caller, tenant: TenantId) -> None:
    await caller.make_queue("kept", archive=True)
    [number] = await caller.send("kept", "hello", trace=f"00-{TRACE}-00f067aa0ba902b7-01")
    await caller.delete("kept", await caller.receive_one("kept"))

    by_id = await engine.follow.trail(tenant, str(number), everything)

    assert told(by_id)[-1] == ("message", "kept", "deleted and archived")
    assert by_id.traces == (TRACE,)
    assert (await engine.follow.trail(tenant, TRACE, everything)).steps == by_id.steps


async def test_a_trace_connects_messages_of_several_queues(engine: Engine, caller: Caller, tenant: TenantId) -> None:
    await caller.make_queue("one")
    await caller.make_queue("two")
    [first] = await caller.send("one", "a", trace=f"Root=1-{TRACE[:8]}-{TRACE[8:]};Sampled=1")
    [second] = await caller.send("two", "b", trace=f"00-{TRACE}-00f067aa0ba902b7-01")
    await caller.send("two", "c", trace=f"00-{'a' * 32}-00f067aa0ba902b7-01")
    await caller.send("two", "d")

    for asked in (TRACE, str(first), f"message:{second}", f"00-{TRACE}-0000000000000001-00"):
        trail = await engine.follow.trail(tenant, asked, everything)
        assert {step.id for step in trail.steps} == {str(first), str(second)}, asked
    hidden = await engine.follow.trail(tenant, TRACE, lambda name: name == "one")
    assert {step.id for step in hidden.steps} == {str(first)}


async def test_a_publish_connects_its_messages_and_deliveries(engine: Engine, caller: Caller, tenant: TenantId) -> None:
    await caller.make_queue("inbox")
    store = engine.store.topics
    await store.subscribe(
        NewSubscription(tenant=tenant, pattern="order.#", protocol="sqs", endpoint="inbox", target="inbox"),
        engine.clock.now(),
    )
    await store.subscribe(
        NewSubscription(tenant=tenant, pattern="order.#", protocol="https", endpoint="https://example.com/hook"),
        engine.clock.now(),
    )
    published = await engine.topics.publish(Publish(tenant=tenant, routing_key="order.paid", body="{}", json=True))
    [(_, number)] = published.sent

    trail = await engine.follow.trail(tenant, published.id, everything)

    assert {(step.kind.value, step.what) for step in trail.steps} == {
        ("message", "sent"), ("message", "waiting"), ("publish", "published"), ("delivery", "pending"),
    }  # fmt: skip
    assert (await engine.follow.trail(tenant, str(number), everything)).steps == trail.steps


async def test_a_job_is_followed_through_its_attempts(engine: Engine, tenant: TenantId, clock: FakeClock) -> None:
    made = await engine.jobs.enqueue(NewJob(tenant=tenant, queue="mail", payload="{}", max_retries=0))
    [job] = await engine.jobs.lease(LeaseRequest(tenant=tenant, queue="mail", lease_s=60, workers=["w1"]))
    await engine.jobs.fail(Failure(tenant=tenant, id=job.id, token=job.token, error="no route"))

    trail = await engine.follow.trail(tenant, made.id, everything)

    assert [what for _, _, what in told(trail)] == ["enqueued", "leased", "failed", "dead"]
    assert "by w1: no route" in trail.steps[2].detail
    assert (await engine.follow.trail(tenant, made.id, lambda name: False)).steps == ()


async def test_an_event_is_followed_to_its_consumers(engine: Engine, tenant: TenantId) -> None:
    if not engine.store.has_streams:
        assert (await engine.follow.trail(tenant, "event:1", everything)).steps == ()
        return
    streams = engine.streams
    await streams.create(tenant, "log", {})
    for name in ("fast", "slow"):
        await streams.subscribe(tenant, "log", name)
    traced = NewEvent(type="t", payload="{}", extras=(f"00-{TRACE}-00f067aa0ba902b7-01", None, None, None))
    [number] = await streams.send(tenant, "log", [traced])
    batch = await streams.receive(tenant, "log", "fast", limit=10, wait_s=20)
    assert batch is not None
    await streams.ack(tenant, "log", "fast", batch.id)

    for asked in (f"event:log/{number}", f"event:{number}", TRACE):
        trail = await engine.follow.trail(tenant, asked, everything)
        assert [(step.what, step.detail) for step in trail.steps] == [
            ("sent", "type t"), ("read", "by fast"), ("not yet read", "by slow"),
        ], asked  # fmt: skip


async def test_another_tenant_finds_nothing(engine: Engine, caller: Caller, store: Store, clock: FakeClock) -> None:
    stranger = (await store.create_tenant(f"stranger-{id(caller)}", clock.now())).id
    await caller.make_queue("own", archive=True)
    [number] = await caller.send("own", "hello", trace=TRACE)
    job = await engine.jobs.enqueue(NewJob(tenant=caller.tenant, queue="mail", payload="{}"))

    for asked in (str(number), uuid_of(number), TRACE, job.id):
        assert (await engine.follow.trail(stranger, asked, everything)).steps == (), asked
        assert (await engine.follow.trail(caller.tenant, asked, everything)).steps, asked


async def test_texts_that_are_no_ids_find_nothing(engine: Engine, tenant: TenantId) -> None:
    for asked in ("%", "00-", "' or 1=1", "9" * 18, "event:../1", "\N{SNOWMAN}"):
        assert (await engine.follow.trail(tenant, asked, everything)).steps == (), asked
    for asked in ("", "x" * 201):
        with pytest.raises(Invalid):
            await engine.follow.trail(tenant, asked, everything)


def test_trace_ids_are_found_in_both_headers() -> None:
    assert trace_id_of(TRACE) == TRACE
    assert trace_id_of(f"00-{TRACE}-00f067aa0ba902b7-01") == TRACE
    assert trace_id_of(f"Root=1-{TRACE[:8]}-{TRACE[8:]};Parent=53995c3f42cd8ad8;Sampled=1") == TRACE
    assert trace_id_of("nothing") is None
    assert beginnings("nothing") == ["nothing"]


async def test_a_job_is_followed_by_the_trace_of_its_producer(
    engine: Engine, caller: Caller, tenant: TenantId, store: Store, clock: FakeClock
) -> None:
    other_tenant = (await store.create_tenant(f"other-{tenant}", clock.now())).id
    trace = f"00-{TRACE}-00f067aa0ba902b7-01"
    await caller.make_queue("orders")
    await caller.send("orders", "hello", trace=trace)
    made = await engine.jobs.enqueue(NewJob(tenant=tenant, queue="mail", payload="{}", trace=trace))
    await engine.jobs.enqueue(NewJob(tenant=tenant, queue="mail", payload="{}", trace=trace.replace("4b", "4c")))
    await engine.jobs.enqueue(NewJob(tenant=other_tenant, queue="mail", payload="{}", trace=trace))

    by_trace = await engine.follow.trail(tenant, TRACE, everything)
    by_job = await engine.follow.trail(tenant, made.id, everything)
    limited = await engine.follow.trail(tenant, TRACE, lambda name: name == "orders")

    assert {(step.kind.value, step.where) for step in by_trace.steps} == {("message", "orders"), ("job", "mail")}
    assert {step.id for step in by_trace.steps if step.where == "mail"} == {made.id}
    assert (set(by_job.steps), by_job.traces) == (set(by_trace.steps), (TRACE,))
    assert {step.where for step in limited.steps} == {"orders"}

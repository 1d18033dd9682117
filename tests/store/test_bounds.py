"""Input at the ends of the calendar and of numbers, over every store: it is refused, and nothing is left behind.

One job or schedule that cannot be read back would fail every later lease, list, scrape and scheduler round.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from penstock import limits
from penstock.clock import FakeClock
from penstock.engine import Engine
from penstock.errors import Invalid, InvalidName, PenstockError, Unsupported
from penstock.model import Scope, TenantId
from penstock.model.insights import InsightKind
from penstock.model.jobs import Completion, LeaseRequest, NewJob
from penstock.model.streams import NewEvent
from penstock.store import Store

FAR_EAST = timezone(timedelta(hours=23, minutes=59))
FAR_WEST = timezone(-timedelta(hours=23, minutes=59))
POISON_MOMENTS = [
    datetime(1, 1, 1, tzinfo=FAR_EAST),
    datetime(1, 1, 1, tzinfo=UTC),
    datetime(1969, 12, 31, tzinfo=UTC),
    datetime(9000, 1, 2, tzinfo=UTC),
    datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    datetime(9999, 12, 31, tzinfo=FAR_WEST),
]
POISON_JSON = [
    "1e400",
    "[-1e999999]",
    "9" * 5001,
    "[" * 501 + "]" * 501,
    '{"a":' * 100_000 + "1" + "}" * 100_000,
]
READABLE_JSON = [
    "1e308",
    "1e-400",
    '"1e400"',
    '"' + "[" * 1000 + '"',
    r'["\"", "' + "[" * 600 + r'\\"]',
    "[" * 500 + "]" * 500,
    "[" + ",".join(["[[]]"] * 2000) + "]",
]


@pytest.fixture
async def engine(store: Store, clock: FakeClock) -> AsyncIterator[Engine]:
    engine = Engine(store, clock)
    yield engine
    await engine.messages.drain()
    await engine.jobs.drain()


def new_job(tenant: TenantId, **fields: Any) -> NewJob:
    return NewJob(tenant=tenant, queue="work", **({"payload": "1"} | fields))


async def lease(engine: Engine, tenant: TenantId) -> list[str]:
    jobs = await engine.jobs.lease(LeaseRequest(tenant=tenant, queue="work", lease_s=30, workers=["w"] * 100))
    return [job.payload for job in jobs]


@pytest.mark.parametrize("moment", POISON_MOMENTS, ids=str)
async def test_a_job_cannot_run_at_a_moment_that_cannot_be_read_back(
    engine: Engine, tenant: TenantId, moment: datetime
) -> None:
    with pytest.raises(Invalid) as refused:
        await engine.jobs.enqueue(new_job(tenant, run_at=moment))

    assert refused.value.field == "run_at"
    assert await lease(engine, tenant) == []
    assert await engine.jobs.list_jobs(tenant) == ([], 0)


@pytest.mark.parametrize("moment", limits.MOMENT, ids=str)
async def test_the_first_and_the_last_moment_do_no_harm(engine: Engine, tenant: TenantId, moment: datetime) -> None:
    await engine.jobs.enqueue(new_job(tenant, run_at=moment.astimezone(FAR_WEST)))
    await engine.jobs.enqueue(new_job(tenant, payload="2"))

    assert "2" in await lease(engine, tenant)
    found, count = await engine.jobs.list_jobs(tenant)
    assert (len(found), count) == (2, 2)
    assert found[1].run_at == moment
    await engine.jobs.tend()


@pytest.mark.parametrize("payload", POISON_JSON, ids=lambda text: text[:12])
async def test_a_job_holds_nothing_its_worker_cannot_parse(engine: Engine, tenant: TenantId, payload: str) -> None:
    with pytest.raises(Invalid) as refused:
        await engine.jobs.enqueue(new_job(tenant, payload=payload))

    assert refused.value.field == "payload"
    assert await lease(engine, tenant) == []


@pytest.mark.parametrize("payload", READABLE_JSON, ids=lambda text: text[:12])
async def test_deep_or_long_json_that_can_be_parsed_is_kept(engine: Engine, tenant: TenantId, payload: str) -> None:
    await engine.jobs.enqueue(new_job(tenant, payload=payload))

    assert await lease(engine, tenant) == [payload]


async def test_a_result_is_held_to_the_same_rules(engine: Engine, tenant: TenantId) -> None:
    await engine.jobs.enqueue(new_job(tenant))
    [job] = await engine.jobs.lease(LeaseRequest(tenant=tenant, queue="work", lease_s=30, workers=["w"]))

    with pytest.raises(Invalid) as refused:
        await engine.jobs.complete(Completion(tenant=tenant, id=job.id, token=job.token, result="[1e400]"))

    assert refused.value.field == "result"
    assert (await engine.jobs.get(tenant, job.id)).result is None


@pytest.mark.parametrize("moment", POISON_MOMENTS, ids=str)
@pytest.mark.parametrize("field", ["fire_at", "start_at"])
async def test_a_schedule_has_no_moment_that_cannot_be_read_back(
    engine: Engine, tenant: TenantId, field: str, moment: datetime
) -> None:
    given: dict[str, Any] = {"target": "work", "target_kind": "job", "body": "1", "json": True}
    given |= {"fire_at": moment.isoformat()} if field == "fire_at" else {"every": "1h", "start_at": moment}

    with pytest.raises(Invalid) as refused:
        await engine.schedules.create(tenant, "poison", given)

    assert refused.value.field == field
    assert await engine.schedules.list(tenant) == []
    await engine.schedules.next_due_at()
    await engine.schedules.fire_due()
    await engine.gauges.schedules()


async def test_names_that_no_store_can_keep_are_refused(engine: Engine, tenant: TenantId) -> None:
    for call in (
        engine.schedules.get(tenant, "a\0"),
        engine.schedules.delete(tenant, "a\0"),
        engine.schedules.run(tenant, "a\0"),
        engine.schedules.patch(tenant, "a\0", {"cron": "* * * * *"}),
        engine.schedules.list(tenant, prefix="\0"),
        engine.jobs.list_jobs(tenant, queue="a\0"),
        engine.jobs.list_jobs(tenant, before="a\0"),
        engine.jobs.limits(tenant, "a\0"),
        engine.queues.list(tenant, prefix="\0"),
        engine.queues.list(tenant, after="\ud800"),
        engine.tenants.create("\0"),
    ):
        with pytest.raises(Invalid):
            await call


@pytest.mark.parametrize("number", [-1, 2**63, 10**5000], ids=["negative", "64 bits", "5001 digits"])
async def test_numbers_beyond_64_bits_are_refused(engine: Engine, tenant: TenantId, number: int) -> None:
    for call in (
        engine.queues.cancel_move(tenant, number),
        engine.audit.list(tenant, before=number),
        engine.tenants.revoke_token(number),
        engine.streams.ack(tenant, "s", "c", number),
        engine.streams.nack(tenant, "s", "c", number, 1),
        engine.streams.nack(tenant, "s", "c", 1, number),
        engine.streams.replay(tenant, "s", number),
    ):
        with pytest.raises(Invalid):
            await call


async def test_a_token_that_outlives_the_calendar_is_refused(engine: Engine, tenant: TenantId) -> None:
    with pytest.raises(Invalid):
        await engine.tenants.create_token(tenant, "t", frozenset({Scope.SEND}), lasts=timedelta.max)

    assert await engine.tenants.list_tokens(tenant) == []


@pytest.mark.parametrize("lag", [5e-324, 1e-9, -1.0, float("nan"), float("inf"), 1e308])
async def test_a_stream_has_no_period_that_its_ticker_cannot_keep(engine: Engine, tenant: TenantId, lag: float) -> None:
    with pytest.raises(Invalid) as refused:
        await engine.streams.create(tenant, "orders", {"ticker_max_lag": lag})

    assert refused.value.field == "ticker_max_lag"


@pytest.mark.parametrize("payload", POISON_JSON, ids=lambda text: text[:12])
async def test_an_event_holds_nothing_its_consumers_cannot_parse(
    engine: Engine, tenant: TenantId, payload: str
) -> None:
    with pytest.raises(Invalid) as refused:
        await engine.streams.send(tenant, "orders", [NewEvent(type="t", payload=payload)])

    assert refused.value.field == "payload"


@pytest.mark.parametrize("moment", POISON_MOMENTS, ids=str)
async def test_an_event_is_not_sent_at_a_moment_out_of_range(
    engine: Engine, tenant: TenantId, moment: datetime
) -> None:
    with pytest.raises(Invalid) as refused:
        await engine.streams.send_at(tenant, "orders", NewEvent(type="t", payload="1"), moment)

    assert refused.value.field == "at"


@pytest.mark.parametrize("moment", POISON_MOMENTS, ids=str)
async def test_insights_are_not_asked_for_beyond_the_calendar(
    engine: Engine, tenant: TenantId, moment: datetime
) -> None:
    for call in (
        engine.insights.list(tenant, since=moment),
        engine.insights.list(tenant, until=moment),
        engine.insights.list(tenant, after=(moment, InsightKind.QUEUE, "work")),
        engine.insights.errors(tenant, since=moment),
    ):
        with pytest.raises(Invalid):
            await call


async def test_a_text_that_is_not_json_is_an_event_like_any_other(engine: Engine, tenant: TenantId) -> None:
    text = NewEvent(type="t", payload="[2026-01-01] value 1e400 is large")
    try:
        await engine.streams.create(tenant, "texts", {})
    except Unsupported:
        pytest.skip("streams require PostgreSQL")

    assert len(await engine.streams.send(tenant, "texts", [text])) == 1


async def test_an_invalid_stream_name_is_refused(engine: Engine, tenant: TenantId) -> None:
    with pytest.raises(InvalidName):
        await engine.streams.create(tenant, "a\0", {})
    with pytest.raises(PenstockError):
        await engine.streams.list(tenant, prefix="\0")

"""What SQL users send is held to the bounds of the engine: one unreadable job would fail every later lease."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.clock import FakeClock
from penstock.engine import Engine
from penstock.model.jobs import LeaseRequest
from penstock.model.tenants import TenantId
from penstock.store import Store
from tests.store.postgres_only.roles import User, user_of

ENQUEUE = "select penstock.enqueue_job('work', %s::jsonb, run_at => %s)"
CHECK = "select penstock.check_json('payload', array[%s])"


@pytest.fixture
def user(dsn: str) -> Iterator[User]:
    with user_of(dsn) as user:
        yield user


@pytest.mark.parametrize(
    "moment",
    ["infinity", "-infinity", "0001-01-01 00:00:00+15:59", "4713-01-01 BC", "9999-12-31", "294276-12-31", "1969-12-31"],
)
def test_a_job_cannot_run_at_a_moment_out_of_range(user: User, moment: str) -> None:
    assert user.complaint(ENQUEUE, "{}", moment) == ("PS010", "run_at")


@pytest.mark.parametrize("payload", ["1e400", "[-1e400]", "9" * 5001, "[" * 501 + "]" * 501], ids=lambda text: text[:9])
def test_a_job_holds_nothing_its_worker_cannot_parse(user: User, payload: str) -> None:
    assert user.complaint(ENQUEUE, payload, None) == ("PS010", "payload")


@pytest.mark.parametrize("text", ["1e999999", '{"a":1E+400}', "[" + "1" * 400 + "]", '{"a":' * 501 + "1" + "}" * 501])
def test_a_json_text_is_held_to_the_same_rules(user: User, text: str) -> None:
    assert user.complaint(CHECK, text) == ("PS010", "payload")


@pytest.mark.parametrize(
    "text",
    [
        "1e308",
        "1e-400",
        '"1e400"',
        '"' + "[" * 1000 + '"',
        r'["\"", "' + "[" * 600 + r'\\"]',
        "[" * 500 + "]" * 500,
        "[" + ",".join(["[[]]"] * 2000) + "]",
    ],
    ids=lambda text: text[:9],
)
def test_json_that_can_be_parsed_passes(user: User, text: str) -> None:
    assert user.one(CHECK, text) == ""


def test_a_payload_has_a_bound(user: User) -> None:
    assert user.complaint(ENQUEUE, '"' + "x" * 1_048_576 + '"', None) == ("PS010", "payload")


async def test_the_first_and_the_last_moment_can_be_leased_and_listed(
    store: Store, clock: FakeClock, user: User
) -> None:
    user.one(ENQUEUE, "1", "1970-01-01 00:00:00+00")
    user.one(ENQUEUE, "2", "9000-01-01 00:00:00+00")
    tenant = TenantId(user.one("select penstock.current_tenant()"))
    engine = Engine(store, clock)

    leased = await engine.jobs.lease(LeaseRequest(tenant=tenant, queue="work", lease_s=30, workers=["w"] * 2))

    assert [job.payload for job in leased] == ["1"]
    assert (await engine.jobs.list_jobs(tenant))[1] == 2


@pytest.mark.parametrize("payload", ["² work", "٣ work", "9" * 5000 + " work", "1 ", " ", "\ud7ff"], ids=ascii)
async def test_a_strange_notification_does_no_harm(store: Store, user: User, payload: str) -> None:
    heard: list[tuple[int, str]] = []
    await store.watch(lambda tenant, queue: heard.append((tenant, queue)))
    await store.expect(TenantId(1), "work", FakeClock().now())

    user.rows("select pg_notify('penstock_arrivals', %s)", payload)
    user.rows("select pg_notify('penstock_arrivals', '1 afterwards')")
    while not heard:
        await store.ping()

    assert heard == [(1, "afterwards")]

"""When leases are renewed, and when they are given up for lost."""

from __future__ import annotations

import asyncio

import pytest

from penstock.client.api.jobs import leased_of
from penstock.client.heartbeats import Heartbeats
from penstock.client.running import Lease, RunningJob
from tests.client.fakes import AsyncScripted, answer


def test_a_lease_wants_renewing_after_a_third_and_ends_at_its_end() -> None:
    lease = Lease(30, since=100)

    assert (lease.beat_at, lease.ends_at) == (110, 130)


def test_a_renewed_lease_counts_from_when_it_was_asked_for() -> None:
    lease = Lease(30, since=100)
    lease.renewed(111)

    assert (lease.beat_at, lease.ends_at) == (121, 141)


def test_after_a_heartbeat_that_failed_the_next_is_soon_and_the_end_stays() -> None:
    lease = Lease(30, since=100)
    lease.not_renewed(112)

    assert (lease.beat_at, lease.ends_at) == (115, 130)


def test_a_report_that_did_not_arrive_gives_way_to_a_later_one() -> None:
    job = running_job()
    job.progress(10)
    told = job.take_report()
    job.report_again(told)
    assert job.take_report() == (10, None)

    job.progress(20, "later")
    job.report_again(told)
    assert job.take_report() == (20, "later")


def running_job() -> RunningJob:
    found = {"job": {"id": "7", "queue_name": "work"}, "lease_token": "token"}
    return RunningJob(leased_of(found), Lease(30, since=0), wake=lambda: None)


async def test_a_lease_that_is_over_is_lost_without_asking_anyone() -> None:
    lost: list[RunningJob] = []
    job = running_job()
    job.lease.renewed(asyncio.get_running_loop().time() - 31)
    heartbeats = Heartbeats({job.token: job}, AsyncScripted(), 30, lost.append)
    task = asyncio.create_task(heartbeats.run())
    await asyncio.sleep(0)
    task.cancel()

    assert lost == [job]


@pytest.mark.parametrize("steps", range(6))
async def test_it_can_be_cancelled_at_the_moment_it_is_woken(steps: int) -> None:
    heartbeats = Heartbeats({}, AsyncScripted(answer(200)), 30, lambda job: None)
    task = asyncio.create_task(heartbeats.run())
    await asyncio.sleep(0.001)
    heartbeats.wake()
    for _ in range(steps):
        await asyncio.sleep(0)
    task.cancel()

    done, _ = await asyncio.wait({task}, timeout=2)
    assert done == {task}

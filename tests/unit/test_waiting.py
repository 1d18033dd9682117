"""Receivers that wait: in order, woken by arrivals and by the clock."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from penstock.clock import FakeClock
from penstock.engine.waiting import Waiters
from penstock.model import DEFAULT_TENANT

KEY = (DEFAULT_TENANT, "orders")


async def test_the_first_to_wait_is_the_first_to_wake() -> None:
    waiters = Waiters(FakeClock())
    first, second, third = waiters.join(KEY), waiters.join(KEY), waiters.join(KEY)

    waiters.wake(KEY, count=2)

    assert (first.done(), second.done(), third.done()) == (True, True, False)


async def test_a_wake_up_passes_over_those_who_left() -> None:
    waiters = Waiters(FakeClock())
    first, second = waiters.join(KEY), waiters.join(KEY)
    waiters.leave(KEY, first)

    waiters.wake(KEY)

    assert second.done()
    assert not first.done()


async def test_other_queues_and_other_tenants_sleep_on() -> None:
    waiters = Waiters(FakeClock())
    other = waiters.join((DEFAULT_TENANT, "invoices"))

    waiters.wake(KEY, count=10)

    assert not other.done()


async def test_a_hidden_message_wakes_one_waiter_when_it_is_due() -> None:
    clock = FakeClock()
    waiters = Waiters(clock)
    waiting = waiters.join(KEY)

    waiters.wake_at(KEY, clock.now() + timedelta(hours=1))
    waiters.wake_at(KEY, clock.now() + timedelta(milliseconds=10))

    await asyncio.wait_for(waiting, timeout=5)


async def test_stopping_wakes_everyone() -> None:
    waiters = Waiters(FakeClock())
    waiting = [waiters.join(KEY) for _ in range(3)] + [waiters.join((DEFAULT_TENANT, "invoices"))]

    waiters.wake_everyone()

    assert all(future.done() for future in waiting)


async def test_nothing_is_remembered_of_a_queue_nobody_waits_for() -> None:
    waiters = Waiters(FakeClock())
    waiting = waiters.join(KEY)
    waiters.wake_at(KEY, FakeClock().now() + timedelta(hours=1))

    waiters.leave(KEY, waiting)

    assert not waiters.waiting(KEY)
    assert waiters._timers == {}

"""Receivers that wait: in order, woken by arrivals and by the clock."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from penstock.clock import FakeClock
from penstock.engine import waiting
from penstock.engine.waiting import Expectations, Look, Waiters
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

    waiters.stop()

    assert all(future.done() for future in waiting)


async def test_nothing_is_remembered_of_a_queue_nobody_waits_for() -> None:
    waiters = Waiters(FakeClock())
    waiting = waiters.join(KEY)
    waiters.wake_at(KEY, FakeClock().now() + timedelta(hours=1))

    waiters.leave(KEY, waiting)

    assert not waiters.waiting(KEY)
    assert waiters._timers == {}


class Source:
    """Something to poll: answers what it was given, one look after the other."""

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)
        self.looks = 0
        self.expected = 0

    async def look(self) -> Look[str]:
        self.looks += 1
        found = self.answers.pop(0) if self.answers else ""
        return Look(found, not found)

    async def expect(self, key: object) -> bool:
        self.expected += 1
        return self.expected == 1


async def test_what_is_there_is_found_by_the_first_look() -> None:
    source = Source("message")

    assert await Waiters(FakeClock()).poll(KEY, 20, source.look, source.expect) == "message"
    assert (source.looks, source.expected) == (1, 0)


async def test_whoever_begins_to_wait_looks_a_second_time_before_sleeping() -> None:
    source = Source("", "message")

    assert await Waiters(FakeClock()).poll(KEY, 20, source.look, source.expect) == "message"
    assert (source.looks, source.expected) == (2, 1)


async def test_a_wait_ends_with_a_wake_up() -> None:
    waiters, source = Waiters(FakeClock()), Source("", "", "message")
    polled = asyncio.create_task(waiters.poll(KEY, 20, source.look, source.expect))
    while source.expected < 2:  # noqa: ASYNC110
        await asyncio.sleep(0)

    waiters.wake(KEY)

    async with asyncio.timeout(waiting.RECHECK_S / 2):
        assert await polled == "message"
    assert not waiters.waiting(KEY)


async def test_a_wake_up_that_was_not_needed_is_passed_on() -> None:
    waiters, source = Waiters(FakeClock()), Source()

    async def look() -> Look[str]:
        waiters.wake(KEY)
        return Look("message", False)

    other: asyncio.Future[None] | None = None

    async def look_with_another() -> Look[str]:
        nonlocal other
        other = waiters.join(KEY)
        return await look()

    await waiters.poll(KEY, 20, look_with_another, source.expect)

    assert other is not None
    assert other.done()


async def test_a_wait_ends_when_the_server_stops() -> None:
    waiters, source = Waiters(FakeClock()), Source()
    polled = asyncio.create_task(waiters.poll(KEY, 20, source.look, source.expect))
    while source.expected < 2:  # noqa: ASYNC110
        await asyncio.sleep(0)

    waiters.stop()

    async with asyncio.timeout(waiting.RECHECK_S / 2):
        assert await polled == ""
        assert await waiters.poll(KEY, 20, source.look, source.expect) == ""


async def test_the_store_is_told_of_a_wait_once_in_a_while() -> None:
    told: list[object] = []

    async def tell(key: object) -> None:
        told.append(key)

    expectations = Expectations(tell)

    assert [await expectations.expect(KEY) for _ in range(3)] == [True, False, False]
    assert told == [KEY]
    assert expectations.knows(KEY)

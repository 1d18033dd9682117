"""Natural batching: who shares a statement with whom, and what happens when it fails."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from penstock.engine.batching import Batcher, KeyedBatchers, MixedBatcher
from penstock.errors import Invalid, Unavailable


class Database:
    """Takes batches one at a time and answers when told to."""

    def __init__(self, poison: int | None = None, error: Exception | None = None) -> None:
        self.batches: list[list[int]] = []
        self.gate = asyncio.Event()
        self._poison, self._error = poison, error

    async def flush(self, items: Sequence[int]) -> Sequence[int]:
        self.batches.append(list(items))
        await self.gate.wait()
        if self._error is not None and (self._poison is None or self._poison in items):
            raise self._error
        return [item * 10 for item in items]


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_lone_request_is_passed_on_at_once() -> None:
    database = Database()
    batcher = Batcher(database.flush)

    answer = batcher.submit([1])
    await settle()

    assert database.batches == [[1]]
    database.gate.set()
    assert await answer == [10]


async def test_requests_that_arrive_during_a_statement_share_the_next() -> None:
    database = Database()
    batcher = Batcher(database.flush)
    answers = [batcher.submit([1])]
    await settle()

    answers += [batcher.submit([2]), batcher.submit([3, 4]), batcher.submit([5])]
    database.gate.set()

    assert [list(await answer) for answer in answers] == [[10], [20], [30, 40], [50]]
    assert database.batches == [[1], [2, 3, 4, 5]]


async def test_a_batch_is_no_larger_than_its_limit_and_keeps_a_callers_items_together() -> None:
    database = Database()
    batcher = Batcher(database.flush, limit=3)
    database.gate.set()

    answers = [batcher.submit([1, 2]), batcher.submit([3, 4]), batcher.submit([5])]
    await asyncio.gather(*answers)

    assert database.batches == [[1, 2], [3, 4, 5]]


async def test_a_caller_larger_than_the_limit_gets_a_batch_of_its_own() -> None:
    database = Database()
    batcher = Batcher(database.flush, limit=2)
    database.gate.set()

    assert list(await batcher.submit([1, 2, 3])) == [10, 20, 30]


async def test_without_batching_every_caller_has_its_own_statement() -> None:
    database = Database()
    batcher = Batcher(database.flush, enabled=False)

    answers = [batcher.submit([number]) for number in (1, 2, 3)]
    await settle()

    assert database.batches == [[1], [2], [3]]
    database.gate.set()
    assert [list(await answer) for answer in answers] == [[10], [20], [30]]


async def test_one_callers_oddity_does_not_fail_its_neighbours() -> None:
    database = Database(poison=2, error=Invalid("odd"))
    database.gate.set()
    batcher = Batcher(database.flush)

    good, bad, other = batcher.submit([1]), batcher.submit([2]), batcher.submit([3])

    assert list(await good) == [10]
    assert list(await other) == [30]
    with pytest.raises(Invalid):
        await bad


async def test_an_absent_database_is_asked_once() -> None:
    database = Database(error=Unavailable())
    database.gate.set()
    batcher = Batcher(database.flush)

    answers = [batcher.submit([number]) for number in (1, 2, 3)]
    results = await asyncio.gather(*answers, return_exceptions=True)

    assert all(isinstance(result, Unavailable) for result in results)
    assert database.batches == [[1, 2, 3]]


async def test_a_caller_who_left_does_not_disturb_the_others() -> None:
    database = Database()
    batcher = Batcher(database.flush)
    gone, stays = batcher.submit([1]), batcher.submit([2])
    await settle()

    gone.cancel()
    database.gate.set()

    assert list(await stays) == [20]


async def test_what_is_answered_to_a_caller_who_left_is_handed_back() -> None:
    database = Database()
    handed_back: list[tuple[list[int], list[int]]] = []
    batcher = Batcher(database.flush, abandoned=lambda items, results: handed_back.append((list(items), list(results))))
    gone, stays = batcher.submit([1]), batcher.submit([2])
    await settle()

    gone.cancel()
    database.gate.set()
    await stays

    assert handed_back == [([1], [10])]


async def test_lingering_holds_a_batch_open() -> None:
    database = Database()
    database.gate.set()
    batcher = Batcher(database.flush, linger_s=0.02)

    first = batcher.submit([1])
    await asyncio.sleep(0)
    second = batcher.submit([2])
    await asyncio.gather(first, second)

    assert database.batches == [[1, 2]]


async def test_a_lane_that_waits_does_not_hold_up_the_shared_one() -> None:
    slow = Database()
    quick = Database()
    quick.gate.set()

    async def flush(items: Sequence[int]) -> Sequence[int]:
        return await (slow if items[0] < 0 else quick).flush(items)

    batchers = KeyedBatchers(lambda: Batcher(flush))
    waiting = batchers.submit([-1], key="orders.fifo")
    await settle()

    assert list(await batchers.submit([1])) == [10]
    assert not waiting.done()
    slow.gate.set()
    assert list(await waiting) == [-10]


async def test_draining_waits_for_everything_submitted() -> None:
    database = Database()
    batchers = KeyedBatchers(lambda: Batcher(database.flush))
    answers = [batchers.submit([1]), batchers.submit([2], key="a")]
    draining = asyncio.create_task(batchers.drain())
    await settle()
    assert not draining.done()

    database.gate.set()
    await draining

    assert all(answer.done() for answer in answers)


class MixedDatabase:
    """Takes batches of two kinds; answers a batch when told to, and fails those that hold the poison."""

    def __init__(self, poison: int | None = None) -> None:
        self.batches: list[list[list[int]]] = []
        self.gates: list[asyncio.Event] = []
        self.poison = poison
        self.asked = asyncio.Semaphore(0)

    async def flush(self, parts: list[list[int]]) -> list[list[int]]:
        self.batches.append(parts)
        self.asked.release()
        gate = asyncio.Event()
        self.gates.append(gate)
        await gate.wait()
        if self.poison is not None and any(self.poison in part for part in parts):
            raise Invalid("poison")
        return [[item * 10 for item in part] for part in parts]

    def answer(self) -> None:
        for gate in self.gates:
            gate.set()


async def test_kinds_share_a_statement_and_each_caller_gets_its_own_results() -> None:
    database = MixedDatabase()
    batcher = MixedBatcher(database.flush, 2)
    answers = [batcher.submit(0, [1])]
    await settle()

    answers += [batcher.submit(1, [2]), batcher.submit(0, [3, 4]), batcher.submit(1, [5])]
    await settle()
    assert database.batches == [[[1], []]]
    database.answer()
    await settle()

    assert database.batches[1:] == [[[3, 4], [2, 5]]]
    database.answer()
    assert [list(await answer) for answer in answers] == [[10], [20], [30, 40], [50]]


async def test_one_kind_at_fault_does_not_fail_the_others() -> None:
    database = MixedDatabase(poison=2)
    batcher = MixedBatcher(database.flush, 2)
    answers = [batcher.submit(0, [1]), batcher.submit(1, [2]), batcher.submit(1, [3])]

    for _ in range(4):
        await settle()
        database.answer()

    assert list(await answers[0]) == [10]
    with pytest.raises(Invalid):
        await answers[1]
    assert list(await answers[2]) == [30]


async def test_a_crowd_gets_a_statement_of_its_own() -> None:
    database = MixedDatabase()
    batcher = MixedBatcher(database.flush, 2)
    batcher.submit(0, [0])
    await settle()

    answers = [batcher.submit(1, [number]) for number in range(batcher.CROWD)]
    await settle()

    assert [len(part) for part in database.batches[-1]] == [0, batcher.CROWD]
    database.answer()
    await asyncio.gather(*answers)
    await batcher.drain()


async def test_a_statement_that_waits_for_a_lock_holds_up_nobody_else() -> None:
    database = MixedDatabase()
    batcher = MixedBatcher(database.flush, 2)
    stuck = batcher.submit(0, [1])
    await database.asked.acquire()

    for number in (2, 3):
        answer = batcher.submit(1, [number])
        await database.asked.acquire()
        await settle()
        database.gates[-1].set()
        assert list(await answer) == [number * 10]

    assert not stuck.done()
    database.answer()
    await batcher.drain()
    assert stuck.done()


async def test_what_a_caller_left_behind_is_given_back() -> None:
    database = MixedDatabase()
    given_back: list[tuple[int, list[int], list[int]]] = []
    batcher = MixedBatcher(
        database.flush, 2, abandoned=lambda kind, items, found: given_back.append((kind, list(items), list(found)))
    )
    answer = batcher.submit(1, [7])
    await settle()

    answer.cancel()
    database.answer()
    await batcher.drain()

    assert given_back == [(1, [7], [70])]

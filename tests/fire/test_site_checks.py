"""The checks of metrics, floods and backups, on histories written by hand; parts of a run that need no server."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from tests.fire.__main__ import slope
from tests.fire.checks.all import violations
from tests.fire.faults.plan import KINDS, make_plan
from tests.fire.faults.proxy import CUTS, Cut, Proxy
from tests.fire.history import Call, History
from tests.fire.overload import Load, Round, judge

GAUGES = {"queue_depth": 0, "queue_in_flight": 0, "queue_delayed": 0, "queue_sent_messages": 2}


def found(*calls: Call) -> list[str]:
    return [violation.check for violation in violations(History(calls))]


def done(op: str, result: Any) -> Call:
    return Call(op, "work", 1, 2, "ok", {}, result)


def test_metrics_that_are_the_facts_are_fine() -> None:
    counts = Call("counts", "work", 1, 2, "ok", {}, {"queue_length": 0, "total_messages": 2})
    create = Call("create", "work", 0, 0, "ok", {"fed_by": "others"})

    assert found(create, counts, done("metrics", GAUGES)) == []
    for name in GAUGES:
        assert found(create, counts, done("metrics", {**GAUGES, name: 7})) == ["metrics"]
    assert set(found(create, counts, done("metrics", {}))) == {"metrics"}


def test_a_flood_is_served_or_refused() -> None:
    assert found(done("flood", {"201": 9, "429": 2, "503": 1})) == []
    assert found(done("flood", {"201": 9, "500": 1, "closed": 1})) == ["flood", "flood"]


@pytest.mark.parametrize(
    ("result", "wrong"),
    [
        ({"differs": [], "served": [["1", "a"]], "expected": [["1", "a"]]}, []),
        ({"differs": ["jobs"], "served": [["1", "a"]], "expected": [["1", "a"]]}, ["backup"]),
        ({"differs": [], "served": [["1", "b"]], "expected": [["1", "a"]]}, ["backup"]),
        ({"differs": [], "served": [], "expected": []}, ["backup"]),
    ],
)
def test_a_restored_backup_serves_the_same(result: dict[str, Any], wrong: list[str]) -> None:
    assert found(done("backup", result)) == wrong


def test_a_plan_has_every_kind_and_is_the_same_for_the_same_seed() -> None:
    plan = make_plan(3, 200, 2)

    assert {fault.kind for fault in plan} == set(KINDS)
    assert plan == make_plan(3, 200, 2) != make_plan(4, 200, 2)


def test_the_slope_of_memory_leaves_out_the_beginning() -> None:
    assert slope([(0, 50), (10, 90), (20, 100), (60, 100), (100, 100)]) == 0
    assert slope([(second, second / 60) for second in range(100)]) == pytest.approx(1)


@pytest.mark.parametrize(
    ("statuses", "silent", "seconds", "memory", "failed"),
    [
        ({201: 9, 429: 91}, 0, 0.015, 100, 0),
        ({201: 9, 429: 91}, 0, 0.03, 100, 1),
        ({201: 9, 429: 91}, 0, 0.015, 600, 1),
        ({201: 9, 429: 91}, 1, 0.015, 100, 1),
        ({201: 9, 429: 91, 500: 1}, 0, 0.015, 100, 1),
        ({201: 11, 429: 89}, 0, 0.015, 100, 1),
    ],
)
def test_overload_is_judged(statuses: dict[int, int], silent: int, seconds: float, memory: float, failed: int) -> None:
    def other(took: float) -> Load:
        return Load(Counter({201: 1}), 0, [took])

    full = Round("full", Load(Counter({201: 1}), 0, [0.1]), other(0.01))
    over = Round("over", Load(Counter(statuses), silent, [0.1]), other(seconds))

    assert judge([Round("alone", None, other(0.01)), full, over], memory) == failed


async def _serve(seen: list[bytes], reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    seen.append(await reader.read(100))
    writer.write(b"answer")
    await writer.drain()
    writer.close()


@pytest.mark.parametrize("cut", [None, *CUTS])
async def test_a_proxy_cuts_as_it_is_told(cut: Cut | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.fire.faults.proxy.CHANCE", 1.0)
    seen: list[bytes] = []
    server = await asyncio.start_server(lambda *streams: _serve(seen, *streams), "127.0.0.1", 0)
    proxy = Proxy(server.sockets[0].getsockname()[1], 1)
    proxy.cut = cut
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(proxy.url.rpartition(":")[2]))
        writer.write(b"request")
        try:
            answer = await asyncio.wait_for(reader.read(), 5)
        except ConnectionError:
            answer = b""
        writer.close()
    finally:
        await asyncio.to_thread(proxy.close)
        server.close()

    assert (answer == b"answer") is (cut is None)
    assert (b"request" in seen) is (cut != "before the request")

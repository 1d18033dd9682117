"""Which server processes run."""

from __future__ import annotations

from penstock.clock import FakeClock
from penstock.engine import Engine
from penstock.store import Store


async def test_nodes_are_listed_until_they_stop_or_are_forgotten(store: Store, clock: FakeClock) -> None:
    here, there = Engine(store, clock, base_url="http://here"), Engine(store, clock, base_url="http://there")

    async def running() -> dict[str, bool]:
        found = await here.nodes.list()
        return {node.address: runs for node, runs in found if node.address in ("http://here", "http://there")}

    await here.nodes.seen("1.0")
    await there.nodes.seen("1.0")
    assert await running() == {"http://here": True, "http://there": True}
    clock.advance(seconds=61)
    await here.nodes.seen("1.0")
    assert await running() == {"http://here": True, "http://there": False}
    await here.nodes.stopped()
    assert await running() == {"http://there": False}
    clock.advance(seconds=86_401)
    await here.nodes.seen("1.1")
    assert await running() == {"http://here": True}
    await here.nodes.stopped()

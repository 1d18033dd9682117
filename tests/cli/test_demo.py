"""`penstock demo`: bounded, and plausible on every store."""

from __future__ import annotations

import json
import time

from penstock.cli.commands import demo
from penstock.wire.rest import status
from tests.cli.commands import Target, penstock


def test_the_demo_makes_traffic_and_ends(target: Target) -> None:
    began = time.monotonic()
    counts = json.loads(target.run("demo", "--for", "2s", "--rate", "100", "--seed", "3", "--json").out)
    assert time.monotonic() - began < 30

    assert counts["orders"] > 0
    assert counts["jobs"] > 0
    assert (counts["streamed"] > 0) == (target.kind == "postgres")
    found = target.json(status.Overview, "status")
    queues = {one.queue: one for one in found.queues}
    assert queues["demo-orders"].sent >= counts["orders"]
    assert queues["demo-failed"].dead_letters
    assert {one.queue for one in found.jobs} <= {"demo-emails", "demo-invoices"}
    target.run("demo", "--for", "1s", "--rate", "5", "--no-troubles")


def test_the_demo_is_bounded() -> None:
    assert penstock("demo", "--for", "2h", "--url", "http://127.0.0.1:1").code == 2
    assert demo.LONGEST_S == 3600

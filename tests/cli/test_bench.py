"""`penstock bench` measures a server and leaves nothing behind."""

from __future__ import annotations

import json

from tests.cli.commands import Target


def test_bench_measures_and_drops_its_queue(target: Target) -> None:
    rows = json.loads(target.run("bench", "--for", "1s", "--connections", "2", "--json").out)

    assert [row["failed"] for row in rows] == [0, 0, 0, 0]
    assert all(row["messages_per_s"] > 0 for row in rows)
    assert "penstock-bench" not in target.run("queue", "list", "--json").out

"""The exercise: three servers under demo traffic, and three things go wrong. Every tool must name them."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack

import psycopg
import pytest
import yaml  # type: ignore[import-untyped]

from deploy import generate
from tests.cli.commands import penstock
from tests.deploy.alerting import Alertmanager, Series, evaluate, rendered, scraped
from tests.system.serving import Running, serving

RULES = yaml.safe_load(generate.RULES.read_text())["groups"][0]["rules"]
ENDPOINT = "http://127.0.0.1:9/hook"
LATER_S = 600
AGE = """
update penstock.messages as m set sent_at = m.sent_at - make_interval(secs => %(by)s)
from penstock.queues as q where q.name = 'demo-forgotten' and m.bin_id = q.bin_id;
"""
AGE_TICKS = """
update pgque.tick as t set tick_time = t.tick_time - make_interval(secs => %(by)s)
from pgque.queue as q where q.queue_name = 'demo-audit' and t.tick_queue = q.queue_id;
"""


def series(*rows: tuple[str, dict[str, str], float]) -> Series:
    return {(name, frozenset(labels.items())): value for name, labels, value in rows}


def test_the_evaluator_aggregates_as_prometheus_does() -> None:
    found = series(
        ("depth", {"queue": "a", "instance": "1"}, 3),
        ("depth", {"queue": "a", "instance": "2"}, 9),
        ("depth", {"queue": "b", "instance": "1"}, 5),
        ("up", {"job": "penstock", "instance": "1"}, 0),
        ("up", {"job": "other", "instance": "1"}, 0),
    )
    assert evaluate("max by (queue) (depth) > 5", found) == {frozenset({("queue", "a")}): 9}
    assert evaluate("sum (depth) > 16", found) == {frozenset(): 17}
    assert len(evaluate('up{job="penstock"} == 0', found)) == 1
    assert evaluate("max by (queue) (depth) > 1 and max by (queue) (depth) > 8", found) == {
        frozenset({("queue", "a")}): 9
    }
    assert evaluate('max by (queue) (depth{instance="1"}) > 3', found) == {frozenset({("queue", "b")}): 5}
    with pytest.raises(AssertionError, match="does not know"):
        evaluate("rate(depth[5m]) > 1", found)


def test_an_alert_fires_after_its_expression_held_long_enough() -> None:
    rule = {"alert": "Deep", "expr": "max by (queue) (depth) > 5", "for": "5m", "annotations": {"summary": "s"}}
    manager = Alertmanager([rule])
    deep, shallow = series(("depth", {"queue": "a"}, 9)), series(("depth", {"queue": "a"}, 1))
    assert [list(manager.look(at, found)) for at, found in ((0, deep), (200, shallow), (300, deep), (500, deep))] == (
        [[]] * 4
    )
    assert [alert[:2] for alert in manager.look(600, deep)] == [("Deep", {"queue": "a"})]
    assert all(rendered(rule["annotations"]["summary"], _every_label(rule), 1.0) for rule in RULES)


def _every_label(rule: dict[str, str]) -> dict[str, str]:
    return dict.fromkeys(("tenant", "queue", "stream", "consumer", "endpoint", "pipeline", "instance"), "x")


@pytest.fixture
def servers(migrated_database: str) -> Iterator[list[Running]]:
    more = {"PENSTOCK_HTTP_DELIVERY_DELAYS": "1,1,600", "PENSTOCK_HTTP_DELIVERY_PAUSE_S": "1"}
    with ExitStack() as stack:
        found = [
            stack.enter_context(serving("--database-url", migrated_database, more=more, timeout=90)) for _ in range(3)
        ]
        yield found


def demo(servers: Sequence[Running], seconds: int) -> None:
    """Traffic on all servers at once."""
    command = [sys.executable, "-m", "penstock", "demo", "--for", f"{seconds}s", "--rate", "25", "--json"]
    started = [
        subprocess.Popen([*command, "--seed", str(number), "--url", server.url], stdout=subprocess.PIPE, text=True)
        for number, server in enumerate(servers)
    ]
    for process in started:
        out, _ = process.communicate(timeout=120)
        assert process.returncode == 0
        assert json.loads(out)["orders"] > 0


def pages(servers: Sequence[Running]) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for server in servers:
        with server.client() as client:
            found[server.url] = client.get("/metrics").text
    return found


@pytest.mark.slow
def test_a_stuck_consumer_a_failing_endpoint_and_a_queue_without_workers_are_named(
    servers: list[Running], migrated_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    demo(servers, 5)
    with psycopg.connect(migrated_database, autocommit=True) as connection:
        for statement in (AGE, AGE_TICKS):
            connection.execute(statement, {"by": LATER_S})
    # The traffic goes on, and so does the other consumer.
    demo(servers, 4)

    expected = {
        ("PenstockQueueStuck", "demo-forgotten"),
        ("PenstockConsumerBehind", "forgetful"),
        ("PenstockEndpointFailing", ENDPOINT),
    }
    what = {"PenstockQueueStuck": "queue", "PenstockConsumerBehind": "consumer", "PenstockEndpointFailing": "endpoint"}
    give_up = time.monotonic() + 60
    while True:
        # Servers read their gauges every 15 seconds.
        manager = Alertmanager(RULES)
        assert list(manager.look(0, scraped("penstock", pages(servers)))) == []
        fired = list(manager.look(300, scraped("penstock", pages(servers))))
        # The work of the demo fails at times, as it may.
        fired = [alert for alert in fired if alert[0] != "PenstockJobsDead"]
        # Another alert, such as of a ticker that has yet to come round again on a busy machine, has no such label.
        named = {(name, labels.get(what.get(name, ""), "")) for name, labels, _ in fired}
        if named == expected or time.monotonic() > give_up:
            break
        time.sleep(1)
    assert named == expected
    assert all(labels[what[name]] in summary for name, labels, summary in fired)

    for server in servers:
        done = penstock("check", "--json", "--url", server.url)
        assert done.code == 1
        problems = {(one["kind"], one["name"]) for one in json.loads(done.out)}
        three = {("queue", "demo-forgotten"), ("consumer", "demo-audit/forgetful"), ("endpoint", ENDPOINT)}
        assert problems >= three
        assert {kind for kind, _ in problems - three} <= {"dead letters", "dead jobs"}
        screen = penstock("status", "--url", server.url).out
        shown = screen[screen.index("\nproblems (") :]
        assert all(name in shown for _, name in three)

"""The namespaces of the client: they cover the API, in its words, and both clients have the same."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import pytest
from msgspec import Struct, structs

from penstock import AsyncClient, Client, Invalid
from penstock.client import manual
from penstock.client.api import jobs
from penstock.client.api.jobs import leased_of
from penstock.client.exchange import Answer, Request
from penstock.client.shells import AsyncNamespace, Namespace
from penstock.wire.jobs import types as job_shapes
from penstock.wire.rest import (
    deliveries,
    events,
    follow,
    insights,
    outbox,
    pipelines,
    schedule_types,
    status,
    stream_types,
    tenants,
    topics,
    types,
)
from tests.docs.pages import page, section
from tests.wire.conftest import Live, server

__all__ = ["server"]

SHAPES = (
    types, job_shapes, events, follow, topics, deliveries, outbox, stream_types, schedule_types, tenants, status,
    pipelines, insights,
)  # fmt: skip

OURS = {"Message": {"unreadable"}, "Event": {"unreadable"}, "Job": {"unreadable"}}
"""Fields that the client adds to what the server answers."""

NOT_FOR_PROGRAMS = {
    "/v1/openapi.json", "/readyz", "/metrics", "/health", "/ready", "/v1/cert",
    # The same as `subscriptions` and `unsubscribe`.
    "/v1/events/{pattern}/subscriptions/{id}", "/v1/queues/{name}/subscriptions",
}  # fmt: skip

LEASED = leased_of({"job": {"id": "7"}, "lease_token": "t"})

CALLS: list[Callable[[Client], Any]] = [
    lambda c: c.queues.create("a", fifo=True),
    lambda c: c.queues.list(),
    lambda c: c.queues.get("a"),
    lambda c: c.queues.change("a", delay=1),
    lambda c: c.queues.delete("a"),
    lambda c: c.queues.purge("a"),
    lambda c: c.queues.send("a", 1),
    lambda c: c.queues.send_many("a", [1, 2]),
    lambda c: c.queues.send_entries("a", [{"message": 1}]),
    lambda c: c.queues.receive("a", wait=1),
    lambda c: c.queues.peek("a"),
    lambda c: c.queues.delete_message("a", 1),
    lambda c: c.queues.delete_messages("a", [1, "receipt"]),
    lambda c: c.queues.archive("a", 1),
    lambda c: c.queues.change_visibility("a", 1, 0),
    lambda c: c.queues.sources("a"),
    lambda c: c.queues.redrive("a"),
    lambda c: c.queues.redrive_messages("a", [1]),
    lambda c: c.queues.redrives("a"),
    lambda c: c.queues.cancel_redrive("a", 1),
    lambda c: c.jobs.enqueue("a", {}, run_at="2030-01-01T00:00:00Z"),
    lambda c: c.jobs.enqueue_many([]),
    lambda c: c.jobs.ask(jobs.enqueue_many([])),
    lambda c: list(c.jobs.all()),
    lambda c: c.jobs.wait("7"),
    lambda c: c.jobs.status("7"),
    lambda c: c.jobs.get("7"),
    lambda c: c.jobs.attempts("7"),
    lambda c: c.jobs.list(),
    lambda c: c.jobs.cancel("7"),
    lambda c: c.jobs.lease("a", "w"),
    lambda c: c.jobs.ack(LEASED),
    lambda c: c.jobs.nack(LEASED, "no"),
    lambda c: c.jobs.heartbeat(LEASED),
    lambda c: c.jobs.queues(),
    lambda c: c.jobs.limits("a"),
    lambda c: c.jobs.set_limits("a", rate=2.0),
    lambda c: c.jobs.requeue_dead("a"),
    lambda c: c.jobs.purge_dead("a", ["7"]),
    lambda c: c.topics.create("a"),
    lambda c: c.topics.list(),
    lambda c: c.topics.delete("a"),
    lambda c: c.topics.publish("a", 1),
    lambda c: c.topics.subscribe("a", queue_name="q"),
    lambda c: c.topics.topic_subscriptions("a"),
    lambda c: c.topics.publish_event("a.b", 1),
    lambda c: c.topics.subscribe_pattern("a.*", queue_name="q"),
    lambda c: c.topics.pattern_subscriptions("a.*"),
    lambda c: c.topics.subscriptions(),
    lambda c: c.topics.unsubscribe(1),
    lambda c: c.topics.deliveries(),
    lambda c: c.topics.delivery(1),
    lambda c: c.topics.replay_delivery(1),
    lambda c: c.topics.delete_delivery(1),
    lambda c: c.topics.outbox(),
    lambda c: c.topics.clear_outbox(),
    lambda c: c.topics.opt_out("+491511"),
    lambda c: c.streams.create("a"),
    lambda c: c.streams.list(),
    lambda c: c.streams.get("a"),
    lambda c: c.streams.change("a", paused=True),
    lambda c: c.streams.delete("a"),
    lambda c: c.streams.health("a"),
    lambda c: c.streams.tick("a"),
    lambda c: c.streams.send("a", 1),
    lambda c: c.streams.send_many("a", [{"payload": 1}]),
    lambda c: c.streams.send_later("a", 1, at="2030-01-01T00:00:00Z"),
    lambda c: c.streams.add_consumer("a", "c"),
    lambda c: c.streams.consumers("a"),
    lambda c: c.streams.delete_consumer("a", "c"),
    lambda c: c.streams.receive("a", "c"),
    lambda c: c.streams.ack("a", "c", 1),
    lambda c: c.streams.nack("a", "c", 1, 2),
    lambda c: c.streams.dead_letters("a"),
    lambda c: c.streams.replay("a"),
    lambda c: c.streams.replay("a", 1),
    lambda c: c.streams.delete_dead_letters("a"),
    lambda c: c.schedules.create("a", "q", every="1h"),
    lambda c: c.schedules.put("a", "q", every="1h"),
    lambda c: c.schedules.list(),
    lambda c: c.schedules.get("a"),
    lambda c: c.schedules.change("a", status="paused"),
    lambda c: c.schedules.delete("a"),
    lambda c: c.schedules.run("a"),
    lambda c: c.schedules.preview(cron="* * * * *"),
    lambda c: c.admin.create_tenant("a"),
    lambda c: c.admin.tenants(),
    lambda c: c.admin.create_token("a"),
    lambda c: c.admin.tokens(),
    lambda c: c.admin.rotate_token(1),
    lambda c: c.admin.revoke_token(1),
    lambda c: c.admin.audit(),
    lambda c: c.admin.status(),
    lambda c: c.admin.follow("7"),
    lambda c: c.admin.version(),
    lambda c: c.admin.pipelines(),
    lambda c: c.admin.pipeline_runs(),
    lambda c: c.admin.insights(),
    lambda c: c.admin.insight_errors(),
    lambda c: c.admin.findings(),
]  # fmt: skip


class Refusing:
    """Refuses every request, and keeps it."""

    def __init__(self) -> None:
        self.requests: list[Request] = []

    def send(self, request: Request) -> Answer:
        self.requests.append(request)
        return Answer(418, b"{}")

    def close(self) -> None:
        pass


def asked() -> list[Request]:
    transport = Refusing()
    with Client("http://test", transport=transport) as client:
        for call in CALLS:
            try:
                call(client)
            except Invalid:
                continue
    return transport.requests


async def test_the_client_covers_the_api(server: Live) -> None:
    served = {
        (method.upper(), path)
        for path, methods in server.rest.document["paths"].items()
        for method, described in methods.items()
        if not {"OpenQueue", "private queues"} & {*described["tags"]} and path not in NOT_FOR_PROGRAMS
    }

    covered = {next(route for route in sorted(served) if _fits(request, *route)) for request in asked()}

    assert served == covered


def _fits(request: Request, method: str, path: str) -> bool:
    pattern = "/".join("[^/]+" if part.startswith("{") else re.escape(part) for part in path.split("/"))
    return request.method == method and re.fullmatch(pattern, request.path) is not None


def test_every_method_is_called_here() -> None:
    source = inspect.getsource(inspect.getmodule(asked))  # type: ignore[arg-type]
    named = set(re.findall(r"c\.(\w+)\.(\w+)\(", source))
    methods = {(name, method) for name, kind, _ in manual.NAMESPACES for method, _ in manual.methods(kind)}

    assert named - {("jobs", "ask")} == methods


def test_both_clients_have_the_same_calls() -> None:
    def calls(client: Any, kind: type) -> dict[str, list[tuple[str, str]]]:
        found = {name: value for name, value in vars(client).items() if isinstance(value, kind)}
        return {
            name: [
                (method, re.sub(r"^\(self, |AsyncIterator", "", str(inspect.signature(function))))
                for method, function in manual.methods(type(namespace))
            ]
            for name, namespace in found.items()
        }

    blocking = calls(Client("http://test"), Namespace)
    awaited = calls(AsyncClient("http://test"), AsyncNamespace)

    assert blocking.keys() == awaited.keys() == {name for name, _, _ in manual.NAMESPACES}
    for name, methods in blocking.items():
        assert {method for method, _ in methods} == {method for method, _ in awaited[name]} - {"drain"}


@pytest.mark.parametrize("kind", [kind for _, _, module in manual.NAMESPACES for kind in manual.classes(module)])
def test_the_fields_are_those_of_the_api(kind: Any) -> None:
    [shape] = {
        found
        for module in SHAPES
        if (found := getattr(module, kind.__name__, None)) is not None and issubclass(found, Struct)
    }

    assert set(manual.fields(kind)) - OURS.get(kind.__name__, set()) == {
        each.encode_name for each in structs.fields(shape)
    }


def test_the_reference_is_documented_as_it_is() -> None:
    assert section(page("docs/client.md"), "## Reference").strip().endswith("\n".join(manual.lines()).strip())


def test_the_address_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    from penstock.client.address import address

    monkeypatch.setenv("PENSTOCK_URL", "http://there:1/")
    monkeypatch.setenv("PENSTOCK_TOKEN", "secret")

    assert address(None, None) == ("http://there:1", "secret")
    assert address("https://here", "mine") == ("https://here", "mine")


@pytest.mark.parametrize("url", ["localhost:9324", "ftp://here", "postgresql://here/db", ""])
def test_a_url_of_something_else_is_refused(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PENSTOCK_URL", raising=False)

    for kind in (Client, AsyncClient):
        with pytest.raises(Invalid, match=r"begin with http:// or https://|set PENSTOCK_URL"):
            kind(url)


@pytest.mark.parametrize("moment", ["tomorrow", "2026-13-01", ""])
def test_a_time_that_is_none_is_refused_before_it_is_sent(moment: str) -> None:
    with Client("http://test", transport=Refusing()) as client, pytest.raises(Invalid, match="run_at must be an ISO"):
        client.jobs.enqueue("a", {}, run_at=moment)

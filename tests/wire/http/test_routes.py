"""Routes: who may ask, what an answer and the log tell, and how a path finds its handler."""

from __future__ import annotations

import logging

import pytest

from penstock.errors import QueueFull
from penstock.wire.http.faults import json_fault
from penstock.wire.http.messages import Request, Response
from penstock.wire.http.router import Route, Router
from tests.wire.conftest import Live, running
from tests.wire.http.parts import SEND, route
from tests.wire.raw import Raw, connected, request

# Who asks, and for what


async def test_without_an_authorization_header_nobody_is_admitted(raw: Raw) -> None:
    answer = await raw.ask(request("GET", "/v1/queues", auth=None))

    assert (answer.status, answer.json["code"]) == (401, "Unauthorized")


async def test_every_answer_names_its_request(raw: Raw) -> None:
    for path in ("/livez", "/docs", "/v1/nothing"):
        given = await raw.ask(request("GET", path, b"", "X-Request-Id: abc.1-_"))
        made = await raw.ask(request("GET", path, b"", "X-Request-Id: not valid"))

        assert given.headers["x-request-id"] == "abc.1-_"
        assert made.headers["x-request-id"] not in ("", "not valid")
        assert made.headers["x-content-type-options"] == "nosniff"


async def test_what_nobody_foresaw_is_logged_and_not_told(caplog: pytest.LogCaptureFixture) -> None:
    def broken(request: Request) -> Response:
        raise RuntimeError("the secret of the house")

    async with running(extra=[route("/broken", broken)]) as live, connected(live.port) as raw:
        answer = await raw.ask(request("POST", "/broken", b"payload", "X-Request-Id: r1"))

    assert answer.status == 500
    assert answer.json == {"error": "Internal error", "code": "InternalError", "request_id": "r1"}
    assert "the secret of the house" in caplog.text
    assert "payload" not in caplog.text


async def test_a_door_may_put_errors_its_own_way() -> None:
    def full(request: Request) -> Response:
        raise QueueFull()

    own = Route("POST", "/own", full, fault=lambda error, _: Response(418, type(error).__name__.encode()), open=True)
    async with running(extra=[own]) as live, connected(live.port) as raw:
        answer = await raw.ask(request("POST", "/own"))

    assert (answer.status, answer.body) == (418, b"QueueFull")


async def test_the_access_log_tells_the_route_and_nothing_private(
    server: Live, raw: Raw, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "penstock.access"):
        await raw.ask(request("GET", f"{SEND}?max=7", b"", "X-Request-Id: r1"))

    [record] = [record for record in caplog.records if record.name == "penstock.access"]
    assert (record.method, record.route, record.status, record.request_id) == (  # type: ignore[attr-defined]
        "GET",
        "/v1/queues/{name}/messages",
        404,
        "r1",
    )
    assert "max=7" not in str(vars(record))


# The router


def found(router: Router, method: str, path: str) -> tuple[str | None, list[str]]:
    asked = Request(method, path, b"", [], True)
    router.match(asked)
    return (asked.route.path if asked.route else None), asked.arguments


def test_the_router_prefers_the_literal_and_decodes_after_splitting() -> None:
    def nothing(request: Request) -> Response:
        return Response()

    router = Router(
        [Route("GET", path, nothing, fault=json_fault) for path in ("/v1/a/{x}", "/v1/a/b", "/v1/a/{x}/c", "/{y}/z")],
        ["v1"],
    )

    assert found(router, "GET", "/v1/a/b") == ("/v1/a/b", [])
    assert found(router, "GET", "/v1/a/b%2Fc") == ("/v1/a/{x}", ["b/c"])
    assert found(router, "GET", "/q/z") == ("/{y}/z", ["q"])
    assert found(router, "POST", "/q/z")[0] is None
    assert found(router, "GET", "/elsewhere")[0] is None


def test_a_route_cannot_be_served_twice() -> None:
    twice = Route("GET", "/v1/a", lambda _: Response(), fault=json_fault)
    with pytest.raises(ValueError, match="twice"):
        Router([twice, twice], ["v1"])

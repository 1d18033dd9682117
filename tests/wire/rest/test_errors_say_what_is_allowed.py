"""Errors about a request name what is allowed, and missing credentials are answered 401 everywhere."""

from __future__ import annotations

import httpx
import pytest

from penstock.auth import Mode
from tests.wire.conftest import running


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        ("/v1/queues/a/messages", {"body": 1}, 'unknown field "body"; known: message, headers, delay, priority'),
        ("/v1/queues/a/messages", [{"message": 1}, {"message": 1, "to": 2}], 'unknown field "to"; known: message'),
        ("/v1/jobs/batch", {"jobs": [{"payload": 1, "q": "a"}]}, 'unknown field "q"; known: payload, queue_name'),
        ("/v1/schedules", {"name": "a", "target": "b", "target_kind": "lambda"}, "queue, topic, stream or job"),
        ("/v1/queues", {"name": "a", "dedup_scope": "all"}, "dedup_scope must be group or queue"),
        ("/v1/tokens", {"scopes": ["write"]}, "scopes[0] must be read, send, receive, manage, admin or operator"),
    ],
)  # fmt: skip
async def test_an_error_lists_what_is_allowed(client: httpx.AsyncClient, path: str, body: object, message: str) -> None:
    answer = await client.post(path, json=body)

    assert answer.status_code == 400
    assert message in answer.json()["error"]


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        ("/v1/topics/nothing/messages", {"message": 1}, "Topic 'nothing' does not exist"),
        ("/v1/topics/nothing/subscriptions", {"queue_name": "a"}, "Topic 'nothing' does not exist"),
        ("/v1/queues/nothing/messages", {"message": 1}, "Queue 'nothing' does not exist"),
    ],
)
async def test_what_does_not_exist_is_named(client: httpx.AsyncClient, path: str, body: object, message: str) -> None:
    await client.post("/v1/queues", json={"name": "a"})

    answer = await client.post(path, json=body)

    assert (answer.status_code, answer.json()["error"]) == (404, message)


async def test_parameters_are_listed_too(client: httpx.AsyncClient) -> None:
    answer = await client.get("/v1/jobs?state=dead")
    choice = await client.get("/v1/jobs?status=gone")

    assert 'unknown field "state"; known: queue_name, status' in answer.json()["error"]
    assert "status must be pending, processing" in choice.json()["error"]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/queues"),
        ("POST", "/v1/queues/a/messages"),
        ("GET", "/v1/topics"),
        ("GET", "/v1/schedules"),
        ("GET", "/v1/tokens"),
        ("GET", "/v1/jobs"),
        ("GET", "/jobs"),
        ("GET", "/v1/job-queues"),
        ("GET", "/queues"),
    ],
)
async def test_missing_and_wrong_credentials_are_answered_401(method: str, path: str) -> None:
    async with running(Mode.TOKEN, simple=True) as live:
        async with live.client("pst_12345678_wrong") as stranger:
            wrong = await stranger.request(method, path)
        async with httpx.AsyncClient(base_url=live.url, trust_env=False) as nobody:
            missing = await nobody.request(method, path)

    assert [wrong.status_code, missing.status_code] == [401, 401]
    assert [wrong.headers["www-authenticate"], missing.headers["www-authenticate"]] == ["Bearer", "Bearer"]
    assert all("Unauthorized" in answer.text for answer in (wrong, missing))

"""Values at the ends of what a type can hold, and names that no store can hold, are refused at every door."""

from __future__ import annotations

from urllib.parse import quote

import httpx
import pytest

from tests.plain import PLAIN
from tests.wire.conftest import Live
from tests.wire.raw import connected, request

NUMBERS = ["9223372036854775808", "-9223372036854775809", "99999999999999999999", "9" * 400]
MOMENTS = ["0001-01-01T00:00:00Z", "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59Z", "9999-12-31T23:59:59-23:59"]
QUERIES = [
    "/v1/deliveries?before={}",
    "/v1/deliveries?subscription={}",
    "/v1/outbox?before={}",
    "/v1/events/a/subscriptions?after={}",
    "/v1/queues/q/subscriptions?after={}",
    "/jobs?offset={}",
]
PATHS = [
    "/v1/queues/q/messages/{}/archive",
    "/v1/deliveries/{}/retry",
    "/v1/queues/q/moves/{}",
    "/v1/streams/s/dead/{}/replay",
]
NAMES = [
    "/v1/queues/{}",
    "/v1/queues/{}/messages",
    "/v1/schedules/{}",
    "/v1/streams/{}",
    "/v1/events/{}/subscriptions",
    "/jobs/{}",
    "/queues/{}/limits",
    "/000000000000/{}?Action=GetQueueAttributes",
    "/v1/pipelines/{}",
]


@pytest.mark.parametrize("number", NUMBERS, ids=lambda text: text[:24])
@pytest.mark.parametrize("path", QUERIES)
async def test_a_number_beyond_64_bits_in_a_query(open_server: Live, path: str, number: str) -> None:
    async with open_server.client() as client:
        answer = await client.get(path.format(number))
    assert answer.status_code in (400, 404, 501), answer.text


@pytest.mark.parametrize("number", NUMBERS, ids=lambda text: text[:24])
@pytest.mark.parametrize("path", PATHS)
async def test_a_number_beyond_64_bits_in_a_path(open_server: Live, path: str, number: str) -> None:
    async with open_server.client() as client:
        for method in ("GET", "POST", "DELETE"):
            answer = await client.request(method, path.format(number))
            assert answer.status_code in (400, 404, 405, 501), answer.text


@pytest.mark.parametrize("moment", MOMENTS)
async def test_a_moment_at_the_end_of_the_calendar(open_server: Live, moment: str) -> None:
    asked = quote(moment)
    async with open_server.client() as client:
        answers = [
            await client.get(f"/v1/insights?since={asked}"),
            await client.get(f"/v1/insights?until={asked}"),
            await client.get(f"/v1/insights?after={asked},job,mail"),
            await client.get(f"/v1/insights/errors?since={asked}"),
            await client.post("/jobs", json={"payload": 1, "run_at": moment}),
            await client.post("/v1/schedules/preview", json={"when": "0 0 * * *", "from": moment}),
            await client.post("/v1/schedules/preview", json={"when": f"at {moment}"}),
            await client.post("/v1/streams/s/events", json={"type": "t", "data": 1, "at": moment}),
        ]
        assert (await client.get("/jobs")).status_code == 200
    assert {answer.status_code for answer in answers} <= {400, 404, 405, 501}, [answer.text for answer in answers]


@pytest.mark.parametrize("path", NAMES)
async def test_a_zero_character_in_a_path(open_server: Live, path: str) -> None:
    async with open_server.client() as client:
        for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
            answer = await client.request(method, path.format("a%00b"))
            assert answer.status_code in (400, 404, 405), (method, answer.text)


async def test_a_zero_character_in_a_query(open_server: Live) -> None:
    async with open_server.client() as client:
        for path in ("/v1/queues?prefix=%00", "/jobs?queue_name=a%00", "/v1/insights?name=%00", "/v1/schedules?x=%00"):
            assert (await client.get(path)).status_code == 400


async def test_options_of_the_whole_server(open_server: Live) -> None:
    async with connected(open_server.port) as raw:
        assert (await raw.ask(request("OPTIONS", "*"))).status < 500
        assert (await raw.ask(request("GET", "*"))).status == 400


async def test_a_parameter_with_a_number_of_thousands_of_digits(open_server: Live) -> None:
    async with httpx.AsyncClient(base_url=open_server.url, trust_env=False, verify=PLAIN) as client:
        for digits in (19, 400, 4301):
            form = {"Action": "GetQueueAttributes", "QueueUrl": "q", f"AttributeName.{'9' * digits}": "All"}
            answer = await client.post("/", data=form, headers={"authorization": "x"})
            assert answer.status_code == 400

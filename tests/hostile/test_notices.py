"""Links in what the server signs are its own, whatever Host header a caller sends."""

from __future__ import annotations

import json
import secrets

import httpx
import pytest

from penstock.auth import Mode
from tests.plain import PLAIN
from tests.wire.conftest import Live, running

ARN = "arn:aws:{}:us-east-1:000000000000:{}"


async def envelope(live: Live, host: str) -> dict[str, str]:
    name = f"noted-{secrets.token_hex(4)}"
    topic, queue = ARN.format("sns", name), ARN.format("sqs", name)
    head = {"authorization": "x", "host": host}
    async with httpx.AsyncClient(base_url=live.url, trust_env=False, verify=PLAIN) as http:
        for form in (
            {"Action": "CreateQueue", "QueueName": name},
            {"Action": "CreateTopic", "Name": name},
            {"Action": "Subscribe", "TopicArn": topic, "Protocol": "sqs", "Endpoint": queue},
            {"Action": "Publish", "TopicArn": topic, "Message": "m"},
        ):
            assert (await http.post("/", data=form, headers=head)).status_code == 200
        received = await http.get(f"/v1/queues/{name}/messages", headers=head)
    [message] = received.json()
    found: dict[str, str] = (
        message["message"] if isinstance(message["message"], dict) else json.loads(message["message"])
    )
    return found


async def test_a_notice_links_to_the_address_of_the_server(open_server: Live) -> None:
    found = await envelope(open_server, "evil")

    assert found["SigningCertURL"].startswith(open_server.url)
    assert found["UnsubscribeURL"].startswith(open_server.url)


@pytest.mark.parametrize("host", ["evil", "queues.localhost"])
async def test_a_notice_links_to_the_base_url_where_there_is_one(host: str) -> None:
    async with running(Mode.OPEN, base_url="http://queues.localhost:9324") as live:
        found = await envelope(live, host)

    assert found["SigningCertURL"].startswith("http://queues.localhost:9324/")

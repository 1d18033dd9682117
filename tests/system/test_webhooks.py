"""Webhooks of a real server, whose process is killed while endpoints fail, hang and answer."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.endpoint import Answer, Arrival, listening
from tests.system.serving import Running, serving

QUICK = {
    "PENSTOCK_HTTP_DELIVERY_PRIVATE": "true",
    "PENSTOCK_HTTP_DELIVERY_DELAYS": "0,1,1",
    "PENSTOCK_HTTP_DELIVERY_PAUSE_S": "1",
    "QUEUE_HTTP_DELIVERY_TIMEOUT_SECS": "1",
    "QUEUE_HTTP_DELIVERY_POLL_MS": "50",
}
EACH = 12
PATIENCE_S = 120


class Moody:
    """An endpoint that fails, hangs, closes early and answers, by path and by how often it was asked."""

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()

    def answer(self, arrival: Arrival) -> Answer:
        self.seen[f"{arrival.path} {arrival.headers['webhook-id']}"] += 1
        first = self.seen[f"{arrival.path} {arrival.headers['webhook-id']}"] == 1
        match arrival.path:
            case "/fails":
                return 500
            case "/hangs":
                return "hang" if first else 200
            case "/closes":
                return "close" if first else 200
            case "/stumbles":
                return 503 if first else 202
            case _:
                return 200


PATHS = ("/fails", "/hangs", "/closes", "/stumbles", "/answers")


def deliveries(client: httpx.Client) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.get("/v1/deliveries?limit=1000").json()
    return found


def publish(server: Running, url: str) -> set[str]:
    """The ids of the events that the server acknowledged."""
    with server.client() as client:
        for path in PATHS:
            answer = client.post("/v1/events/%23/subscriptions", json={"endpoint": f"{url}{path}"})
            assert answer.status_code in (200, 201)
        return {client.post(f"/v1/events/e.{n}", json={"message": n}).json()["message_id"] for n in range(EACH)}


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("store", ["embedded", "sqlite"])
def test_no_delivery_is_lost_when_the_server_is_killed(tmp_path: Path, store: str) -> None:
    moody = Moody()
    flags = ["--data", str(tmp_path / "data")] if store == "embedded" else ["--sqlite", str(tmp_path / "queues.db")]
    with listening(moody.answer) as endpoint:
        with serving(*flags, more=QUICK) as server:
            ids = publish(server, endpoint.url)
            endpoint.wait_for(EACH)
            server.kill()
        with serving(*flags, more=QUICK) as server, server.client() as client:
            ids |= publish(server, endpoint.url)
            give_up = time.monotonic() + PATIENCE_S
            while any(found["finished_at"] is None for found in deliveries(client)):
                assert time.monotonic() < give_up, Counter(
                    (found["endpoint"].rpartition("/")[2], found["state"]) for found in deliveries(client)
                )
                time.sleep(0.2)
            ended = deliveries(client)

    assert len(ids) == 2 * EACH
    assert {(found["message_id"], found["endpoint"].rpartition("/")[2]) for found in ended} == {
        (event, path[1:]) for event in ids for path in PATHS
    }
    for found in ended:
        path = "/" + found["endpoint"].rpartition("/")[2]
        # What is answered well in the end is delivered. An attempt may be cut short by the kill, and is then repeated.
        assert found["state"] == ("exhausted" if path == "/fails" else "delivered"), found
        assert moody.seen[f"{path} {found['message_id']}"] >= 1, found

"""An answer is bounded in bytes, not only in the number of its items."""

from __future__ import annotations

import secrets

import pytest

from penstock import limits
from penstock.model import DEFAULT_TENANT
from tests.wire.conftest import Live

LARGE = "x" * 1_000_000


@pytest.fixture(autouse=True)
def small_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "ANSWER_BYTES", 2_500_000)


@pytest.mark.parametrize("suffix", ["", ".fifo"])
async def test_a_peek_ends_early(open_server: Live, suffix: str) -> None:
    name = f"peeked-{secrets.token_hex(4)}{suffix}"
    await open_server.engine.queues.create(DEFAULT_TENANT, name, {})
    async with open_server.client() as client:
        for number in range(6):
            fifo = {"group_id": f"g{number % 2}", "dedup_id": str(number)} if suffix else {}
            sent = await client.post(f"/v1/queues/{name}/messages", json={"message": LARGE, **fifo})
            assert sent.status_code == 201, sent.text
        found = await client.get(f"/v1/queues/{name}/messages?peek=true&max=1000")
        assert len(found.json()) == 3
        found = await client.get(f"/v1/queues/{name}/messages?peek=true&max=2")
        assert len(found.json()) == 2


async def test_small_messages_are_all_shown_in_order(open_server: Live) -> None:
    name = f"peeked-{secrets.token_hex(4)}"
    await open_server.engine.queues.create(DEFAULT_TENANT, name, {})
    async with open_server.client() as client:
        await client.post(f"/v1/queues/{name}/messages", json=[{"message": number} for number in range(300)])
        found = await client.get(f"/v1/queues/{name}/messages?peek=true&max=1000")
    assert [message["message"] for message in found.json()] == list(range(300))


async def test_a_page_of_jobs_ends_early_and_goes_on_at_its_cursor(
    open_server: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.engine.jobs.jobs.LIST_STEP", 2)
    queue = f"large-{secrets.token_hex(4)}"
    async with open_server.client() as client:
        for _ in range(7):
            made = await client.post("/jobs", json={"payload": LARGE, "queue_name": queue})
            assert made.status_code == 201
        pages: list[int] = []
        seen: set[str] = set()
        cursor = ""
        while True:
            asked = {"queue_name": queue, "limit": "200"} | ({"cursor": cursor} if cursor else {})
            page = (await client.get("/jobs", params=asked)).json()
            pages.append(len(page["items"]))
            seen |= {job["id"] for job in page["items"]}
            cursor = page["next_cursor"] or ""
            if not cursor:
                break
    assert pages == [4, 3, 0]
    assert len(seen) == 7

"""Pictures of every page of the dashboard, in light and dark, wide and narrow: `make screenshots`.

A server on an embedded PostgreSQL is filled by `penstock demo` and given a past for its charts.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import re
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
from playwright.async_api import Browser, Page, async_playwright, expect

from penstock.store.postgres.embedded.server import EmbeddedPostgres
from tests.browser.chrome import LAUNCH
from tests.browser.history import write_history
from tests.plain import PLAIN
from tests.system.serving import ANYONE, penstock, serving

FOLDER = Path(__file__).parents[2] / "docs" / "img"
SIZES = {"wide": (1280, 800), "narrow": (390, 780)}
QUALITY = 60
DEMO_S = 25


def addresses(client: httpx.Client) -> Mapping[str, str]:
    """Name and address of every page. Ids are taken from the lists."""

    def first(page: str, pattern: str) -> str:
        found = re.search(pattern, client.get(page).text)
        assert found is not None, f"nothing on {page} looks like {pattern}"
        return found[1]

    message = first("/ui/queues/demo-failed", r"/ui/follow\?id=(message%3A[0-9]+)")
    return {
        "overview": "/?span=day",
        "queues": "/ui/queues",
        "queue": "/ui/queues/demo-orders?span=day",
        "fifo": "/ui/queues/demo-payments.fifo?span=day",
        "dead-letters": "/ui/queues/demo-failed?span=day&text=coffee",
        "redrive": "/ui/queues/demo-failed/redrive",
        "jobs": "/ui/jobs?span=day",
        "dead-jobs": "/ui/jobs?queue=demo-bills&status=dead&tag=newsletter",
        "job": first("/ui/jobs?queue=demo-emails&status=completed", r'"(/ui/jobs/[0-9a-f-]{36})"'),
        "topics": "/ui/topics",
        "topic": "/ui/topics/demo-announcements?body=%7B%22shop%22%3A+%22south%22%7D",
        "deliveries": "/ui/deliveries",
        "delivery": first("/ui/deliveries", r'"(/ui/deliveries/[0-9]+)"'),
        "streams": "/ui/streams",
        "stream": "/ui/streams/demo-audit?span=day",
        "schedules": "/ui/schedules?text=every+weekday+at+9am&shape=when",
        "schedule": "/ui/schedules/demo-stocktaking",
        "pipelines": "/ui/pipelines",
        "follow": f"/ui/follow?id={message}",
        "admin": "/ui/admin",
        "api": "/docs",
    }


def prepare(client: httpx.Client) -> None:
    """What a demo of half a minute does not make: dead and waiting jobs, groups of a FIFO queue, delays, tokens."""

    def post(path: str, body: object) -> Any:
        answer = client.post(path, json=body)
        assert answer.status_code < 300, f"{path}: {answer.text}"
        return answer.json() if answer.content else None

    for number in range(9):
        tags = ["newsletter", "nightly"] if number % 2 else ["receipt"]
        job = {"queue_name": "demo-bills", "payload": {"to": "ada", "order": 2700 + number}, "tags": tags}
        post("/v1/jobs", job | {"max_retries": 0})
    for leased in post("/v1/job-queues/demo-bills/lease", {"worker_id": "demo-worker-2", "max": 7}):
        failure = {"lease_token": leased["lease_token"], "error": "SMTP server answered 550: mailbox unavailable"}
        post(f"/v1/jobs/{leased['job']['id']}/nack", failure)
    later = datetime.now(UTC) + timedelta(hours=7)
    first = post("/v1/jobs", {"queue_name": "demo-bills", "payload": {"month": 11}, "tags": ["nightly"]})
    post("/v1/jobs", {"queue_name": "demo-bills", "payload": {"mail": 11}, "after": [first["job_id"]]})
    post("/v1/jobs", {"queue_name": "demo-bills", "payload": {"remind": 11}, "run_at": later.isoformat()})
    for hours in (1, 6, 11):
        entry = {"message": {"remind": f"order {2700 + hours}"}, "delay": hours * 3600, "priority": 100 + hours}
        post("/v1/queues/demo-orders/messages", entry)
    for number in range(8):
        entry = {"message": {"payment": 900 + number}, "group_id": f"customer-{number % 3}", "dedup_id": str(number)}
        post("/v1/queues/demo-payments.fifo/messages", entry)
    client.get("/v1/queues/demo-payments.fifo/messages", params={"max": 2, "vt": 600})
    post("/v1/topics/demo-announcements/subscriptions", {"queue_name": "demo-kitchen", "filter": {"shop": ["north"]}})
    post("/v1/topics/demo-announcements/subscriptions", {"queue_name": "demo-forgotten"})
    form = {"sec-fetch-site": "same-origin"}
    for name, scopes in (("billing", ["read", "send"]), ("warehouse", ["read", "receive"])):
        client.post("/ui/admin/tokens/create", data={"name": name, "scopes": scopes, "queues": "demo-*"}, headers=form)
    client.post("/ui/schedules/demo-stocktaking/run", headers=form)


async def settle(page: Page) -> None:
    """Until charts are drawn by uPlot."""
    await page.evaluate("document.fonts.ready")
    await expect(page.locator("figure[data-source] svg")).to_have_count(0, timeout=10_000)


async def shoot(browser: Browser, url: str, pages: Mapping[str, str], folder: Path, *, png: bool) -> None:
    for scheme in ("light", "dark"):
        for size, (width, height) in SIZES.items():
            context = await browser.new_context(
                viewport={"width": width, "height": height}, color_scheme="dark" if scheme == "dark" else "light"
            )
            page = await context.new_page()
            session = await context.new_cdp_session(page)
            for name, address in pages.items():
                await page.goto(url + address)
                await settle(page)
                file = folder / f"{name}-{scheme}-{size}"
                if png:
                    await page.screenshot(path=file.with_suffix(".png"), full_page=True)
                    continue
                taken = await session.send("Page.captureScreenshot", {"format": "webp", "quality": QUALITY})
                file.with_suffix(".webp").write_bytes(base64.b64decode(taken["data"]))
            await context.close()


async def run(folder: Path, only: list[str], *, png: bool) -> None:
    with tempfile.TemporaryDirectory(prefix="penstock-screenshots-") as scratch:
        postgres = EmbeddedPostgres(Path(scratch) / "postgres")
        await asyncio.to_thread(postgres.start)
        try:
            with serving("--database-url", postgres.dsn) as server:
                demo = ["demo", "--url", server.url, "--for", f"{DEMO_S}s", "--rate", "120", "--seed", "7"]
                done = await asyncio.to_thread(penstock, *demo, timeout=DEMO_S + 60)
                assert done.returncode == 0, done.stderr
                await write_history(postgres.dsn, datetime.now(UTC))
                with httpx.Client(
                    base_url=server.url, headers=ANYONE, verify=PLAIN, trust_env=False, timeout=30
                ) as client:
                    prepare(client)
                    found = addresses(client)
                chosen = {name: address for name, address in found.items() if not only or name in only}
                async with async_playwright() as driver:
                    browser = await driver.chromium.launch(**LAUNCH)
                    await shoot(browser, server.url, chosen, folder, png=png)
                    await browser.close()
        finally:
            await asyncio.to_thread(postgres.stop)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=FOLDER)
    parser.add_argument("--png", action="store_true", help="Whole pages as PNG, for a closer look.")
    parser.add_argument("--only", nargs="*", default=[], metavar="PAGE")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    asyncio.run(run(given.folder, given.only, png=given.png))
    pictures = [*given.folder.glob("*.png" if given.png else "*.webp")]
    print(f"{len(pictures)} pictures, {sum(picture.stat().st_size for picture in pictures) / 1e6:.2f} MB")


if __name__ == "__main__":
    main()

"""What the dashboard costs: first paint, JavaScript, a send until it shows, twenty open pages, a job found by a value.

python -m bench.dashboard                  # all but the search
python -m bench.dashboard --jobs 1000000   # the search too
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path
from time import perf_counter

import asyncpg
import httpx
from playwright.async_api import async_playwright

from penstock.clock import SystemClock
from penstock.engine import Engine
from penstock.model import DEFAULT_TENANT
from penstock.model.jobs import JobFilter
from penstock.store.postgres.embedded.server import EmbeddedPostgres
from penstock.store.postgres.store import PostgresStore
from penstock.web import assets
from tests.browser.chrome import LAUNCH
from tests.plain import PLAIN
from tests.system.serving import ANYONE, Running, penstock, serving

OPEN = 20
WATCH_S = 20.0
SENDS = 10
SEARCHES = 20
TICK = os.sysconf("SC_CLK_TCK")
FIRST_PAINT = """() => new Promise((resolve) => {
  const observer = new PerformanceObserver((list) => {
    const paint = list.getEntriesByName("first-contentful-paint")[0];
    if (paint) resolve(paint.startTime);
  });
  observer.observe({ type: "paint", buffered: true });
})"""
"""Milliseconds from the start of the navigation. The entry may come after the event `load`, so it is waited for."""


def javascript() -> None:
    scripts = [name for name, kind in assets.TYPES.items() if kind == "text/javascript"]
    size = sum(len(assets.content(name)) for name in scripts)
    print(f"JavaScript: {size / 1000:.0f} KB in {len(scripts)} files, not compressed")


def cpu_s(pids: list[int]) -> float:
    total = 0.0
    for pid in pids:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except FileNotFoundError:
            continue
        total += (int(fields[11]) + int(fields[12])) / TICK
    return total


def family(pid: int) -> list[int]:
    """A process and its children, PostgreSQL's sessions among them."""
    found = [pid]
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in task.read_text().split():
            found += family(int(child))
    return found


async def in_browser(url: str) -> None:
    async with async_playwright() as driver:
        browser = await driver.chromium.launch(**LAUNCH)
        paints = []
        for _ in range(5):
            context = await browser.new_context(bypass_csp=True)
            page = await context.new_page()
            await page.goto(url, wait_until="load")
            paints.append(await asyncio.wait_for(page.evaluate(FIRST_PAINT), 30))
            await context.close()
        print(
            f"first contentful paint, empty cache: median {statistics.median(paints):.0f} ms, worst {max(paints):.0f}"
        )
        page = await browser.new_page()
        delays = []
        async with httpx.AsyncClient(base_url=url, headers=ANYONE, verify=PLAIN, trust_env=False) as client:
            await client.post("/v1/queues", json={"name": "bench-live"})
            await page.goto(f"{url}/ui/queues/bench-live?peek=50")
            for number in range(SENDS):
                began = perf_counter()
                await client.post("/v1/queues/bench-live/messages", json={"message": f"mark-{number}"})
                await page.locator(f"#live >> text=mark-{number}").first.wait_for(timeout=10_000)
                delays.append(perf_counter() - began)
        print(f"a send shows after: median {statistics.median(delays):.2f} s, worst {max(delays):.2f} s")
        await browser.close()


async def open_pages(server: Running, postgres: int) -> None:
    async def watch(client: httpx.AsyncClient, stop: asyncio.Event) -> None:
        accept = {"accept": "text/event-stream"}
        async with client.stream("GET", "/?live=1", headers=accept) as answer:
            async for _ in answer.aiter_raw():
                if stop.is_set():
                    return

    async def used() -> tuple[float, float]:
        ours, theirs = cpu_s(family(server.process.pid)), cpu_s(family(postgres))
        await asyncio.sleep(WATCH_S)
        return (
            100 * (cpu_s(family(server.process.pid)) - ours) / WATCH_S,
            100 * (cpu_s(family(postgres)) - theirs) / WATCH_S,
        )

    idle = await used()
    stop = asyncio.Event()
    async with AsyncExitStack() as stack:
        client = httpx.AsyncClient(base_url=server.url, verify=PLAIN, trust_env=False, timeout=None)
        await stack.enter_async_context(client)
        watching = [asyncio.create_task(watch(client, stop)) for _ in range(OPEN)]
        await asyncio.sleep(2)
        busy = await used()
        for task in watching:
            task.cancel()
        await asyncio.gather(*watching, return_exceptions=True)
    print(
        f"{OPEN} open overviews: server {busy[0]:.1f} % of one core (idle {idle[0]:.1f} %), "
        f"PostgreSQL {busy[1]:.1f} % (idle {idle[1]:.1f} %)"
    )


async def search(dsn: str, jobs: int) -> None:
    store = PostgresStore(dsn)
    engine = Engine(store, SystemClock())
    await engine.open()
    try:
        connection = await asyncpg.connect(dsn)
        began = perf_counter()
        await connection.execute(
            "insert into penstock.job_queues (tenant_id, name, created_at) values (1, 'bench', now())"
        )
        queue = await connection.fetchval("select id from penstock.job_queues where name = 'bench'")
        await connection.execute(
            "insert into penstock.jobs (queue_id, id, tenant_id, place, due_at, run_at, created_at, updated_at,"
            " priority, max_retries, state, payload)"
            " select $1, nextval('penstock.job_numbers'), 1, n, now(), now(), now(), now(), 0, 3, 0,"
            " json_build_object('order', n, 'to', 'user' || n % 5000, 'total', n % 100)"
            " from generate_series(1, $2::integer) as n",
            queue, jobs, timeout=600,
        )  # fmt: skip
        print(f"{jobs} jobs inserted in {perf_counter() - began:.0f} s")
        began, blocks = perf_counter(), 0
        for _ in range(100_000):
            wrote = await engine.jobs.index_values()
            blocks += wrote
            if not wrote and blocks * 1000 >= jobs - 2000:
                break
        print(f"{blocks} blocks written in {perf_counter() - began:.0f} s")
        size = await connection.fetchval("select pg_total_relation_size('penstock.job_blocks')")
        print(f"they take {size / 1e6:.0f} MB")
        values = {
            "a value of one job": [str(jobs // 2 + number * 37) for number in range(SEARCHES)],
            "a value of many jobs": [f"user{number}" for number in range(SEARCHES)],
            "a value of every hundredth job": [str(number) for number in range(SEARCHES)],
            "a value of no job": [f"nobody{number}" for number in range(SEARCHES)],
        }
        for label, wanted in values.items():
            times, rows = [], []
            for value in wanted:
                began = perf_counter()
                found = await engine.jobs.find_jobs(DEFAULT_TENANT, JobFilter(value=value), limit=50)
                times.append(1000 * (perf_counter() - began))
                rows.append(len(found.jobs))
                assert bool(found.jobs) is not value.startswith("nobody")
            middle, worst, jobs_found = statistics.median(times), max(times), statistics.mean(rows)
            print(f"search for {label}: median {middle:.0f} ms, worst {worst:.0f} ms, {jobs_found:.0f} jobs")
        await connection.close()
    finally:
        await engine.close()


async def run(jobs: int, *, browser: bool) -> None:
    javascript()
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as scratch:
        postgres = EmbeddedPostgres(Path(scratch) / "postgres")
        await asyncio.to_thread(postgres.start)
        try:
            if browser:
                with serving("--database-url", postgres.dsn) as server:
                    demo = ["demo", "--url", server.url, "--for", "10s", "--rate", "50", "--seed", "7"]
                    await asyncio.to_thread(penstock, *demo, timeout=120)
                    await in_browser(server.url)
                    postmaster = next((postgres.cluster).glob("**/postmaster.pid"))
                    await open_pages(server, int(postmaster.read_text().split()[0]))
            if jobs:
                await search(postgres.dsn, jobs)
        finally:
            await asyncio.to_thread(postgres.stop)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=0, help="Jobs to search among; 0 leaves the search out.")
    parser.add_argument("--no-browser", action="store_true", help="Measure the search alone.")
    given = parser.parse_args()
    asyncio.run(run(given.jobs, browser=not given.no_browser))


if __name__ == "__main__":
    main()

"""Every page in a real Chromium, narrow and wide: accessible, within its policy, inert for hostile texts."""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncIterator
from datetime import timedelta
from uuid import uuid4

import pytest
import pytest_asyncio
from axe_playwright_python.async_playwright import Axe  # type: ignore[import-untyped]
from playwright.async_api import Browser, Page, Route, async_playwright, expect

from penstock.auth import Mode
from penstock.model import DEFAULT_TENANT, Receive, Scope, Send
from penstock.model.jobs import Failure, LeaseRequest, NewJob
from penstock.model.samples import OutcomeKind
from penstock.model.schedules import TargetKind
from penstock.model.streams import NewEvent
from penstock.model.topics import NewSubscription, Publish
from penstock.web import WebSettings
from penstock.web import app as pages
from tests.browser.chrome import LAUNCH
from tests.shared_store import shared_postgres
from tests.wire.conftest import Live, running
from tests.wire.web.markup import INERT

pytestmark = pytest.mark.skipif(shutil.which("chromium") is None, reason="chromium is not installed: make tools")

HOSTILE = "".join(INERT)
GROUP = "'\"><svg/onload=alert(1)>"
WIDTHS = (390, 1280)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    async with async_playwright() as driver:
        browser = await driver.chromium.launch(**LAUNCH)
        yield browser
        await browser.close()


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def live() -> AsyncIterator[Live]:
    """A server in memory."""
    async with running() as live:
        yield live


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def locked() -> AsyncIterator[Live]:
    """A server that asks for tokens."""
    async with running(Mode.TOKEN) as live:
        yield live


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def shop(request: pytest.FixtureRequest) -> AsyncIterator[tuple[Live, list[str]]]:
    """A server on PostgreSQL with one of everything, and the addresses of all pages."""
    async with running(store=shared_postgres(request)) as live:
        yield live, await fill(live)


@pytest.fixture
async def page(browser: Browser) -> AsyncIterator[Page]:
    context = await browser.new_context(viewport={"width": 1280, "height": 800})
    yield await context.new_page()
    await context.close()


async def fill(live: Live) -> list[str]:
    """One of everything, with hostile texts wherever there may be any; the addresses of all pages."""
    engine, tenant = live.engine, DEFAULT_TENANT
    # Tests share a database.
    x = f"x{uuid4().hex[:8]}"
    await engine.queues.create(tenant, f"{x}-dead", {})
    long = f"{x}-{'w' * 69}"
    await engine.queues.create(tenant, long, {})
    await engine.schedules.create(tenant, long[:64], {"every": "1h", "target": long, "target_kind": TargetKind.QUEUE})
    await engine.tenants.create_token(tenant, "warehouse", frozenset({Scope.READ, Scope.SEND}), queues=f"{x}-*")
    await engine.queues.create(tenant, f"{x}-orders", {"max_receives": 3, "dead_letter_queue": f"{x}-dead"})
    await engine.queues.create(tenant, f"{x}-pay.fifo", {"content_dedup": True})
    headers = json.dumps({HOSTILE[:60]: HOSTILE})
    sent = await engine.messages.send(
        Send(
            tenant=tenant,
            queue=f"{x}-orders",
            body=HOSTILE,
            headers=headers,
            trace=HOSTILE[:100],
            group_id=GROUP,
        )
    )
    await engine.messages.send(Send(tenant=tenant, queue=f"{x}-dead", body="dead"))
    for number in range(2):
        await engine.messages.send(Send(tenant=tenant, queue=f"{x}-pay.fifo", body=str(number), group_id=GROUP))
    payload = json.dumps({HOSTILE: HOSTILE, "n": 12345678901234567890})
    job = await engine.jobs.enqueue(
        NewJob(tenant=tenant, queue=f"{x}-jobs", payload=payload, max_retries=0, tags=[HOSTILE[:90]])
    )
    [leased] = await engine.jobs.lease(
        LeaseRequest(tenant=tenant, queue=f"{x}-jobs", lease_s=60, workers=[HOSTILE[:80]])
    )
    await engine.jobs.fail(Failure(tenant=tenant, id=leased.id, token=leased.token, error=HOSTILE))
    now = engine.clock.now()
    await engine.store.topics.create_topic(tenant, f"{x}-news", {}, {}, now)
    hook = NewSubscription(tenant=tenant, pattern=f"{x}.#", protocol="https", endpoint="https://example.com/'\"><b>")
    await engine.store.topics.subscribe(hook, now)
    await engine.topics.publish(Publish(tenant=tenant, routing_key=f"{x}.made", body=HOSTILE))
    delivery = (await engine.webhooks.list(tenant))[0]
    if engine.store.has_streams:
        await engine.streams.create(tenant, f"{x}-log", {})
        await engine.streams.subscribe(tenant, f"{x}-log", "reader")
        await engine.streams.send(tenant, f"{x}-log", [NewEvent(type=HOSTILE[:80], payload=json.dumps(HOSTILE))])
    schedule = {"every": "1h", "target": f"{x}-orders", "target_kind": TargetKind.QUEUE, "body": json.dumps(HOSTILE)}
    await engine.schedules.create(tenant, f"{x}-hourly", schedule | {"json": True})
    await engine.schedules.run(tenant, f"{x}-hourly")
    await engine.nodes.seen(HOSTILE[:60])
    await engine.audit.note(tenant, HOSTILE, HOSTILE, HOSTILE)
    streams = [f"/ui/streams/{x}-log"] if engine.store.has_streams else []
    queues, jobs = (f"/ui/queues/{x}-orders", f"/ui/queues/{x}-dead", f"/ui/queues/{x}-pay.fifo"), f"queue={x}-jobs"
    return [
        f"/ui/queues/{long}", f"/ui/schedules/{long[:64]}",
        "/", "/ui/queues", *queues, f"/ui/queues/{x}-dead/redrive", "/ui/jobs", f"/ui/jobs?{jobs}&status=dead",
        f"/ui/jobs/{job.id}", "/ui/jobs?tag=%3Cb%3E&value=x",
        f"/ui/queues/{x}-dead?text=%3Cb%3E", "/ui/topics", f"/ui/topics/{x}-news", "/ui/deliveries",
        f"/ui/deliveries/{delivery.id}",
        "/ui/streams", *streams, "/ui/schedules?text=every+day&shape=when", f"/ui/schedules/{x}-hourly",
        "/ui/pipelines", f"/ui/follow?id=message%3A{sent.id}", f"/ui/follow?id={job.id}",
        "/ui/admin", "/docs", "/ui/queues/none",
    ]  # fmt: skip


def heard(page: Page) -> list[str]:
    """What the browser reports from now on: dialogs, errors of scripts, and what the policy blocked."""
    found: list[str] = []
    page.on("pageerror", lambda error: found.append(str(error)))
    page.on("console", lambda message: found.append(message.text) if message.type == "error" else None)

    async def dismiss(dialog: object) -> None:
        found.append("dialog")
        await dialog.dismiss()  # type: ignore[attr-defined]

    page.on("dialog", dismiss)
    return found


async def serious(page: Page) -> list[str]:
    """Findings of axe that are serious or critical."""
    found = await Axe().run(page)
    return [
        f"{one['id']}: {[node['html'][:120] for node in one['nodes']][:3]}"
        for one in found.response["violations"]
        if one["impact"] in ("serious", "critical")
    ]


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_every_page_is_accessible_fits_and_runs_nothing(browser: Browser, shop: tuple[Live, list[str]]) -> None:
    live, addresses = shop
    problems: dict[str, object] = {}
    for width in WIDTHS:
        scheme = "dark" if width == WIDTHS[0] else "light"
        context = await browser.new_context(
            viewport={"width": width, "height": 800},
            color_scheme=scheme,  # type: ignore[arg-type]
            # axe is a script of the test, which the policy of the pages would refuse.
            bypass_csp=True,
        )
        page = await context.new_page()
        complaints = heard(page)
        for address in addresses:
            await page.goto(live.url + address, wait_until="load")
            await page.evaluate("document.querySelectorAll('details.act, details.message').forEach(d => d.open = true)")
            if findings := await serious(page):
                problems[f"{width} {address} axe"] = findings
            overflow = await page.evaluate("document.documentElement.scrollWidth - innerWidth")
            if overflow > 0:
                problems[f"{width} {address} overflows"] = overflow
            if await page.evaluate("document.querySelectorAll('main b, main img, main iframe').length"):
                problems[f"{width} {address}"] = "has elements of a hostile text"
        if complaints := [text for text in complaints if "404" not in text]:
            problems[f"{width} complaints"] = complaints
        await context.close()

    assert problems == {}, json.dumps(problems, indent=1)


@pytest.mark.slow
async def test_the_policy_blocks_nothing_of_our_own(page: Page, shop: tuple[Live, list[str]]) -> None:
    live, addresses = shop
    complaints = heard(page)
    for address in addresses[:-1]:
        await page.goto(live.url + address, wait_until="load")

    assert complaints == []


@pytest.mark.slow
async def test_every_page_works_without_scripts(browser: Browser, shop: tuple[Live, list[str]]) -> None:
    live, addresses = shop
    context = await browser.new_context(java_script_enabled=False)
    page = await context.new_page()
    for address in addresses[:-1]:
        answer = await page.goto(live.url + address, wait_until="load")
        assert answer is not None
        assert answer.status == 200, address
        assert await page.locator("main h1").count() == 1, address
    name = f"plain-{uuid4().hex[:8]}"
    await live.engine.queues.create(DEFAULT_TENANT, name, {})
    await page.goto(f"{live.url}/ui/queues")
    await page.fill("[name=search]", name)
    await page.click("form[role=search] button")
    await page.click(f"a[href='/ui/queues/{name}']")
    await page.locator("summary", has_text="Send a message").click()
    await page.fill("[name=body]", '{"n": 12345678901234567890}')
    await page.check("[name=json]")
    await page.click("button.primary:has-text('Send')")
    await expect(page.locator(".banner.good")).to_contain_text("The message was sent")
    await page.locator("details.message summary").click()
    await expect(page.locator(".payload pre").first).to_contain_text("12345678901234567890")
    await context.close()


async def test_the_keyboard_finds_searches_and_pages(page: Page, live: Live) -> None:
    await page.goto(f"{live.url}/ui/queues")
    await page.keyboard.press("/")
    await expect(page.locator("[data-search]")).to_be_focused()
    await page.keyboard.press("Escape")
    await page.locator("h1").click()
    await page.keyboard.press("?")
    await expect(page.locator("dialog#keys")).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(page.locator("dialog#keys")).to_be_hidden()
    await page.locator("h1").click()
    await page.keyboard.press("g")
    await page.keyboard.press("f")
    await expect(page.locator("h1")).to_have_text("Follow")
    await page.goto(f"{live.url}/ui/topics")
    await page.keyboard.press("/")
    await expect(page.locator("#search")).to_be_focused()


async def test_a_person_logs_in_sends_purges_and_logs_out(page: Page, locked: Live) -> None:
    scopes = frozenset({Scope.READ, Scope.SEND, Scope.RECEIVE, Scope.MANAGE})
    text = (await locked.engine.tenants.create_token(DEFAULT_TENANT, "ada", scopes))[1]
    await locked.engine.queues.create(DEFAULT_TENANT, "orders", {})
    await page.goto(f"{locked.url}/ui/queues/orders")
    await expect(page.locator("h1")).to_have_text("A token is needed")
    await page.fill("[name=token]", text)
    await page.click("button:has-text('Log in')")
    assert await page.evaluate("document.cookie") == ""
    await expect(page.locator("h1")).to_contain_text("orders")
    await page.locator("summary", has_text="Send a message").click()
    await page.fill("[name=body]", "hello")
    await page.click("button.primary:has-text('Send')")
    await expect(page.locator(".banner.good")).to_contain_text("The message was sent")
    await page.locator("summary", has_text="Purge or delete").click()
    await page.fill("details.danger [name=confirm]", "wrong")
    await page.click("button:has-text('Delete all messages')")
    await expect(page.locator("[role=alert]")).to_contain_text("type the name orders")
    await page.fill("details.danger [name=confirm]", "orders")
    await page.click("button:has-text('Delete all messages')")
    await expect(page.locator(".banner.good")).to_contain_text("1 message was deleted")
    await page.click("button:has-text('Log out')")
    await expect(page.locator("h1")).to_have_text("A token is needed")


@pytest.mark.slow
async def test_an_open_page_shows_a_send_and_keeps_what_is_open(page: Page, live: Live) -> None:
    complaints = heard(page)
    await live.engine.queues.create(DEFAULT_TENANT, "open", {})
    await live.engine.messages.send(Send(tenant=DEFAULT_TENANT, queue="open", body="first"))
    await page.goto(f"{live.url}/ui/queues/open")
    await page.locator("details.message summary").click()
    for text in ("second", "third"):
        await live.engine.messages.send(Send(tenant=DEFAULT_TENANT, queue="open", body=text))
        await expect(page.locator("#live")).to_contain_text(text)

    assert await page.evaluate("document.querySelector('details.message').open")
    assert complaints == []


async def test_a_page_is_live_however_late_its_scripts_come(page: Page, live: Live) -> None:
    async def late(route: Route) -> None:
        await page.wait_for_timeout(300)
        await route.continue_()

    await page.route("**/vendor/htmx-sse.js*", late)
    await live.engine.queues.create(DEFAULT_TENANT, "late", {})
    await page.goto(f"{live.url}/ui/queues/late")
    await live.engine.messages.send(Send(tenant=DEFAULT_TENANT, queue="late", body="shows up"))

    await expect(page.locator("#live")).to_contain_text("shows up")


@pytest.mark.slow
async def test_a_person_sends_matching_dead_letters_back(page: Page, live: Live) -> None:
    engine = live.engine
    await engine.queues.create(DEFAULT_TENANT, "gone", {})
    await engine.queues.create(DEFAULT_TENANT, "work", {"max_receives": 1, "dead_letter_queue": "gone"})
    for body in ("order 1", "order 2", "other"):
        await engine.messages.send(Send(tenant=DEFAULT_TENANT, queue="work", body=body))
    for _ in range(2):
        await engine.messages.receive(Receive(tenant=DEFAULT_TENANT, queue="work", limit=10, visibility_timeout_s=0))
    await page.goto(f"{live.url}/ui/queues/gone")
    await page.locator("summary", has_text="by a filter").click()
    await page.fill("[name=text]", "order")
    await page.click("button:has-text('Count')")
    await page.click("button:has-text('Send 2 back')")
    await expect(page.locator(".banner.good")).to_contain_text("2 messages were sent back")
    await page.locator(".pick input").check()
    await page.click("button:has-text('Send the selected back')")
    await expect(page.locator(".banner.good")).to_contain_text("1 message was sent back")


@pytest.mark.slow
async def test_a_read_only_dashboard_has_no_forms_that_change(browser: Browser) -> None:
    settings = WebSettings(read_only=True, payloads=False)
    async with running() as plain:
        app = pages(plain.engine, plain.authenticator, dict, settings)
        async with running(app=app, store=plain.engine.store) as guarded:
            await plain.engine.queues.create(DEFAULT_TENANT, "orders", {})
            await plain.engine.messages.send(Send(tenant=DEFAULT_TENANT, queue="orders", body="hidden-text"))
            context = await browser.new_context()
            page = await context.new_page()
            await page.goto(f"{guarded.url}/ui/queues/orders")
            await expect(page.locator("header .tag")).to_have_text("read-only")
            assert "hidden-text" not in await page.content()
            assert await page.locator("main form[method=post] button:enabled").count() == 0
            await context.close()


@pytest.mark.slow
async def test_a_person_works_with_queues_jobs_and_schedules(page: Page, live: Live) -> None:
    engine = live.engine
    await page.goto(f"{live.url}/ui/queues")
    await page.locator("summary", has_text="Create a queue").click()
    await page.fill("[name=name]", "orders")
    await page.click("button:has-text('Create')")
    await expect(page.locator("h1")).to_contain_text("orders")
    await page.locator("summary", has_text="Send a message").click()
    await page.fill("[name=body]", "hello")
    await page.click("button.primary:has-text('Send')")
    await expect(page.locator(".banner.good")).to_contain_text("The message was sent")
    # A send of someone else shows without a reload.
    await engine.messages.send(Send(tenant=DEFAULT_TENANT, queue="orders", body="from elsewhere"))
    await expect(page.locator("#live")).to_contain_text("from elsewhere")
    await page.locator("summary", has_text="from elsewhere").click()
    await page.locator("details[open] >> text=Follow this message").click()
    await expect(page.locator(".timeline").first).to_contain_text("sent")

    job = await engine.jobs.enqueue(NewJob(tenant=DEFAULT_TENANT, queue="mail", payload='{"to":"ada"}'))
    await page.goto(f"{live.url}/ui/jobs")
    await page.fill("[name=value]", "ada")
    await page.fill("[name=queue]", "mail")
    await page.select_option("[name=status]", "pending")
    await page.click("form[role=search] button")
    await expect(page.locator(f"a[href='/ui/jobs/{job.id}']")).to_be_visible()
    await page.click("button:has-text('Cancel 1')")
    await expect(page.locator(".banner.good")).to_contain_text("1 matching job was cancelled")

    await page.goto(f"{live.url}/ui/schedules")
    await page.locator("summary", has_text="Create a schedule").click()
    await page.locator("[name=text]").press_sequentially("every weekday at 9am", delay=5)
    await expect(page.locator("#preview")).to_contain_text("Monday through Friday")
    await page.fill("details [name=name]", "morning")
    await page.fill("[name=target]", "orders")
    await page.click("button:has-text('Create')")
    await expect(page.locator("h1")).to_contain_text("morning")
    await page.click("button:has-text('Run now')")
    await expect(page.locator(".banner.good")).to_contain_text("fired once")
    await page.click("button:has-text('Pause')")
    await expect(page.locator("#live")).to_contain_text("paused")


@pytest.mark.slow
async def test_charts_are_in_utc_wherever_the_browser_is(browser: Browser, live: Live) -> None:
    live.engine.outcomes.count(DEFAULT_TENANT, OutcomeKind.DELIVERY, good=3, bad=1)
    await live.engine.outcomes.write()
    context = await browser.new_context(timezone_id="Asia/Kathmandu")
    page = await context.new_page()
    await page.goto(live.url)
    chart = page.locator("figure", has_text="Webhook success")
    await chart.locator(".u-over").hover(position={"x": 5, "y": 20})
    now = live.engine.clock.now()

    shown = await chart.locator("output").inner_text()

    # The chart begins an hour ago.
    assert shown.partition(" UTC")[0] in {f"{now - timedelta(minutes=back):%a %H:%M}" for back in range(50, 70)}
    await context.close()


@pytest.mark.slow
async def test_a_refused_form_leads_to_the_field_that_was_wrong(page: Page, live: Live) -> None:
    await live.engine.queues.create(DEFAULT_TENANT, "strict", {})
    await page.goto(f"{live.url}/ui/queues/strict")
    await page.locator("summary", has_text="Settings").click()
    await page.fill("[name=retention_s]", "1")
    await page.click("button:has-text('Save')")

    await expect(page.locator("[name=retention_s]")).to_be_focused()
    await expect(page.locator("label", has_text="Retention").locator(".wrong")).to_be_visible()


@pytest.mark.slow
async def test_a_token_is_shown_once(page: Page, locked: Live) -> None:
    text = (await locked.engine.tenants.create_token(DEFAULT_TENANT, "root", frozenset({Scope.ADMIN})))[1]
    await page.goto(f"{locked.url}/ui/admin")
    await page.fill("[name=token]", text)
    await page.click("button:has-text('Log in')")
    await page.locator("summary", has_text="Create a token").click()
    await page.fill("[name=name]", "billing")
    await page.click("button:has-text('Create')")
    await expect(page.locator("#new-token")).to_contain_text("billing")
    shown = await page.locator("section .command code").inner_text()
    assert shown.startswith("pst_")
    assert shown not in page.url
    await page.goto(f"{locked.url}/ui/admin")
    assert shown not in await page.content()

"""The pages of queues, over HTTP."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import httpx
import pytest

from penstock.auth import EVERYONE
from penstock.clock import FakeClock
from penstock.model import DEFAULT_TENANT, Receive, Send
from penstock.model.gauges import ConsumerGauges, EndpointGauges, PipelineGauges, StreamGauges
from penstock.web import WebSettings
from penstock.web import app as pages
from penstock.web.pages.attention import (
    Problem,
    consumer_problems,
    dead_event_problems,
    endpoint_problems,
    ordered,
    pipeline_problems,
    queue_problems,
)
from penstock.web.pages.queue_rows import make_rows
from tests.wire.conftest import Live, running
from tests.wire.web.markup import INERT, dangers


async def send(live: Live, queue: str, *bodies: str, json: bool = False) -> None:
    for body in bodies:
        await live.engine.messages.send(Send(tenant=DEFAULT_TENANT, queue=queue, body=body, json=json))


async def test_queues_are_searched_and_sorted_by_the_address(server: Live, client: httpx.AsyncClient) -> None:
    for name, count in (("orders", 1), ("mail", 3), ("orders-dead", 2)):
        await server.engine.queues.create(DEFAULT_TENANT, name, {})
        await send(server, name, *["x"] * count)

    async def names(query: str) -> list[str]:
        return re.findall(r'href="/ui/queues/([^"/?]+)">', (await client.get(f"/ui/queues?{query}")).text)

    assert await names("") == ["mail", "orders", "orders-dead"]
    assert await names("sort=visible") == ["mail", "orders-dead", "orders"]
    assert await names("search=ORD") == ["orders", "orders-dead"]
    assert await names("search=nothing") == []
    assert (await client.get("/ui/queues?sort=colour")).status_code == 400


async def test_a_long_list_comes_in_pages(server: Live, client: httpx.AsyncClient) -> None:
    for number in range(120):
        await server.engine.queues.create(DEFAULT_TENANT, f"queue-{number:03}", {})

    first = (await client.get("/ui/queues")).text
    [following] = re.findall(r'href="([^"]*)">Next', first)
    second = (await client.get(following)).text

    assert ("queue-099" in first, "queue-100" in first) == (True, False)
    assert ("queue-099" in second, "queue-119" in second) == (False, True)


async def test_a_queue_is_created_filled_changed_and_deleted_by_forms(server: Live, client: httpx.AsyncClient) -> None:
    made = await client.post("/ui/queues/new/create", data={"name": "orders"})
    await client.post("/ui/queues/new/create", data={"name": "dead"})
    sent = await client.post("/ui/queues/orders/send", data={"body": '{"a":1}', "json": "yes", "priority": "7"})
    page = (await client.get("/ui/queues/orders")).text
    form = dict(re.findall(r'<input name="([a-z_]+)" inputmode="numeric" value="([^"]*)" required', page))
    form |= {"visibility_timeout_s": "77", "max_receives": "3", "dead_letter_queue": "dead", "archive": "yes"}
    saved = await client.post("/ui/queues/orders/settings", data=form)
    queue = await server.engine.queues.get(DEFAULT_TENANT, "orders")
    dropped = await client.post("/ui/queues/orders/drop", data={"confirm": "orders"})

    assert [answer.status_code for answer in (made, sent, saved, dropped)] == [303] * 4
    assert made.headers["location"] == "/ui/queues/orders"
    assert "priority 7" in page
    assert queue.settings.visibility_timeout_s == 77
    assert (queue.settings.max_receives, queue.settings.dead_letter_queue, queue.settings.archive) == (3, "dead", True)
    assert [item.queue for _, item in await server.engine.queues.all_counts(DEFAULT_TENANT)] == ["dead"]
    acts = [act.act for act in await server.engine.audit.list(DEFAULT_TENANT)]
    assert acts == ["queue deleted", "queue changed", "queue created", "queue created"]


async def test_a_refused_form_keeps_what_was_entered(server: Live, client: httpx.AsyncClient) -> None:
    await server.engine.queues.create(DEFAULT_TENANT, "orders", {})

    broken = await client.post("/ui/queues/orders/send", data={"body": "{half", "json": "yes"})
    late = await client.post("/ui/queues/orders/send", data={"body": "whole", "delay": "99999999"})
    odd = await client.post("/ui/queues/orders/send", data={"body": "whole", "delay": "soon"})
    settings = await client.post("/ui/queues/orders/settings", data={"retention_s": "1"})

    assert [answer.status_code for answer in (broken, late, odd, settings)] == [400] * 4
    assert "{half</textarea>" in broken.text
    assert "not valid JSON" in broken.text
    assert "whole</textarea>" in late.text
    assert 'role="alert"' in settings.text
    assert (await server.engine.queues.counts(DEFAULT_TENANT, "orders")).sent == 0


@pytest.mark.parametrize("action", ["purge", "drop"])
async def test_destruction_needs_the_name_typed(server: Live, client: httpx.AsyncClient, action: str) -> None:
    await server.engine.queues.create(DEFAULT_TENANT, "orders", {})
    await send(server, "orders", "kept")

    for typed in ("", "order", "ORDERS"):
        answer = await client.post(f"/ui/queues/orders/{action}", data={"confirm": typed})
        assert (answer.status_code, "type the name orders" in answer.text) == (400, True)

    assert (await server.engine.queues.counts(DEFAULT_TENANT, "orders")).visible == 1


async def test_purging_says_how_much_was_deleted(server: Live, client: httpx.AsyncClient) -> None:
    await server.engine.queues.create(DEFAULT_TENANT, "orders", {})
    await send(server, "orders", "a", "b", "c")

    answer = await client.post("/ui/queues/orders/purge", data={"confirm": "orders"}, follow_redirects=True)

    assert "3 messages were deleted" in answer.text
    assert "No message is visible" in answer.text


async def test_peeking_does_not_receive(server: Live, client: httpx.AsyncClient) -> None:
    await server.engine.queues.create(DEFAULT_TENANT, "orders", {})
    await send(server, "orders", '{"n":12345678901234567890,"x":1.10}', json=True)

    text = (await client.get("/ui/queues/orders")).text
    [message] = await server.engine.messages.receive(Receive(tenant=DEFAULT_TENANT, queue="orders"))

    assert "12345678901234567890" in text
    assert "1.10" in text
    assert message.receives == 1


async def test_one_message_is_deleted(server: Live, client: httpx.AsyncClient) -> None:
    await server.engine.queues.create(DEFAULT_TENANT, "orders", {})
    await send(server, "orders", "first", "second")
    [message, _] = await server.engine.messages.peek(DEFAULT_TENANT, "orders", 2)

    done = await client.post("/ui/queues/orders/message/delete", data={"id": str(message.id)})
    again = await client.post("/ui/queues/orders/message/delete", data={"id": str(message.id)})

    assert (done.status_code, again.status_code) == (303, 404)
    assert [left.body for left in await server.engine.messages.peek(DEFAULT_TENANT, "orders", 9)] == ["second"]


async def test_dead_letters_go_back_after_a_preview(server: Live, client: httpx.AsyncClient) -> None:
    engine = server.engine
    await engine.queues.create(DEFAULT_TENANT, "dead", {})
    await engine.queues.create(DEFAULT_TENANT, "orders", {"dead_letter_queue": "dead", "max_receives": 1})
    await send(server, "orders", "failing")
    take = Receive(tenant=DEFAULT_TENANT, queue="orders", visibility_timeout_s=0)
    assert [len(await engine.messages.receive(take)) for _ in range(2)] == [1, 0]

    page = (await client.get("/ui/queues/dead")).text
    preview = (await client.get("/ui/queues/dead/redrive")).text
    started = await client.post("/ui/queues/dead/redrive/start", data={}, follow_redirects=True)
    await engine.queues.run_moves()
    after = (await client.get("/ui/queues/dead")).text

    assert "Send 1 back" in page
    assert "dead letter of" in page
    assert "Move 1 message" in preview
    assert "back to the source" in preview
    assert "The redrive has started" in started.text
    assert "1 of 1" in after
    assert (await engine.queues.counts(DEFAULT_TENANT, "orders")).visible == 1


async def test_names_bodies_and_errors_are_shown_as_text(server: Live, client: httpx.AsyncClient) -> None:
    engine = server.engine
    await engine.queues.create(DEFAULT_TENANT, "orders", {"tags": {text: text for text in INERT}})
    await send(server, "orders", *INERT)
    for text in INERT:
        entry = Send(tenant=DEFAULT_TENANT, queue="orders", body="x", headers=f'{{"h":{text!r}}}', trace=text)
        await engine.messages.send(entry)

    shown = [
        await client.get("/ui/queues/orders?peek=50"),
        *[await client.get("/ui/queues", params={"search": text}) for text in INERT],
        *[await client.get("/ui/queues", params={"sort": text}) for text in INERT],
        *[await client.get("/ui/queues/orders", params={"done": text, "count": text}) for text in INERT],
        *[await client.post("/ui/queues/new/create", data={"name": text}) for text in INERT],
        *[await client.post("/ui/queues/orders/send", data={"body": text, "delay": text}) for text in INERT],
    ]

    assert [danger for answer in shown for danger in dangers(answer.text)] == []
    assert dangers("<script>x</script><img src=x onerror=y><a href='javascript:z'>") != []
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in shown[0].text


@pytest.fixture
async def guarded() -> AsyncIterator[Live]:
    """A server whose dashboard shows no contents and changes nothing."""
    async with running() as first:
        app = pages(first.engine, first.authenticator, dict, WebSettings(read_only=True, payloads=False))
        async with running(app=app) as second:
            second.engine = first.engine
            yield second


async def test_a_read_only_dashboard_changes_nothing_and_hides_contents(guarded: Live) -> None:
    await guarded.engine.queues.create(DEFAULT_TENANT, "orders", {})
    await send(guarded, "orders", "secret")
    async with guarded.client() as client:
        page = (await client.get("/ui/queues/orders")).text
        refused = await client.post("/ui/queues/orders/purge", data={"confirm": "orders"})
        made = await client.post("/ui/queues/new/create", data={"name": "other"})

    assert "secret" not in page
    assert "read-only" in page
    assert not re.search(r"<form method=\"post\" action=\"/ui/queues/[^\"]*/(send|purge|drop)", page)
    assert (refused.status_code, made.status_code) == (403, 403)
    assert "read-only" in refused.text
    assert (await guarded.engine.queues.counts(DEFAULT_TENANT, "orders")).visible == 1


async def test_attention_goes_to_what_is_lost_first(server: Live) -> None:
    engine = server.engine
    clock = FakeClock(engine.clock.now())
    await engine.queues.create(DEFAULT_TENANT, "dead", {})
    await engine.queues.create(DEFAULT_TENANT, "full", {"max_length": 2})
    await engine.queues.create(DEFAULT_TENANT, "waiting", {})
    await engine.queues.create(DEFAULT_TENANT, "expiring", {"retention_s": 60})
    await engine.queues.create(DEFAULT_TENANT, "fine", {"dead_letter_queue": "dead", "max_receives": 1})
    for name in ("dead", "full", "full", "waiting", "expiring"):
        await send(server, name, "x")

    async def problems() -> dict[str, str]:
        counts = [item for _, item in await engine.queues.all_counts(DEFAULT_TENANT)]
        rows = make_rows(counts, await engine.queues.list(DEFAULT_TENANT), EVERYONE, clock.now())
        return {problem.subject: problem.level for problem in queue_problems(rows)}

    assert await problems() == {"dead": "warning", "full": "critical"}
    clock.advance(seconds=700)
    assert await problems() == {"dead": "warning", "full": "critical", "waiting": "warning", "expiring": "critical"}


async def test_selected_dead_letters_go_back(server: Live, client: httpx.AsyncClient) -> None:
    engine = server.engine
    await engine.queues.create(DEFAULT_TENANT, "gone", {})
    await engine.queues.create(DEFAULT_TENANT, "work", {"max_receives": 1, "dead_letter_queue": "gone"})
    ids = [(await engine.messages.send(Send(tenant=DEFAULT_TENANT, queue="work", body=str(n)))).id for n in range(3)]
    for _ in range(2):
        await engine.messages.receive(Receive(tenant=DEFAULT_TENANT, queue="work", limit=10, visibility_timeout_s=0))

    page = (await client.get("/ui/queues/gone")).text
    form = {"ids": [str(ids[0]), str(ids[2]), "999999"]}
    answer = await client.post("/ui/queues/gone/message/return", data=form, headers={"sec-fetch-site": "same-origin"})

    assert all(f'name="ids" value="{number}"' in page for number in ids)
    assert answer.headers["location"] == "/ui/queues/gone?done=returned&count=2&skipped=1"
    assert "2 messages were sent back, 1 was not visible" in (await client.get(answer.headers["location"])).text
    assert (await engine.queues.counts(DEFAULT_TENANT, "gone")).total == 1
    wrong = await client.post(
        "/ui/queues/gone/message/return", data={"ids": "x"}, headers={"sec-fetch-site": "same-origin"}
    )
    assert wrong.status_code == 400


async def test_the_groups_of_a_fifo_queue_show_what_they_wait_for(server: Live, client: httpx.AsyncClient) -> None:
    engine = server.engine
    await engine.queues.create(DEFAULT_TENANT, "pay.fifo", {"content_dedup": True})
    for number, group in enumerate(("ada", "ada", "grace")):
        await engine.messages.send(Send(tenant=DEFAULT_TENANT, queue="pay.fifo", body=str(number), group_id=group))
    await engine.messages.receive(Receive(tenant=DEFAULT_TENANT, queue="pay.fifo", limit=1))

    groups = await engine.follow.groups(DEFAULT_TENANT, "pay.fifo")
    text = (await client.get("/ui/queues/pay.fifo")).text

    assert [(one.group_id, one.messages, one.state.value) for one in groups] == [
        ("ada", 2, "in flight"),
        ("grace", 1, "ready"),
    ]
    assert "in flight until" in text


async def test_matching_dead_letters_go_back_after_a_count(server: Live, client: httpx.AsyncClient) -> None:
    engine = server.engine
    await engine.queues.create(DEFAULT_TENANT, "gone", {})
    for name in ("work", "mail"):
        await engine.queues.create(DEFAULT_TENANT, name, {"max_receives": 1, "dead_letter_queue": "gone"})
        await send(server, name, *(f"order {n} <b>" for n in range(12)), "other")
        for _ in range(2):
            await engine.messages.receive(Receive(tenant=DEFAULT_TENANT, queue=name, limit=20, visibility_timeout_s=0))

    async def counted(query: str) -> str:
        page = (await client.get(f"/ui/queues/gone?{query}")).text
        found = re.search(r"<strong>([^<]*)</strong> messages? match", page)
        assert dangers(page) == []
        return found[1] if found else "none"

    assert await counted("text=order") == "24"
    assert await counted("text=order&source=work") == "12"
    assert await counted("source=mail") == "13"
    assert await counted("text=%3Cb%3E") == "24"
    assert await counted("text=nothing") == "none"
    form, headers = {"text": "order", "source": "work"}, {"sec-fetch-site": "same-origin"}
    answer = await client.post("/ui/queues/gone/message/return-matching", data=form, headers=headers)
    assert answer.headers["location"] == "/ui/queues/gone?done=returned&count=12&skipped=0"
    assert (await engine.queues.counts(DEFAULT_TENANT, "work")).total == 12
    assert await counted("text=order") == "12"
    refused = await client.post("/ui/queues/gone/message/return-matching", data={}, headers=headers)
    assert refused.status_code == 400


def test_stuck_consumers_failing_endpoints_and_what_is_paused_need_attention() -> None:
    def consumer(pending: int, lag_s: float) -> ConsumerGauges:
        return ConsumerGauges(tenant=DEFAULT_TENANT, stream="log", consumer="reader", pending=pending, lag_s=lag_s)

    assert [one.level for one in consumer_problems([consumer(5, 601), consumer(0, 900), consumer(5, 20)])] == [
        "warning"
    ]
    failing = EndpointGauges(tenant=DEFAULT_TENANT, endpoint="https://example.com/", failing=1234)
    [problem] = endpoint_problems([failing])
    assert "1\N{NARROW NO-BREAK SPACE}234 deliveries to https://example.com/ keep" in problem.text
    [single] = endpoint_problems([replace(failing, failing=1)])
    assert "1 delivery to https://example.com/ keeps failing" in single.text
    gauges = [
        StreamGauges(tenant=DEFAULT_TENANT, stream=f"log-{dead}", tick_age_s=0, nacked=0, dead=dead)
        for dead in (0, 1, 1000)
    ]
    assert [one.text for one in dead_event_problems(gauges)] == [
        "1 dead letter.", "1\N{NARROW NO-BREAK SPACE}000 or more dead letters.",
    ]  # fmt: skip
    now = datetime(2026, 11, 18, 12, tzinfo=UTC)
    runs = [
        PipelineGauges(
            tenant=DEFAULT_TENANT, pipeline=name, running=False, failed=failed, rows=0, lag_events=0, lag_s=0.0,
            seen_at=now - timedelta(hours=hours),
        )
        for name, failed, hours in (("archive", True, 3), ("cdc", True, 25), ("insights", False, 3))
    ]  # fmt: skip
    assert [(one.subject, one.link) for one in pipeline_problems(runs, now)] == [("archive", "/ui/pipelines")]
    found = ordered(
        [Problem(level=level, subject=level, text="", link="/") for level in ("note", "critical", "warning")]
    )
    assert [one.level for one in found] == ["critical", "warning", "note"]


async def test_a_refused_setting_says_so_beside_its_field(server: Live, client: httpx.AsyncClient) -> None:
    await server.engine.queues.create(DEFAULT_TENANT, "orders", {})
    page = (await client.get("/ui/queues/orders")).text
    form = dict(re.findall(r'<input name="([a-z_]+)" inputmode="numeric" value="([^"]*)"', page)) | {"archive": "yes"}

    async def refused(**changes: str) -> str:
        answer = await client.post("/ui/queues/orders/settings", data=form | changes)
        assert answer.status_code in (400, 404)
        assert 'name="archive" value="yes" checked' in answer.text
        found = re.search(r'name="([a-z_]+)"[^>]*><strong class="wrong">([^<]+)', answer.text)
        assert found is not None
        assert found[2] in answer.text.partition("<details")[0], "the top of the page says it too"
        return found[1]

    assert await refused(retention_s="1") == "retention_s"
    assert await refused(max_length="many") == "max_length"
    assert await refused(max_receives="3", dead_letter_queue="nowhere") == "dead_letter_queue"


async def test_the_links_of_a_refused_form_lead_to_pages(server: Live, client: httpx.AsyncClient) -> None:
    await server.engine.queues.create(DEFAULT_TENANT, "orders", {})
    await send(server, "orders", "x")

    refused = (await client.post("/ui/queues/orders/send", data={"body": "x", "delay": "soon"})).text
    links = [link.replace("&amp;", "&") for link in re.findall(r'href="([^"#]*\?(?:span|peek)=[^"]*)"', refused)]

    assert len(links) == 5
    assert [(await client.get(link)).status_code for link in links] == [200] * 5


async def test_links_of_a_page_keep_the_rest_of_its_address(server: Live, client: httpx.AsyncClient) -> None:
    await server.engine.queues.create(DEFAULT_TENANT, "orders", {})
    await send(server, "orders", "x")

    page = (await client.get("/ui/queues/orders?span=day&peek=25&done=purged&count=3")).text

    assert 'href="/ui/queues/orders?span=week&amp;peek=25"' in page
    assert 'href="/ui/queues/orders?span=day&amp;peek=50"' in page


async def test_what_was_done_to_one_is_told_of_one(server: Live, client: httpx.AsyncClient) -> None:
    await server.engine.queues.create(DEFAULT_TENANT, "orders", {})
    await send(server, "orders", "a")

    answer = await client.post("/ui/queues/orders/purge", data={"confirm": "orders"}, follow_redirects=True)

    assert "1 message was deleted." in answer.text


async def test_messages_behind_others_of_their_group_are_shown_as_such(server: Live, client: httpx.AsyncClient) -> None:
    await server.engine.queues.create(DEFAULT_TENANT, "pay.fifo", {"content_dedup": True})
    entries = [Send(tenant=DEFAULT_TENANT, queue="pay.fifo", body=str(n), group_id=g) for n, g in enumerate("aab")]
    first, second, _ = [(await server.engine.messages.send(entry)).id for entry in entries]

    page = (await client.get("/ui/queues/pay.fifo")).text

    assert re.findall(r"behind ([0-9]+)", page) == [str(first)]
    assert page.index(f">{second}<") < page.index(f"behind {first}")


async def test_delayed_messages_and_those_in_flight_are_listed(server: Live, client: httpx.AsyncClient) -> None:
    await server.engine.queues.create(DEFAULT_TENANT, "orders", {})
    await send(server, "orders", "first")
    await server.engine.messages.receive(Receive(tenant=DEFAULT_TENANT, queue="orders"))
    later = await server.engine.messages.send(Send(tenant=DEFAULT_TENANT, queue="orders", body="x", delay_s=7200))

    page = (await client.get("/ui/queues/orders")).text

    assert "In flight and delayed" in page
    assert re.search(rf"message%3A{later.id}.*delayed.*1.h 59", page, re.DOTALL)
    assert "In flight and delayed" not in (await client.get("/ui/queues/orders/redrive")).text


async def test_the_choices_of_a_fifo_queue_are_saved(server: Live, client: httpx.AsyncClient) -> None:
    for name in ("pay.fifo", "plain"):
        await server.engine.queues.create(DEFAULT_TENANT, name, {})
        page = (await client.get(f"/ui/queues/{name}")).text
        form = dict(re.findall(r'<input name="([a-z_]+)" inputmode="numeric" value="([^"]*)"', page))
        form |= {"dedup_scope": "group", "throughput_limit": "group"}
        assert ('name="dedup_scope"' in page) is (name == "pay.fifo")
        assert (await client.post(f"/ui/queues/{name}/settings", data=form)).status_code == 303

    changed = (await server.engine.queues.get(DEFAULT_TENANT, "pay.fifo")).settings
    assert (changed.dedup_scope, changed.throughput_limit) == ("group", "group")
    assert (await server.engine.queues.get(DEFAULT_TENANT, "plain")).settings.dedup_scope == "queue"
    odd = await client.post("/ui/queues/pay.fifo/settings", data=form | {"dedup_scope": "odd"})
    assert (odd.status_code, 'class="wrong"' in odd.text) == (400, True)


async def test_an_empty_server_shows_commands_with_its_own_address(client: httpx.AsyncClient) -> None:
    address = str(client.base_url).rstrip("/")
    for path in ("/", "/ui/queues", "/ui/jobs", "/ui/topics"):
        commands = re.findall(r'data-copy="([^"]*)"', (await client.get(path)).text)
        assert [address in command for command in commands] == [True], path

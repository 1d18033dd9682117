"""The pages of schedules, over HTTP."""

from __future__ import annotations

import httpx
import pytest

from penstock.auth import Mode
from penstock.model import DEFAULT_TENANT, Scope
from penstock.model.schedules import ScheduleStatus, TargetKind
from tests.wire.conftest import Live, running
from tests.wire.web.markup import INERT, dangers

NEW = {"name": "report", "text": "every weekday at 9am", "shape": "when", "target": "orders", "target_kind": "queue"}


async def test_an_expression_is_previewed_by_the_address(client: httpx.AsyncClient) -> None:
    good = (await client.get("/ui/schedules", params={"text": "*/5 * * * *", "shape": "cron"})).text
    bad = (await client.get("/ui/schedules", params={"text": "now and then", "shape": "when"})).text
    odd = await client.get("/ui/schedules", params={"text": "x", "shape": "odd"})

    assert good.count("<li>") == 5
    assert 'class="banner critical"' in bad
    assert odd.status_code == 200
    assert "give one of" in odd.text


async def test_a_schedule_is_created_run_paused_resumed_and_deleted(server: Live, client: httpx.AsyncClient) -> None:
    await server.engine.queues.create(DEFAULT_TENANT, "orders", {})

    async def post(path: str, **data: str) -> str:
        answer = await client.post(f"/ui/schedules/{path}", data=data, follow_redirects=True)
        assert answer.status_code == 200, answer.text
        return answer.text

    assert "The schedule was created" in await post("new/create", **NEW, body='{"kind":"daily"}')
    assert "fired once" in await post("report/run")
    assert "is paused" in await post("report/pause")
    assert (await server.engine.schedules.get(DEFAULT_TENANT, "report")).status is ScheduleStatus.PAUSED
    assert "active again" in await post("report/resume")
    assert "report</a>" in (await client.get("/ui/schedules?search=REP")).text
    refused = await client.post("/ui/schedules/report/delete", data={"confirm": "rep"})
    assert refused.status_code == 400
    assert "There is no schedule yet" in await post("report/delete", confirm="report")
    [message] = await server.engine.messages.peek(DEFAULT_TENANT, "orders", 9)
    assert message.body == '{"kind":"daily"}'


@pytest.mark.parametrize(
    "change", [{"text": "never ever"}, {"body": "{half"}, {"target": "nowhere"}, {"target_kind": "odd"}, {"name": "?"}]
)
async def test_a_refused_schedule_keeps_what_was_entered(
    server: Live, client: httpx.AsyncClient, change: dict[str, str]
) -> None:
    await server.engine.queues.create(DEFAULT_TENANT, "orders", {})
    answer = await client.post("/ui/schedules/new/create", data=NEW | change)

    assert answer.status_code in (400, 404)
    assert 'role="alert"' in answer.text
    assert f'value="{(NEW | change)["text"]}"' in answer.text
    assert await server.engine.schedules.list(DEFAULT_TENANT) == []


async def test_schedules_are_shown_as_text(client: httpx.AsyncClient) -> None:
    pages = [
        await client.get("/ui/schedules", params={"text": text, "search": text, "name": text, "timezone": text})
        for text in INERT
    ]
    assert [danger for page in pages for danger in dangers(page.text)] == []


async def test_schedules_of_others_are_out_of_reach() -> None:
    async with running(Mode.TOKEN) as live:
        await live.engine.queues.create(DEFAULT_TENANT, "orders", {})
        given = {"every": "1h", "target": "orders", "target_kind": TargetKind.QUEUE, "body": '"secret"'}
        await live.engine.schedules.create(DEFAULT_TENANT, "report", given)
        everything = frozenset({Scope.READ, Scope.SEND, Scope.MANAGE})
        another = (await live.engine.tenants.create("another")).id
        tokens = [
            (await live.engine.tenants.create_token(another, "a", everything))[1],
            (await live.engine.tenants.create_token(DEFAULT_TENANT, "b", everything, queues="mine-*"))[1],
        ]
        for token in tokens:
            async with live.client(token) as client:
                assert "report" not in (await client.get("/ui/schedules")).text
                answers = [await client.get("/ui/schedules/report")]
                for act in ("run", "pause", "resume", "delete"):
                    answers.append(await client.post(f"/ui/schedules/report/{act}", data={"confirm": "report"}))
                answers.append(await client.post("/ui/schedules/new/create", data=NEW | {"name": "new"}))
            assert {answer.status_code for answer in answers} <= {403, 404}
            assert not any("secret" in answer.text for answer in answers)
        [found] = await live.engine.schedules.list(DEFAULT_TENANT)

    assert (found.status, found.fires) == (ScheduleStatus.ACTIVE, 0)


async def test_a_schedule_is_changed_and_shows_its_history(server: Live, client: httpx.AsyncClient) -> None:
    await server.engine.queues.create(DEFAULT_TENANT, "work", {})
    await server.engine.schedules.create(
        DEFAULT_TENANT, "tick", {"every": "1h", "target": "work", "target_kind": TargetKind.QUEUE}
    )
    form = {"shape": "cron", "text": "0 9 * * *", "timezone": "Europe/Paris", "body": '{"n": 1}'}

    answer = await client.post("/ui/schedules/tick/change", data=form, headers={"sec-fetch-site": "same-origin"})
    page = (await client.get(answer.headers["location"])).text
    found = await server.engine.schedules.get(DEFAULT_TENANT, "tick")

    assert (found.settings.expression, found.settings.timezone) == ("0 9 * * *", "Europe/Paris")
    assert "The schedule was changed." in page
    assert "<h2>Changes</h2>" in page
    assert "It has not fired yet." in page
    await server.engine.schedules.run(DEFAULT_TENANT, "tick")
    assert "/ui/follow?id=message%3A" in (await client.get("/ui/schedules/tick")).text
    wrong = await client.post(
        "/ui/schedules/tick/change",
        data=form | {"text": "nonsense"},
        headers={"sec-fetch-site": "same-origin"},
    )
    assert wrong.status_code == 400

"""Charts on the pages, and who may have their data."""

from __future__ import annotations

import httpx
import pytest

from penstock.auth import Mode
from penstock.clock import FakeClock
from penstock.model import DEFAULT_TENANT, Scope, Send
from penstock.model.samples import OutcomeKind
from penstock.web.charts import path_of_line
from tests.wire.conftest import Live, running


async def sample(live: Live, clock: FakeClock) -> None:
    await live.engine.queues.create(DEFAULT_TENANT, "orders", {})
    for _ in range(3):
        await live.engine.history.record()
        await live.engine.messages.send(Send(tenant=DEFAULT_TENANT, queue="orders", body="x"))
        clock.advance(seconds=60)
    await live.engine.history.record()


async def test_pages_draw_their_charts_without_a_script(clock: FakeClock) -> None:
    async with running(clock=clock) as live, live.client() as client:
        await sample(live, clock)
        for path in ("/", "/ui/queues/orders"):
            text = (await client.get(path)).text
            assert '<path class="visible" d="M' in text
            assert 'data-source="/ui/charts/queue?name=' in text
        data = (await client.get("/ui/charts/queue?name=orders&span=hour")).json()
        weeks = (await client.get("/ui/charts/queue?name=orders&span=week")).json()

    assert data["waiting"][-4:] == [0, 1, 2, 3]
    assert len(weeks["waiting"]) == 168


async def test_a_new_server_says_when_charts_begin(client: httpx.AsyncClient, server: Live) -> None:
    await server.engine.queues.create(DEFAULT_TENANT, "orders", {})

    assert "A sample is taken every minute" in (await client.get("/ui/queues/orders")).text


@pytest.mark.parametrize(("queues", "tenant"), [("mine-*", ""), ("*", "another")])
async def test_chart_data_follows_the_token(clock: FakeClock, queues: str, tenant: str) -> None:
    async with running(Mode.TOKEN, clock=clock) as live:
        await sample(live, clock)
        owner = (await live.engine.tenants.create(tenant)).id if tenant else DEFAULT_TENANT
        text = (await live.engine.tenants.create_token(owner, "r", frozenset({Scope.READ}), queues=queues))[1]
        async with live.client(text) as client:
            answers = [await client.get(f"/ui/charts/queue?name={name}") for name in ("orders", "")]
            overview = await client.get("/")
        async with live.client("nobody") as client:
            assert (await client.get("/ui/charts/queue?name=orders")).status_code == 403

    if tenant:
        assert all(set(answer.json()["waiting"]) == {None} for answer in answers)
    else:
        assert [answer.status_code for answer in answers] == [403, 403]
        assert "data-source" not in overview.text


async def test_an_unknown_kind_has_no_chart(client: httpx.AsyncClient) -> None:
    assert (await client.get("/ui/charts/colour")).status_code == 400


async def test_outcomes_are_drawn(server: Live, client: httpx.AsyncClient) -> None:
    server.engine.outcomes.count(DEFAULT_TENANT, OutcomeKind.DELIVERY, good=3, bad=1)
    server.engine.outcomes.count(DEFAULT_TENANT, OutcomeKind.SCHEDULE, bad=2)
    await server.engine.outcomes.write()

    found = (await client.get("/ui/charts/outcomes?span=week")).json()
    page = (await client.get("/")).text

    assert [value for value in found["webhook_success"] if value is not None] == [75.0]
    assert (sum(found["webhooks_failed"]), sum(found["missed"]), sum(found["jobs_failed"])) == (1, 2, 0)
    assert all(title in page for title in ("Failures", "Webhook success", "Schedule fires"))


def test_a_line_is_interrupted_where_nothing_is_known() -> None:
    assert path_of_line([], 0) == ""
    assert path_of_line([None, 0, None, 1, 1], 1).count("M") == 2

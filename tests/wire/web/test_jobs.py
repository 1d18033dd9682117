"""The pages of jobs, over HTTP."""

from __future__ import annotations

import json
import re
from datetime import timedelta

import httpx

from penstock.auth import Mode
from penstock.model import DEFAULT_TENANT, Scope
from penstock.model.jobs import Failure, JobStatus, LeaseRequest, NewJob
from penstock.web import WebSettings
from penstock.web import app as pages
from tests.wire.conftest import Live, running
from tests.wire.web.markup import INERT, dangers


async def enqueue(live: Live, queue: str = "mail", payload: str = '{"to":"ada","n":12345678901234567890}') -> str:
    return (await live.engine.jobs.enqueue(NewJob(tenant=DEFAULT_TENANT, queue=queue, payload=payload))).id


async def kill(live: Live, count: int, error: str = "boom") -> list[str]:
    """Jobs that are dead."""
    ids = []
    for _ in range(count):
        await enqueue(live)
        request = LeaseRequest(tenant=DEFAULT_TENANT, queue="mail", lease_s=60, workers=["worker-1"])
        [job] = await live.engine.jobs.lease(request)
        failure = Failure(tenant=DEFAULT_TENANT, id=job.id, token=job.token, error=error, retry=False)
        assert (await live.engine.jobs.fail(failure))[0] is JobStatus.DEAD
        ids.append(job.id)
    return ids


async def test_jobs_are_found_by_queue_status_and_id(server: Live, client: httpx.AsyncClient) -> None:
    [dead] = await kill(server, 1)
    pending, other = await enqueue(server), await enqueue(server, "other")

    async def found(query: str) -> set[str]:
        return set(re.findall(r'href="/ui/jobs/([0-9a-f-]{36})"', (await client.get(f"/ui/jobs?{query}")).text))

    assert await found("") == {dead, pending, other}
    assert await found("queue=mail") == {dead, pending}
    assert await found("queue=mail&status=dead") == {dead}
    assert await found(f"id={other}") == {other}
    assert await found("id=nothing") == set()
    assert (await client.get("/ui/jobs?status=odd")).status_code == 400


async def test_the_page_of_a_job_tells_its_history(server: Live, client: httpx.AsyncClient) -> None:
    [dead] = await kill(server, 1, "no route to host")
    text = (await client.get(f"/ui/jobs/{dead}")).text

    assert "attempt 1 by worker-1" in text
    assert "no route to host" in text
    assert "12345678901234567890" in text
    assert (await client.get("/ui/jobs/nothing")).status_code == 404


async def test_a_dead_job_is_retried_and_a_pending_one_cancelled(server: Live, client: httpx.AsyncClient) -> None:
    [dead] = await kill(server, 1)
    retried = await client.post(f"/ui/jobs/{dead}/retry", follow_redirects=True)
    again = await client.post(f"/ui/jobs/{dead}/retry")
    pending = await enqueue(server)
    cancelled = await client.post(f"/ui/jobs/{pending}/cancel", follow_redirects=True)

    assert "1 dead job was brought back as a new job" in retried.text
    assert again.status_code in (404, 409)
    assert "The job was cancelled" in cancelled.text
    assert (await server.engine.jobs.get(DEFAULT_TENANT, pending)).status is JobStatus.CANCELLED


async def test_bulk_actions_state_and_report_their_number(server: Live, client: httpx.AsyncClient) -> None:
    await kill(server, 3)
    page = (await client.get("/ui/jobs?queue=mail&status=dead")).text
    refused = await client.post("/ui/jobs/dead/all/remove", data={"queue": "mail", "status": "dead", "confirm": "x"})
    retried = await client.post("/ui/jobs/dead/all/retry", data={"queue": "mail"}, follow_redirects=True)
    await kill(server, 2)
    removed = await client.post(
        "/ui/jobs/dead/all/remove", data={"queue": "mail", "confirm": "mail"}, follow_redirects=True
    )
    nothing = await client.post("/ui/jobs/dead/all/retry", data={})

    assert "Retry all 3" in page
    assert (refused.status_code, nothing.status_code) == (400, 400)
    assert "3 dead jobs were brought back" in retried.text
    assert "2 dead jobs were removed" in removed.text


async def test_jobs_are_shown_as_text(server: Live, client: httpx.AsyncClient) -> None:
    [dead] = await kill(server, 1, "".join(INERT))
    strange = await enqueue(server, payload=json.dumps(INERT))
    pages = [
        await client.get("/ui/jobs"),
        await client.get(f"/ui/jobs/{dead}"),
        await client.get(f"/ui/jobs/{strange}"),
        *[await client.get("/ui/jobs", params={"queue": text, "id": text}) for text in INERT],
    ]

    assert [danger for page in pages for danger in dangers(page.text)] == []


async def test_jobs_of_others_are_out_of_reach() -> None:
    async with running(Mode.TOKEN) as live:
        [dead] = await kill(live, 1, "secret")
        pending = await enqueue(live)
        everything = frozenset({Scope.READ, Scope.SEND, Scope.RECEIVE, Scope.MANAGE})
        another = (await live.engine.tenants.create("another")).id
        tokens = [
            (await live.engine.tenants.create_token(another, "a", everything))[1],
            (await live.engine.tenants.create_token(DEFAULT_TENANT, "b", everything, queues="mine-*"))[1],
            (await live.engine.tenants.create_token(DEFAULT_TENANT, "c", frozenset({Scope.READ})))[1],
        ]
        for place, token in enumerate(tokens):
            async with live.client(token) as client:
                page, one = await client.get("/ui/jobs"), await client.get(f"/ui/jobs/{dead}")
                forms = [
                    await client.post(f"/ui/jobs/{dead}/retry"),
                    await client.post(f"/ui/jobs/{pending}/cancel"),
                    await client.post("/ui/jobs/dead/all/retry", data={"queue": "mail"}),
                    await client.post("/ui/jobs/dead/all/remove", data={"queue": "mail", "confirm": "mail"}),
                ]
                if place < 2:
                    assert "queue=mail" not in page.text
                    assert one.status_code in (403, 404)
                    assert "secret" not in page.text + one.text
                assert all(form.status_code in (403, 404) or "count=0" in form.headers["location"] for form in forms)
        counts = [one for _, one in await live.engine.jobs.counts(DEFAULT_TENANT)]

    assert [(one.dead, one.pending) for one in counts] == [(1, 1)]


async def test_pending_jobs_tell_what_they_wait_for(server: Live, client: httpx.AsyncClient) -> None:
    first = await enqueue(server)
    run_at = server.engine.clock.now() + timedelta(hours=1)
    later = NewJob(tenant=DEFAULT_TENANT, queue="mail", payload="{}", run_at=run_at)
    second = await server.engine.jobs.enqueue(NewJob(tenant=DEFAULT_TENANT, queue="mail", payload="{}", after=[first]))
    third = await server.engine.jobs.enqueue(later)

    page, listed = (await client.get(f"/ui/jobs/{second.id}")).text, (await client.get("/ui/jobs")).text

    assert re.search(rf'Waits for.*href="/ui/jobs/{first}"', page)
    assert "waits for another job" in listed
    assert "runs in 59" in listed
    assert "to run at" in (await client.get(f"/ui/jobs/{third.id}")).text


async def test_a_job_in_processing_shows_its_worker_in_the_list(server: Live, client: httpx.AsyncClient) -> None:
    await enqueue(server)
    await server.engine.jobs.lease(LeaseRequest(tenant=DEFAULT_TENANT, queue="mail", lease_s=60, workers=["worker-7"]))

    assert "worker-7" in (await client.get("/ui/jobs")).text


async def test_all_pending_jobs_of_a_queue_are_cancelled_after_typing_its_name(
    server: Live, client: httpx.AsyncClient
) -> None:
    ids = [await enqueue(server) for _ in range(130)]
    other = await enqueue(server, "other")
    form = {"queue": "mail", "status": "pending"}

    page = (await client.get("/ui/jobs?queue=mail&status=pending")).text
    refused = await client.post("/ui/jobs/matching/all/act", data=form | {"confirm": "other"})
    done = await client.post("/ui/jobs/matching/all/act", data=form | {"confirm": "mail"}, follow_redirects=True)

    assert "Cancel 130" in page
    assert (refused.status_code, "type the name mail" in refused.text) == (400, True)
    assert "130 matching jobs were cancelled, 0 had changed" in done.text
    assert {(await server.engine.jobs.get(DEFAULT_TENANT, one)).status for one in ids} == {JobStatus.CANCELLED}
    assert (await server.engine.jobs.get(DEFAULT_TENANT, other)).status is JobStatus.PENDING


async def test_a_dashboard_that_hides_payloads_finds_nothing_by_them(server: Live) -> None:
    await enqueue(server)
    app = pages(server.engine, server.authenticator, dict, WebSettings(payloads=False))
    async with running(app=app) as guarded, guarded.client() as client:
        page = (await client.get("/ui/jobs")).text
        found = [await client.get(f"/ui/jobs?queue=mail&status=pending&value={value}") for value in ("ada", "eve")]
        form = {"queue": "mail", "status": "pending", "value": "ada"}
        refused = await client.post("/ui/jobs/matching/all/act", data=form)

    assert 'name="value"' not in page
    assert [answer.status_code for answer in (*found, refused)] == [403, 403, 403]
    assert found[0].text.replace("ada", "") == found[1].text.replace("eve", "")

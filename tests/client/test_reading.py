"""An answer with a value that Python cannot read: one item fails, the others are used."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.client import AsyncClient, Client, RunningJob, Worker
from penstock.client.exchange import Answer, Request
from penstock.client.reading import Unreadable, decode
from penstock.errors import Unavailable
from tests.client.fakes import AsyncScripted, JobServer, Scripted, answer

POISON = {
    "a number out of range": "1e400",
    "a long integer": "1" * 5001,
    "deep arrays": "[" * 100_000 + "]" * 100_000,
    "deep objects": '{"a":' * 100_000 + "1" + "}" * 100_000,
    "a poisoned member": '{"task": "work", "n": -1e999, "text": "}]\\" ,{"}',
}
poisoned = pytest.mark.parametrize("poison", POISON.values(), ids=POISON)


def leases(*payloads: str) -> Answer:
    found = (
        f'{{"lease_token": "token-of-{n}", "job": {{"id": "{n}", "payload": {payload}, "status": "processing",'
        ' "run_at": "+10000-01-01T00:00:00Z"}, "lease_expires_at": null}'
        for n, payload in enumerate(payloads, 1)
    )
    return Answer(200, f"[{', '.join(found)}]".encode())


@poisoned
def test_a_client_tells_which_job_it_cannot_read(poison: str) -> None:
    client = Client("http://test", "t", transport=Scripted(leases('{"n": 1}', poison, '"]"')))
    found = client.jobs.lease("work", "me", max=3)

    assert [each.lease_token for each in found] == ["token-of-1", "token-of-2", "token-of-3"]
    assert [each.job.payload for each in found] == [{"n": 1}, None, "]"]
    assert found[1].job.unreadable is not None
    assert found[1].job.unreadable.startswith("payload: ")
    assert (found[0].job.unreadable, found[2].job.unreadable) == (None, None)


@poisoned
async def test_an_async_client_tells_which_job_it_cannot_read(poison: str) -> None:
    body = f'{{"items": [{{"id": "1", "result": {poison}}}, {{"id": "2", "payload": 5}}], "next_cursor": null}}'
    client = AsyncClient("http://test", "t", transport=AsyncScripted(Answer(200, body.encode())))
    one, two = [job async for job in client.jobs.all()]

    assert (one.result, two.payload, two.unreadable) == (None, 5, None)
    assert one.unreadable is not None
    assert one.unreadable.startswith("result: ")


@poisoned
@pytest.mark.parametrize("blocking", [True, False])
def test_a_worker_fails_the_job_it_cannot_read_and_runs_the_others(poison: str, blocking: bool) -> None:
    server = JobServer()
    answers = [leases('{"n": 1}', poison, '{"n": 3}'), answer(200, [])]
    server.override = lambda request: answers.pop(0) if request.path.endswith("/lease") and answers else None
    worker = Worker("http://test", "t", "work", transport=server)
    ran: list[Any] = []

    def plain(job: RunningJob) -> None:
        ran.append(job.payload)

    async def coroutine(job: RunningJob) -> None:
        ran.append(job.payload)

    worker.task("work")(plain if blocking else coroutine)
    worker.run(drain=True)

    assert sorted(payload["n"] for payload in ran) == [1, 3]
    assert sorted(job_id for job_id, _ in server.told("ack")) == ["1", "3"]
    [(job_id, told)] = server.told("nack")
    assert (job_id, told["retry"]) == ("2", False)
    assert told["error"].startswith("this worker cannot read the payload: ")


def test_a_worker_goes_on_after_an_answer_that_is_no_json() -> None:
    server = JobServer([{"n": 1}])
    broken = [Answer(200, b"<html>a proxy</html>"), Answer(200, b'[{"job": ')]

    def override(request: Request) -> Answer | None:
        return broken.pop() if broken and request.path.endswith("/lease") else None

    server.override = override
    worker = Worker("http://test", "t", "work", transport=server)

    @worker.task
    async def work(job: RunningJob) -> None:
        pass

    worker.run(drain=True)

    assert [job_id for job_id, _ in server.told("ack")] == ["job-1"]


@pytest.mark.parametrize("body", [b"<html>", b"[1, 2", b'{"a": 1e400', b'{"a" 1e400}', b"\xff"])
def test_an_answer_that_is_no_json_is_unavailable(body: bytes) -> None:
    with pytest.raises(Unavailable, match="cannot be read"):
        decode(body)


values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(values, st.sampled_from([None, 2]))
def test_what_can_be_read_is_read_whatever_stands_beside_it(value: Any, indent: int | None) -> None:
    text = json.dumps([{"job": {"payload": value}}], indent=indent)
    assert decode(text.encode()) == [{"job": {"payload": value}}]

    beside = text[:-1] + ', {"job": {"payload": 1e400}}]'
    assert decode(beside.encode()) == [
        {"job": {"payload": value}},
        {"job": {"payload": Unreadable("Number out of range")}},
    ]

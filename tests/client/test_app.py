"""Tasks: functions that run as jobs. The first pages of Celery and Oban are here, written for Penstock."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from penstock import App, AsyncClient, Client, Invalid, JobFailed, Retry, current_job
from penstock.testing import MemoryServer, TestTenant


@pytest.fixture
def app(penstock_tenant: TestTenant) -> Iterator[App]:
    app = App(url=penstock_tenant.url, token=penstock_tenant.token)
    yield app
    app.close()


def test_the_first_page_of_celery(app: App) -> None:
    @app.task
    def add(x: int, y: int) -> int:
        return x + y

    job_id = add.enqueue(4, 4)
    assert app.client.jobs.status(job_id) == "pending"
    app.work(drain=True)

    assert app.client.jobs.wait(job_id, timeout=1) == 8
    assert add(4, 4) == 8


def test_the_first_page_of_oban(app: App) -> None:
    @app.task(queue="events", priority=3, max_retries=9)
    def business(id: int, params: list[str]) -> str:
        match id:
            case 0:
                raise ValueError("no such record")
            case _:
                return f"{id} {params}"

    now = business.enqueue(id=1, params=[])
    later = business.options(run_at=datetime.now(UTC) + timedelta(seconds=5)).enqueue(2, ["a"])
    once = business.options(unique_key="business-3", unique_seconds=60)
    first, second = once.enqueue(3, []), once.enqueue(3, [])
    app.work(drain=True)

    assert app.client.jobs.get(now).result == "1 []"
    assert (app.client.jobs.get(now).priority, app.client.jobs.get(now).max_retries) == (3, 9)
    assert app.client.jobs.status(later) == "pending"
    assert first == second


def test_many_calls_are_enqueued_at_once(app: App) -> None:
    @app.task
    async def double(n: int) -> int:
        await asyncio.sleep(0)
        return 2 * n

    ids = double.enqueue_many([(1,), {"n": 2}, [3]])
    app.work(drain=True)

    assert [app.client.jobs.get(each).result for each in ids] == [2, 4, 6]


def test_wrong_arguments_are_refused_before_they_are_sent(app: App) -> None:
    @app.task
    def greet(name: str) -> str:
        return name

    with pytest.raises(TypeError, match="missing a required argument: 'name'"):
        greet.enqueue()  # type: ignore[call-arg]
    app.client.jobs.enqueue("default", {"task": "greet", "kwargs": {"nmae": 1}})
    app.work(drain=True)

    [job] = app.client.jobs.list().items
    assert (job.status, "the arguments do not fit the task" in (job.error_text or "")) == ("dead", True)


def test_a_task_knows_its_job_and_its_attempt(app: App) -> None:
    @app.task(max_retries=2, backoff={"delays": [0.0]})
    def flaky() -> list[Any]:
        job = current_job()
        if job.attempt < 3:
            raise Retry("not yet", after=0)
        return [job.id, job.attempt]

    job_id = flaky.enqueue()
    app.work(drain=True)

    assert app.client.jobs.wait(job_id, timeout=1) == [job_id, 3]
    with pytest.raises(RuntimeError, match="no job is running"):
        current_job()


def test_the_traceback_is_kept_with_the_attempt(app: App) -> None:
    @app.task(max_retries=0)
    def fail() -> None:
        raise LookupError("x" * 20_000)

    job_id = fail.enqueue()
    app.work(drain=True)

    [attempt] = app.client.jobs.attempts(job_id)
    assert attempt.error is not None
    assert attempt.error.startswith("LookupError: xxx")
    assert len(attempt.error) == 10_000


def test_a_traceback_says_where(app: App) -> None:
    @app.task(max_retries=0)
    def fail_here() -> None:
        raise LookupError("gone")

    job_id = fail_here.enqueue()
    app.work(drain=True)

    lines = (app.client.jobs.get(job_id).error_text or "").splitlines()
    assert (lines[0], lines[2]) == ("LookupError: gone", "Traceback (most recent call last):")
    assert any("in fail_here" in line for line in lines)


@pytest.mark.parametrize("blocks", [True, False])
def test_a_task_that_takes_too_long_fails(app: App, blocks: bool) -> None:
    @app.task(max_retries=0, timeout=0.05)
    def slow() -> None:
        time.sleep(0.3)

    @app.task(max_retries=0, timeout=timedelta(milliseconds=50))
    async def slow_too() -> None:
        await asyncio.sleep(60)

    job_id = slow.enqueue() if blocks else slow_too.enqueue()
    app.work(drain=True)

    with pytest.raises(JobFailed, match="did not end within"):
        app.client.jobs.wait(job_id, timeout=1)


def test_an_unknown_task_goes_back_and_spends_no_retry(app: App, penstock_tenant: TestTenant) -> None:
    @app.task
    def old() -> None:
        """A task of the release before."""

    job_id = app.client.jobs.enqueue("default", {"task": "new"}, max_retries=0)
    app.work(drain=True)

    job = app.client.jobs.get(job_id)
    assert (job.status, job.retry_count, job.error_text) == ("pending", 0, "this worker has no task 'new'")


def test_a_task_may_wait_without_spending_a_retry(app: App) -> None:
    @app.task(max_retries=1)
    def wait_for_payment() -> str:
        job = current_job()
        if job.attempt < 4:
            raise Retry("not paid yet", after=timedelta(0), spend_retry=False)
        return f"{job.attempt} attempts, {job.job.retry_count} retries"

    job_id = wait_for_payment.enqueue()
    app.work(drain=True)

    assert app.client.jobs.wait(job_id, timeout=1) == "4 attempts, 0 retries"


def test_a_chain_runs_in_order(app: App) -> None:
    ran: list[int] = []

    @app.task
    def step(n: int) -> None:
        ran.append(n)

    ids = app.chain(step.job(1), step.job(2), step.job(3))
    assert app.client.jobs.get(ids[2]).waiting_for == (ids[1],)
    app.work(drain=True)

    assert ran == [1, 2, 3]


def test_the_callback_of_a_group_runs_last(app: App) -> None:
    ran: list[str] = []

    @app.task
    def work(name: str) -> str:
        ran.append(name)
        return name

    *members, last = app.group([work.job(str(n)) for n in range(5)], callback=work.options(priority=9).job("last"))
    app.work(drain=True)

    assert (sorted(ran[:-1]), ran[-1]) == (["0", "1", "2", "3", "4"], "last")
    assert app.client.jobs.get(last).after == tuple(members)


def test_a_task_is_scheduled(app: App) -> None:
    @app.task(queue="reports")
    def report(day: str = "today") -> str:
        return f"report of {day}"

    schedule = report.schedule("nightly", cron="0 2 * * *", kwargs={"day": "yesterday"})
    assert (schedule.target_kind, schedule.target) == ("job", "reports")
    [job_id] = app.client.schedules.run("nightly").msg_ids
    app.work(drain=True)

    assert app.client.jobs.wait(str(job_id), timeout=1) == "report of yesterday"


def test_the_limits_of_a_queue_are_set_by_its_workers(app: App) -> None:
    @app.task(queue="calls")
    def call() -> None:
        """Nothing."""

    app.limit("calls", concurrency=2, rate=5.0)
    app.work(["calls"], drain=True)

    assert app.client.jobs.limits("calls").concurrency == 2


def test_an_app_follows_the_variables_that_name_its_server(
    penstock_server: MemoryServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = App(queue="mail")

    @app.task
    def greet(name: str) -> str:
        return name

    for _ in range(2):
        tenant = penstock_server.new_tenant()
        for name, value in tenant.environment.items():
            monkeypatch.setenv(name, value)
        greet.enqueue("ada")
        app.work(drain=True)
        with Client(tenant.url, tenant.token) as client:
            assert [job.status for job in client.jobs.list().items] == ["completed"]
    app.close()


def test_an_unknown_option_of_a_task_is_an_error_where_it_is_written(app: App) -> None:
    @app.task
    def greet(name: str) -> str:
        return name

    with pytest.raises(TypeError, match=r'unknown option "bind"; known: name, queue, timeout, .*max_retries'):
        app.task(bind=True)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match=r'unknown option "countdown"; known: .*run_at'):
        greet.options(countdown=60)  # type: ignore[call-arg]
    with pytest.raises(Invalid, match="run_at must be a datetime or ISO 8601 text, not int"):
        greet.options(run_at=60).enqueue("ada")  # type: ignore[arg-type]


def test_the_objects_of_a_program_tell_what_they_are(app: App, penstock_tenant: TestTenant) -> None:
    @app.task(queue="mail")
    def greet() -> str:
        return repr(current_job())

    job_id = greet.enqueue()
    app.work(drain=True)

    assert repr(app) == "<App of queue default: greet>"
    assert repr(greet) == "<task greet of queue mail>"
    assert repr(app.client) == f"<Client of {penstock_tenant.url}>"
    assert repr(app.client.queues) == f"<Queues of {penstock_tenant.url}>"
    assert app.client.jobs.wait(job_id) == f"<RunningJob {job_id} of queue mail, attempt 1>"
    assert penstock_tenant.token not in repr(app.client) + repr(AsyncClient(penstock_tenant.url, penstock_tenant.token))

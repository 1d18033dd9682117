"""The routes of jobs: producers enqueue and look, workers lease and report, administrators set limits."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Literal

import msgspec
from msgspec import UNSET

from penstock import limits
from penstock.auth import Principal
from penstock.engine import Engine
from penstock.engine.checks import check_range
from penstock.engine.jobs.jobs import size_of
from penstock.errors import Forbidden, Invalid, JobNotFound, LeaseStale, TooLarge
from penstock.model import jobs as model
from penstock.model.tenants import Scope
from penstock.wire.http.bodies import json_text, read_body, read_query
from penstock.wire.http.messages import Request, Response
from penstock.wire.jobs import conversions as contents
from penstock.wire.jobs import types as shapes
from penstock.wire.openapi import Operation

JOB_BODY = 2 * limits.JOB_PAYLOAD_BYTES
BATCH_BODY = 16_777_216
COUNTED = 1000
"""Jobs with a tag that a list counts."""

_JOBS = "/v1/jobs"
_JOB = "/v1/jobs/{id}"
_QUEUES = "/v1/job-queues"
_QUEUE = "/v1/job-queues/{queue}"

_new_job = msgspec.json.Decoder(shapes.NewJob)
_new_jobs = msgspec.json.Decoder(shapes.NewJobs)
_lease = msgspec.json.Decoder(shapes.LeaseJobs)
_ack = msgspec.json.Decoder(shapes.AckJob)
_nack = msgspec.json.Decoder(shapes.NackJob)
_beat = msgspec.json.Decoder(shapes.BeatJob)
_limits = msgspec.json.Decoder(shapes.JobLimits)
_dead = msgspec.json.Decoder(shapes.DeadJobs)
_encode = msgspec.json.Encoder().encode

_NULL = Response(200, b"null")
_NONE = Response(200, b"[]")


class JobRoutes:
    def __init__(self, engine: Engine) -> None:
        self._jobs = engine.jobs

    def operations(self) -> list[Operation]:
        return [*self._for_producers(), *self._for_workers(), *self._for_administrators()]

    def _for_producers(self) -> list[Operation]:
        tag, read, send = "jobs", Scope.READ, Scope.SEND
        return [
            Operation(
                method="POST", path=_JOBS, handler=self.enqueue, tag=tag, scope=send, summary="Enqueue a job",
                body=shapes.NewJob, answers={201: shapes.EnqueuedJob}, errors=(TooLarge,), body_bytes=JOB_BODY,
            ),
            Operation(
                method="POST", path=f"{_JOBS}/batch", handler=self.enqueue_batch, tag=tag, scope=send,
                summary="Enqueue many jobs, all or none", body=shapes.NewJobs, answers={201: shapes.EnqueuedJobs},
                errors=(TooLarge,), body_bytes=BATCH_BODY,
            ),
            Operation(
                method="GET", path=_JOBS, handler=self.list_jobs, tag=tag, scope=read,
                summary="List jobs, newest first", query=shapes.JobsQuery, answers={200: shapes.JobPage},
            ),
            Operation(
                method="GET", path=_JOB, handler=self.status, tag=tag, scope=read, summary="The status of a job",
                answers={200: shapes.JobState}, errors=(JobNotFound,),
            ),
            Operation(
                method="GET", path=f"{_JOB}/detail", handler=self.detail, tag=tag, scope=read,
                summary="A job with its result and its attempts", answers={200: shapes.Job}, errors=(JobNotFound,),
            ),
            Operation(
                method="GET", path=f"{_JOB}/attempts", handler=self.attempts, tag=tag, scope=read,
                summary="The attempts at a job, oldest first", answers={200: list[shapes.JobAttempt]},
                errors=(JobNotFound,),
            ),
            Operation(
                method="POST", path=f"{_JOB}/cancel", handler=self.cancel, tag=tag, scope=send,
                summary="Cancel a pending job", answers={200: shapes.JobState}, errors=(JobNotFound,),
            ),
        ]  # fmt: skip

    def _for_workers(self) -> list[Operation]:
        tag, receive = "jobs", Scope.RECEIVE
        held = (JobNotFound, LeaseStale)
        return [
            Operation(
                method="POST", path=f"{_QUEUE}/lease", handler=self.lease, tag=tag, scope=receive,
                summary="Lease the next job, or several", body=shapes.LeaseJobs,
                answers={200: (shapes.LeasedJob, None, list[shapes.LeasedJob])},
            ),
            Operation(
                method="POST", path=f"{_JOB}/ack", handler=self.ack, tag=tag, scope=receive,
                summary="Done, with a result", body=shapes.AckJob, answers={200: shapes.JobState},
                errors=(*held, TooLarge), body_bytes=JOB_BODY,
            ),
            Operation(
                method="POST", path=f"{_JOB}/nack", handler=self.nack, tag=tag, scope=receive, summary="Failed",
                body=shapes.NackJob, answers={200: shapes.NackedJob}, errors=held,
            ),
            Operation(
                method="POST", path=f"{_JOB}/heartbeat", handler=self.heartbeat, tag=tag, scope=receive,
                summary="Still at it: extend the lease", body=shapes.BeatJob, answers={200: shapes.ExtendedLease},
                errors=held,
            ),
        ]  # fmt: skip

    def _for_administrators(self) -> list[Operation]:
        tag, read, manage = "queues of jobs", Scope.READ, Scope.MANAGE
        return [
            Operation(
                method="GET", path=_QUEUES, handler=self.stats, tag=tag, scope=read,
                summary="How many jobs each queue has", answers={200: list[shapes.JobQueueStats]},
            ),
            Operation(
                method="GET", path=f"{_QUEUE}/limits", handler=self.limits, tag=tag, scope=read,
                summary="The limits of a queue", answers={200: shapes.JobLimits},
            ),
            Operation(
                method="PUT", path=f"{_QUEUE}/limits", handler=self.set_limits, tag=tag, scope=manage,
                summary="Limit a queue", body=shapes.JobLimits, answers={200: shapes.JobLimits},
            ),
            Operation(
                method="POST", path=f"{_QUEUE}/dead/requeue", handler=self.requeue, tag=tag, scope=manage,
                summary="Bring dead jobs back as new ones", body=shapes.DeadJobs, body_required=False,
                answers={200: shapes.RequeuedJobs},
            ),
            Operation(
                method="POST", path=f"{_QUEUE}/dead/purge", handler=self.purge, tag=tag, scope=manage,
                summary="Remove dead jobs", body=shapes.DeadJobs, body_required=False,
                answers={200: shapes.PurgedJobs},
            ),
        ]  # fmt: skip

    # Producers

    async def enqueue(self, request: Request) -> Response:
        principal = request.principal
        given = read_body(_new_job, request.body)
        principal.require(Scope.SEND, given.queue_name)
        made = await self._jobs.enqueue(contents.new_jobs(principal.tenant, [given])[0])
        status: Literal["queued", "existing"] = "existing" if made.existing else "queued"
        return Response(201, _encode(shapes.EnqueuedJob(made.id, status)))

    async def enqueue_batch(self, request: Request) -> Response:
        principal = request.principal
        given = read_body(_new_jobs, request.body).jobs
        check_range("jobs", len(given), limits.BATCH_ENTRIES)
        for queue in {one.queue_name for one in given}:
            principal.require(Scope.SEND, queue)
        made = await self._jobs.enqueue_batch(contents.new_jobs(principal.tenant, given))
        return Response(201, _encode(shapes.EnqueuedJobs([one.id for one in made], len(made))))

    async def cancel(self, request: Request) -> Response:
        principal, [job_id] = request.principal, request.arguments
        principal.require(Scope.SEND)
        await self._check_reach(principal, job_id)
        await self._jobs.cancel(principal.tenant, job_id)
        return _status(job_id, model.JobStatus.CANCELLED)

    # Workers

    def lease(self, request: Request) -> Awaitable[Response]:
        principal, [queue] = request.principal, request.arguments
        principal.require(Scope.RECEIVE, queue)
        given = read_body(_lease, request.body)
        many = given.max is not UNSET
        count = given.max if given.max is not UNSET else 1
        check_range("max", count, limits.JOB_LEASE_LIMIT)
        wanted = model.LeaseRequest(
            tenant=principal.tenant, queue=queue, lease_s=given.lease_seconds, workers=[given.worker_id] * count
        )
        if given.wait:
            request.wait_s = given.wait
            request.if_stopped = _NONE if many else _NULL
        return self._lease(wanted, given.wait, many)

    async def _lease(self, wanted: model.LeaseRequest, wait_s: float, many: bool) -> Response:
        found = await self._jobs.lease(wanted, wait_s)
        if not found:
            return _NONE if many else _NULL
        answer = [contents.leased(job) for job in found]
        return Response(200, _encode(answer if many else answer[0]))

    async def ack(self, request: Request) -> Response:
        principal, [job_id] = request.principal, request.arguments
        principal.require(Scope.RECEIVE)
        given = read_body(_ack, request.body)
        await self._jobs.complete(
            model.Completion(tenant=principal.tenant, id=job_id, token=given.lease_token, result=_result(given))
        )
        return _status(job_id, model.JobStatus.COMPLETED)

    async def nack(self, request: Request) -> Response:
        principal, [job_id] = request.principal, request.arguments
        principal.require(Scope.RECEIVE)
        given = read_body(_nack, request.body)
        failure = model.Failure(
            tenant=principal.tenant,
            id=job_id,
            token=given.lease_token,
            error=given.error,
            retry=given.retry,
            retry_after_s=given.retry_after,
            counts=given.spend_retry,
        )
        status, run_at = await self._jobs.fail(failure)
        return Response(200, _encode(shapes.NackedJob(job_id, status, run_at)))

    async def heartbeat(self, request: Request) -> Response:
        principal, [job_id] = request.principal, request.arguments
        principal.require(Scope.RECEIVE)
        given = read_body(_beat, request.body)
        beat = model.Heartbeat(
            tenant=principal.tenant,
            id=job_id,
            token=given.lease_token,
            lease_s=given.lease_seconds,
            progress=given.progress,
            note=given.note,
        )
        ends_at = await self._jobs.heartbeat(beat)
        return Response(200, _encode(shapes.ExtendedLease(job_id, "lease_extended", ends_at)))

    # Looking

    async def status(self, request: Request) -> Response:
        job = await self._get(request)
        return _status(job.id, job.status)

    async def detail(self, request: Request) -> Response:
        job = await self._get(request)
        attempts = await self._jobs.attempts(job.tenant, job.id)
        return Response(200, _encode(contents.job(job, attempts)))

    async def attempts(self, request: Request) -> Response:
        job = await self._get(request)
        attempts = await self._jobs.attempts(job.tenant, job.id)
        return Response(200, _encode([contents.attempt(one) for one in attempts]))

    async def list_jobs(self, request: Request) -> Response:
        principal = request.principal
        query = read_query(shapes.JobsQuery, request.query)
        principal.require(Scope.READ, query.queue_name)
        if query.queue_name is None and principal.queues != "*":
            raise Forbidden("this token cannot access every queue: name one", field="queue_name")
        if query.tag is not None:
            return await self._list_tagged(principal, query)
        jobs, total = await self._jobs.list_jobs(
            principal.tenant,
            queue=query.queue_name,
            status=query.status,
            before=query.cursor,
            limit=query.limit,
            offset=query.offset,
        )
        ended_early = len(jobs) == query.limit or size_of(jobs) >= limits.ANSWER_BYTES
        cursor = jobs[-1].id if jobs and ended_early else None
        page = shapes.JobPage([contents.job(job) for job in jobs], total, query.limit, query.offset, cursor)
        return Response(200, _encode(page))

    async def _list_tagged(self, principal: Principal, query: shapes.JobsQuery) -> Response:
        if query.offset:
            raise Invalid("offset does not go with tag: follow next_cursor", field="offset")
        check_range("limit", query.limit, limits.JOB_PAGE)
        wanted = model.JobFilter(tag=query.tag, queue=query.queue_name, status=query.status)
        found = await self._jobs.find_jobs(principal.tenant, wanted, before=query.cursor, limit=query.limit)
        total = len(await self._jobs.find_ids(principal.tenant, wanted, COUNTED))
        items = [contents.job(job) for job in found.jobs]
        return Response(200, _encode(shapes.JobPage(items, total, query.limit, 0, found.next)))

    async def stats(self, request: Request) -> Response:
        principal = request.principal
        principal.require(Scope.READ)
        counts = await self._jobs.counts(principal.tenant)
        return Response(200, _encode([contents.stats(one) for _, one in counts if principal.reaches(one.queue)]))

    async def _get(self, request: Request) -> model.Job:
        principal, [job_id] = request.principal, request.arguments
        principal.require(Scope.READ)
        if request.query:
            read_query(shapes.NoQuery, request.query)
        job = await self._jobs.get(principal.tenant, job_id)
        principal.require(Scope.READ, job.queue)
        return job

    async def _check_reach(self, principal: Principal, job_id: str) -> None:
        if principal.queues != "*":
            principal.require(Scope.SEND, (await self._jobs.get(principal.tenant, job_id)).queue)

    # Administrators

    async def limits(self, request: Request) -> Response:
        principal, [queue] = request.principal, request.arguments
        principal.require(Scope.READ, queue)
        return _limits_of(await self._jobs.limits(principal.tenant, queue))

    async def set_limits(self, request: Request) -> Response:
        principal, [queue] = request.principal, request.arguments
        principal.require(Scope.MANAGE, queue)
        given = read_body(_limits, request.body)
        wanted = model.JobLimits(concurrency=given.concurrency, rate=given.rate, burst=given.burst)
        await self._jobs.set_limits(principal.tenant, queue, wanted, _actor(principal))
        return _limits_of(wanted)

    async def requeue(self, request: Request) -> Response:
        principal, queue, given = _dead_jobs(request)
        count = await self._jobs.requeue_dead(principal.tenant, queue, _actor(principal), given.job_ids, given.limit)
        return Response(200, _encode(shapes.RequeuedJobs(count)))

    async def purge(self, request: Request) -> Response:
        principal, queue, given = _dead_jobs(request)
        count = await self._jobs.purge_dead(principal.tenant, queue, _actor(principal), given.job_ids, given.limit)
        return Response(200, _encode(shapes.PurgedJobs(count)))


def _result(given: shapes.AckJob) -> str | None:
    if given.result is UNSET or bytes(given.result) == b"null":
        return None
    return json_text("result", given.result)


def _dead_jobs(request: Request) -> tuple[Principal, str, shapes.DeadJobs]:
    principal, [queue] = request.principal, request.arguments
    principal.require(Scope.MANAGE, queue)
    given = read_body(_dead, request.body or b"{}")
    if given.job_ids is not None:
        check_range("job_ids", len(given.job_ids), limits.BATCH_ENTRIES)
    return principal, queue, given


def _actor(principal: Principal) -> str:
    return principal.name or "anyone"


def _status(job_id: str, status: model.JobStatus) -> Response:
    return Response(200, _encode(shapes.JobState(job_id, status)))


def _limits_of(found: model.JobLimits) -> Response:
    return Response(200, _encode(shapes.JobLimits(found.concurrency, found.rate, found.burst)))

"""The door of jobs: producers enqueue and look, workers lease and report.

Its paths and shapes are those that clients of OpenQueue know. Unlike the other JSON doors it answers 401 to a missing
or unknown token, as they expect, so its routes judge the Authorization header themselves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import msgspec
from msgspec import UNSET

from penstock import limits
from penstock.auth import Authenticator, Principal, digest
from penstock.engine import Engine
from penstock.engine.checks import check_range
from penstock.errors import Forbidden
from penstock.model import jobs as model
from penstock.model.tenants import Scope
from penstock.wire import jobs_types as shapes
from penstock.wire.bodies import json_text, read_body, read_query
from penstock.wire.faults import json_fault
from penstock.wire.http import SMALL_BODY, Refusal, Request, Response, Route

OWNS = ("jobs", "queues", "health", "ready")
"""First segments of the paths that are this door's alone."""
READY_S = 2.0
JOB_BODY = 2 * limits.JOB_PAYLOAD_BYTES
BATCH_BODY = 16_777_216

Serve = Callable[[Request], "Response | Awaitable[Response]"]

_new_job = msgspec.json.Decoder(shapes.NewJob)
_new_jobs = msgspec.json.Decoder(shapes.NewJobs)
_lease = msgspec.json.Decoder(shapes.LeaseJobs)
_ack = msgspec.json.Decoder(shapes.Ack)
_nack = msgspec.json.Decoder(shapes.Nack)
_beat = msgspec.json.Decoder(shapes.Beat)
_limits = msgspec.json.Decoder(shapes.Limits)
_dead = msgspec.json.Decoder(shapes.DeadJobs)
_encode = msgspec.json.Encoder().encode

_NULL = Response(200, b"null")
_NONE = Response(200, b"[]")
_ALIVE = Response(200, b'{"status":"ok"}')
_DEGRADED = Response(503, b'{"status":"degraded"}')


class JobsDoor:
    def __init__(self, engine: Engine, authenticator: Authenticator) -> None:
        self._engine = engine
        self._jobs = engine.jobs
        self._rates = engine.rates
        self._authenticator = authenticator

    def routes(self) -> list[Route]:
        return [
            self._route("POST", "/jobs", self.enqueue, body_bytes=JOB_BODY),
            self._route("POST", "/jobs/batch", self.enqueue_batch, body_bytes=BATCH_BODY),
            self._route("GET", "/jobs", self.list_jobs),
            self._route("GET", "/jobs/{id}", self.status),
            self._route("GET", "/jobs/{id}/detail", self.detail),
            self._route("GET", "/jobs/{id}/attempts", self.attempts),
            self._route("POST", "/jobs/{id}/cancel", self.cancel),
            self._route("POST", "/jobs/{id}/ack", self.ack, body_bytes=JOB_BODY),
            self._route("POST", "/jobs/{id}/nack", self.nack),
            self._route("POST", "/jobs/{id}/heartbeat", self.heartbeat),
            self._route("POST", "/queues/{queue}/lease", self.lease),
            self._route("GET", "/queues/{queue}/limits", self.limits),
            self._route("PUT", "/queues/{queue}/limits", self.set_limits),
            self._route("POST", "/queues/{queue}/dead/requeue", self.requeue),
            self._route("POST", "/queues/{queue}/dead/purge", self.purge),
            self._route("GET", "/dashboard/queues", self.stats),
            Route("GET", "/health", self.health, fault=jobs_fault, open=True),
            Route("GET", "/ready", self.ready, fault=jobs_fault, open=True),
        ]

    # Who may come in

    def _route(self, method: str, path: str, serve: Serve, *, body_bytes: int = SMALL_BODY) -> Route:
        def handler(request: Request) -> Response | Awaitable[Response]:
            try:
                principal = self._authenticator.remembered(request.authorization)
            except Forbidden as error:
                raise _unknown(error) from None
            if principal is None or self._rates.enabled:
                return self._admit(request, principal, serve)
            request.principal = principal
            return serve(request)

        return Route(method, path, handler, fault=jobs_fault, body_bytes=body_bytes, open=True)

    async def _admit(self, request: Request, principal: Principal | None, serve: Serve) -> Response:
        header = request.authorization
        if principal is None:
            try:
                principal = await self._authenticator.principal(header)
            except Forbidden as error:
                raise _unknown(error) from None
        if self._rates.enabled:
            await self._rates.admit(principal.tenant, digest(header or "").hex()[:24])
        request.principal = principal
        answer = serve(request)
        return answer if isinstance(answer, Response) else await answer

    # Producers

    async def enqueue(self, request: Request) -> Response:
        principal = request.principal
        given = read_body(_new_job, request.body)
        principal.require(Scope.SEND, given.queue_name)
        made = await self._jobs.enqueue(shapes.new_job(principal.tenant, given))
        return Response(201, b'{"job_id":"%b","status":"%b"}' % (made.id.encode(), _queued(made)))

    async def enqueue_batch(self, request: Request) -> Response:
        principal = request.principal
        given = read_body(_new_jobs, request.body).jobs
        check_range("jobs", len(given), limits.BATCH_ENTRIES)
        for queue in {one.queue_name for one in given}:
            principal.require(Scope.SEND, queue)
        made = await self._jobs.enqueue_batch([shapes.new_job(principal.tenant, one) for one in given])
        return Response(201, _encode({"job_ids": [one.id for one in made], "count": len(made)}))

    async def cancel(self, request: Request) -> Response:
        principal, [job_id] = request.principal, request.arguments
        principal.require(Scope.SEND)
        await self._check_reach(principal, job_id)
        await self._jobs.cancel(principal.tenant, job_id)
        return _status(job_id, "cancelled")

    # Workers

    def lease(self, request: Request) -> Awaitable[Response]:
        principal, [queue] = request.principal, request.arguments
        principal.require(Scope.RECEIVE, queue)
        given = read_body(_lease, request.body)
        many = given.max is not UNSET
        count = given.max if given.max is not UNSET else 1
        check_range("max", count, limits.JOB_LEASE_LIMIT)
        wish = model.Lease(
            tenant=principal.tenant, queue=queue, lease_s=given.lease_seconds, workers=[given.worker_id] * count
        )
        if given.wait:
            request.wait_s = given.wait
            request.if_stopped = _NONE if many else _NULL
        return self._lease(wish, given.wait, many)

    async def _lease(self, wish: model.Lease, wait_s: float, many: bool) -> Response:
        found = await self._jobs.lease(wish, wait_s)
        if not found:
            return _NONE if many else _NULL
        answer = [shapes.leased(job) for job in found]
        return Response(200, _encode(answer if many else answer[0]))

    async def ack(self, request: Request) -> Response:
        principal, [job_id] = request.principal, request.arguments
        principal.require(Scope.RECEIVE)
        given = read_body(_ack, request.body)
        result = json_text("result", given.result) if bytes(given.result) not in (b"", b"null") else None
        await self._jobs.complete(
            model.Completion(tenant=principal.tenant, id=job_id, token=given.lease_token, result=result)
        )
        return _status(job_id, "completed")

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
        )
        status, run_at = await self._jobs.fail(failure)
        return Response(200, _encode({"job_id": job_id, "status": status, "run_at": run_at}))

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
        return Response(200, _encode({"job_id": job_id, "status": "lease_extended", "lease_expires_at": ends_at}))

    # Looking

    async def status(self, request: Request) -> Response:
        job = await self._get(request)
        return _status(job.id, job.status)

    async def detail(self, request: Request) -> Response:
        job = await self._get(request)
        attempts = await self._jobs.attempts(job.tenant, job.id)
        return Response(200, _encode(shapes.job(job, attempts)))

    async def attempts(self, request: Request) -> Response:
        job = await self._get(request)
        attempts = await self._jobs.attempts(job.tenant, job.id)
        return Response(200, _encode([shapes.attempt(one) for one in attempts]))

    async def list_jobs(self, request: Request) -> Response:
        principal = request.principal
        query = read_query(shapes.ListQuery, request.query)
        principal.require(Scope.READ, query.queue_name)
        if query.queue_name is None and principal.queues != "*":
            raise Forbidden("this token does not reach every queue: name one", field="queue_name")
        jobs, total = await self._jobs.list_jobs(
            principal.tenant,
            queue=query.queue_name,
            status=model.JobStatus(query.status) if query.status is not None else None,
            before=query.cursor,
            limit=query.limit,
            offset=query.offset,
        )
        cursor = jobs[-1].id if len(jobs) == query.limit else None
        page = shapes.JobPage([shapes.job(job) for job in jobs], total, query.limit, query.offset, cursor)
        return Response(200, _encode(page))

    async def stats(self, request: Request) -> Response:
        principal = request.principal
        principal.require(Scope.READ)
        counts = await self._jobs.counts(principal.tenant)
        return Response(200, _encode([shapes.stats(one) for _, one in counts if principal.reaches(one.queue)]))

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
        return await self._on_dead(request, self._jobs.requeue_dead, "requeued")

    async def purge(self, request: Request) -> Response:
        return await self._on_dead(request, self._jobs.purge_dead, "purged")

    async def _on_dead(self, request: Request, act: Callable[..., Awaitable[int]], done: str) -> Response:
        principal, [queue] = request.principal, request.arguments
        principal.require(Scope.MANAGE, queue)
        given = read_body(_dead, request.body or b"{}")
        if given.job_ids is not None:
            check_range("job_ids", len(given.job_ids), limits.BATCH_ENTRIES)
        count = await act(principal.tenant, queue, _actor(principal), given.job_ids, given.limit)
        return Response(200, _encode({done: count}))

    # Operators

    def health(self, request: Request) -> Response:
        return _ALIVE

    async def ready(self, request: Request) -> Response:
        asked = asyncio.ensure_future(self._engine.ping())
        # Not wait_for: a hanging database takes its time to be cancelled too, and the balancer wants an answer.
        await asyncio.wait([asked], timeout=READY_S)
        if not asked.done():
            asked.cancel()
            return _DEGRADED
        return _ALIVE if asked.exception() is None else _DEGRADED


def jobs_fault(error: Exception, request_id: str) -> Response:
    answer = json_fault(error, request_id)
    if answer.status == 401:
        answer.headers += ((b"www-authenticate", b"Bearer"),)
    return answer


def _unknown(error: Forbidden) -> Refusal:
    return Refusal(401, "Unauthorized", error.message, field="authorization")


def _actor(principal: Principal) -> str:
    return principal.name or "anyone"


def _queued(made: model.Enqueued) -> bytes:
    return b"existing" if made.existing else b"queued"


def _status(job_id: str, status: str) -> Response:
    return Response(200, _encode({"job_id": job_id, "status": status}))


def _limits_of(found: model.JobLimits) -> Response:
    return Response(200, _encode(shapes.Limits(found.concurrency, found.rate, found.burst)))

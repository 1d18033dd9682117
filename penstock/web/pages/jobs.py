"""Jobs: find them, look at one, retry and cancel; dead jobs all at once, with the number stated before."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from starlette.routing import Route

from penstock.engine.jobs.jobs import MOST_AT_ONCE
from penstock.errors import Conflict, Forbidden, Invalid, JobNotFound
from penstock.limits import JOB_PAGE
from penstock.model import Scope, TenantId
from penstock.model.jobs import Job, JobCounts, JobFilter, JobStatus
from penstock.model.samples import SampleKind
from penstock.web.charts import OPEN_JOBS, Charts, span_of
from penstock.web.formats import duration
from penstock.web.forms import actor_of, audited, check_typed_name
from penstock.web.site import Call, Page, Site, path_of

ROWS = 50
HIDDEN = "this dashboard does not show payloads, so it does not find jobs by their values"
KEEP_COUNTS_S = 0.4
STATUSES = tuple(status for status in JobStatus if status is not JobStatus.FAILED)
ACTED = {JobStatus.DEAD: "matching-retried", JobStatus.PENDING: "matching-cancelled"}
"""Statuses whose jobs can be acted on together, and the word of what is reported."""
DONE = {
    "matching-retried": "{count:matching job was|matching jobs were} retried, {skipped} had changed meanwhile.",
    "matching-cancelled": "{count:matching job was|matching jobs were} cancelled, {skipped} had changed meanwhile.",
    "retried": "{count:dead job was brought back as a new job|dead jobs were brought back as new jobs}.",
    "removed": "{count:dead job was|dead jobs were} removed.",
    "cancelled": "The job was cancelled.",
}


class JobPages:
    def __init__(self, site: Site) -> None:
        self._site = site
        self._jobs = site.engine.jobs
        self._charts = Charts(site)

    def routes(self) -> list[Route]:
        site = self._site
        return [
            Route("/ui/jobs", site.page(self.show_list)),
            Route("/ui/jobs/{id}", site.page(self.show)),
            Route("/ui/jobs/{id}/cancel", site.action(self.cancel, self.show), methods=["POST"]),
            Route("/ui/jobs/{id}/retry", site.action(self.retry, self.show), methods=["POST"]),
            Route("/ui/jobs/matching/all/act", site.action(self.act_on_matching, self.show_list), methods=["POST"]),
            Route("/ui/jobs/dead/all/retry", site.action(self.retry_all, self.show_list), methods=["POST"]),
            Route("/ui/jobs/dead/all/remove", site.action(self.remove_all, self.show_list), methods=["POST"]),
        ]

    # Pages

    async def show_list(self, call: Call) -> Page:
        queue = (call.form.get("queue") or call.query.get("queue", "")).strip()
        status = _status(call.form.get("status") or call.query.get("status", ""))
        wanted, before = call.query.get("id", "").strip(), call.query.get("before", "")
        value = (call.form.get("value") or call.query.get("value", "")).strip()
        tag = (call.form.get("tag") or call.query.get("tag", "")).strip()
        if value and not self._site.settings.payloads:
            raise Forbidden(HIDDEN, field="value")
        asked = JobFilter(value=value or None, tag=tag or None, queue=queue or None, status=status)
        counts = await self._counts(call)
        jobs, older, note = await self._find(call, wanted, asked, before)
        filters = {"queue": queue, "status": status or "", "value": value, "tag": tag}
        chosen = next((one for one in counts if one.queue == queue), None)
        drawn = await self._charts.draw(call, SampleKind.JOB, queue, (OPEN_JOBS,))
        values = {
            "drawings": drawn,
            "span": span_of(call.query.get("span", "")).value,
            "counts": counts,
            "jobs": jobs,
            "find_note": note,
            "queue": queue,
            "status": status.value if status is not None else "",
            "statuses": [one.value for one in STATUSES],
            "wanted": wanted,
            "value": value,
            "tag": tag,
            "matching": 0 if call.streamed else await self._matching(call, asked),
            "most": MOST_AT_ONCE,
            "link": lambda **changes: _link(filters | changes),
            "next": older,
            "about": lambda job: _about(job, self._site.engine.clock.now()),
            "dead": chosen.dead if chosen is not None and status is JobStatus.DEAD else 0,
            "pending": chosen.pending if chosen is not None and status is JobStatus.PENDING else 0,
            "may_manage": bool(queue) and call.may(Scope.MANAGE, queue),
            "notice": call.notice(DONE),
        }
        return Page("jobs.html", "Jobs", values)

    async def show(self, call: Call) -> Page:
        job = await self._reached(call, Scope.READ)
        values = {
            "job": job,
            "attempts": await self._jobs.attempts(job.tenant, job.id),
            "may_cancel": job.status is JobStatus.PENDING and call.may(Scope.SEND, job.queue),
            "may_retry": job.status is JobStatus.DEAD and call.may(Scope.MANAGE, job.queue),
            "notice": call.notice(DONE),
        }
        return Page("job.html", f"Job {job.id}", values)

    async def _counts(self, call: Call) -> list[JobCounts]:
        tenant = call.principal.tenant
        found = await self._site.shared.get(("jobs", tenant), KEEP_COUNTS_S, lambda: self._jobs.counts(tenant))
        return sorted((one for _, one in found if call.principal.reaches(one.queue)), key=lambda one: one.queue)

    async def _find(
        self, call: Call, wanted: str, asked: JobFilter, before: str
    ) -> tuple[list[Job], str | None, str | None]:
        """Jobs of the page, where the next page begins, and what to say when there are none."""
        tenant = call.principal.tenant
        if wanted:
            try:
                job = await self._jobs.get(tenant, wanted)
                call.principal.require(Scope.READ, job.queue)
            except JobNotFound:
                return [], None, "There is no job with this id."
            return [job], None, None
        if not asked.queue and call.principal.queues != "*":
            return [], None, "Choose a queue: your token does not reach all of them."
        call.principal.require(Scope.READ, asked.queue)
        if asked.value or asked.tag:
            found = await self._jobs.find_jobs(tenant, asked, before=before or None, limit=ROWS)
            note = "No job found yet; the search goes on with older jobs." if found.next else "No job matches."
            return found.jobs, found.next, note
        jobs, _ = await self._jobs.list_jobs(
            tenant, queue=asked.queue, status=asked.status, before=before or None, limit=ROWS
        )
        return jobs, jobs[-1].id if len(jobs) == ROWS else None, "No job matches."

    async def _matching(self, call: Call, asked: JobFilter) -> int:
        """How many jobs an action over the filter would act on."""
        searched = asked.value or asked.tag
        if not searched or not asked.queue or asked.status not in ACTED or not call.may(Scope.MANAGE, asked.queue):
            return 0
        return len(await self._jobs.find_ids(call.principal.tenant, asked))

    async def _ids(self, tenant: TenantId, asked: JobFilter) -> list[str]:
        """The jobs of a filter that names a queue and a status, and perhaps a value and a tag."""
        if asked.value or asked.tag:
            return await self._jobs.find_ids(tenant, asked)
        ids: list[str] = []
        while len(ids) < MOST_AT_ONCE:
            before = ids[-1] if ids else None
            jobs, _ = await self._jobs.list_jobs(
                tenant, queue=asked.queue, status=asked.status, before=before, limit=JOB_PAGE[1]
            )
            if not jobs:
                break
            ids += [job.id for job in jobs]
        return ids[:MOST_AT_ONCE]

    async def _reached(self, call: Call, scope: Scope) -> Job:
        call.principal.require(scope)
        job = await self._jobs.get(call.principal.tenant, call.path["id"])
        call.principal.require(scope, job.queue)
        return job

    # Actions

    async def cancel(self, call: Call) -> str:
        job = await self._reached(call, Scope.SEND)
        await self._jobs.cancel(job.tenant, job.id)
        await audited(self._site.engine, call, "job cancelled", job.id, queue=job.queue)
        return f"{path_of('jobs', job.id)}?done=cancelled"

    async def retry(self, call: Call) -> str:
        job = await self._reached(call, Scope.MANAGE)
        count = await self._jobs.requeue_dead(job.tenant, job.queue, actor_of(call.principal), [job.id])
        if not count:
            raise Conflict("only dead jobs can be retried")
        return _link({"queue": job.queue, "done": "retried", "count": count})

    async def retry_all(self, call: Call) -> str:
        queue = _queue(call)
        call.principal.require(Scope.MANAGE, queue)
        count = await self._jobs.requeue_dead(call.principal.tenant, queue, actor_of(call.principal))
        return _link({"queue": queue, "done": "retried", "count": count})

    async def remove_all(self, call: Call) -> str:
        queue = _queue(call)
        call.principal.require(Scope.MANAGE, queue)
        check_typed_name(call, queue)
        count = await self._jobs.purge_dead(call.principal.tenant, queue, actor_of(call.principal))
        return _link({"queue": queue, "done": "removed", "count": count})

    async def act_on_matching(self, call: Call) -> str:
        """Retry dead jobs, or cancel pending ones: those with a value or a tag, or all of the queue."""
        queue, value, tag = _queue(call), call.form.get("value", "").strip(), call.form.get("tag", "").strip()
        status = _status(call.form.get("status", ""))
        if status not in ACTED:
            raise Invalid("an action needs the status dead or pending", field="status")
        call.principal.require(Scope.MANAGE, queue)
        if value and not self._site.settings.payloads:
            raise Forbidden(HIDDEN, field="value")
        if not (value or tag):
            check_typed_name(call, queue)
        tenant, actor = call.principal.tenant, actor_of(call.principal)
        wanted = JobFilter(value=value or None, tag=tag or None, queue=queue, status=status)
        ids, done = await self._ids(tenant, wanted), 0
        if status is JobStatus.DEAD:
            done = await self._jobs.requeue_dead(tenant, queue, actor, ids) if ids else 0
        else:
            for job in ids:
                # A job that a worker took meanwhile is not cancelled.
                with suppress(Conflict, JobNotFound):
                    await self._jobs.cancel(tenant, job)
                    done += 1
            await audited(self._site.engine, call, "pending jobs cancelled", queue, jobs=done, value=value, tag=tag)
        query = {"queue": queue, "done": ACTED[status], "count": done, "skipped": len(ids) - done}
        return _link(query)


def _about(job: Job, now: datetime) -> str:
    """What a list says of a job: who works on it, what it waits for, or what went wrong."""
    if job.status is JobStatus.PROCESSING and job.worker:
        return f"{job.worker}: {job.note}" if job.note else job.worker
    if job.status is JobStatus.PENDING and job.waiting_for:
        return f"waits for {'another job' if len(job.waiting_for) == 1 else f'{len(job.waiting_for)} jobs'}"
    reason = job.error or job.dead_reason or job.note or ""
    if job.status is JobStatus.PENDING and job.run_at > now:
        return f"runs in {duration((job.run_at - now).total_seconds())}" + (f", after: {reason}" if reason else "")
    return reason


def _queue(call: Call) -> str:
    queue = call.form.get("queue", "").strip()
    if not queue:
        raise Invalid("queue is required: the queue of the dead jobs", field="queue")
    return queue


def _status(text: str) -> JobStatus | None:
    if not text:
        return None
    if text not in {status.value for status in STATUSES}:
        raise Invalid(f"the status of a job is one of {', '.join(STATUSES)}", field="status")
    return JobStatus(text)


def _link(query: dict[str, Any]) -> str:
    kept = {name: value for name, value in query.items() if value not in ("", None)}
    return "/ui/jobs" + (f"?{urlencode(kept)}" if kept else "")

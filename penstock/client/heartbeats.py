"""Heartbeats: leases are renewed in time, progress goes with them, and a lease that is lost is noticed."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping

from penstock import errors
from penstock.client.api import jobs as calls
from penstock.client.exchange import ONCE, exchange
from penstock.client.running import RunningJob
from penstock.client.transport import AsyncTransport, drive_async

log = logging.getLogger("penstock.worker")

GONE = (errors.Conflict, errors.NotFound)


class Heartbeats:
    """Renews the leases of the jobs in `held`, by their tokens; calls `lose` when a lease may be lost."""

    def __init__(
        self,
        held: Mapping[str, RunningJob],
        transport: AsyncTransport,
        lease_s: int,
        lose: Callable[[RunningJob], None],
    ) -> None:
        self._held = held
        self._transport = transport
        self._lease_s = lease_s
        self._lose = lose
        self._loop = asyncio.get_running_loop()
        self._woken = asyncio.Event()
        self._under_way: dict[str, asyncio.Task[None]] = {}

    def wake(self) -> None:
        """There is progress to report. May be called from any thread."""
        self._loop.call_soon_threadsafe(self._woken.set)

    async def run(self) -> None:
        try:
            while True:
                self._woken.clear()
                pause_s = self._look(self._loop.time())
                # Not wait_for: before Python 3.12 it can swallow a cancellation that comes as we are woken.
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(pause_s):
                        await self._woken.wait()
        finally:
            for task in self._under_way.values():
                task.cancel()

    def _look(self, now: float) -> float:
        """Send what is due; seconds until the next look."""
        # A job leased later is due later than this, so it need not end the wait.
        next_at = now + self._lease_s / 3
        for job in list(self._held.values()):
            if job.is_lost:
                continue
            if now >= job.lease.ends_at:
                self._lose(job)
                continue
            next_at = min(next_at, job.lease.ends_at)
            if job.token in self._under_way:
                continue
            if now >= job.lease.beat_at or job.reported is not None:
                task = self._under_way[job.token] = self._loop.create_task(self._beat(job, now))
                task.add_done_callback(lambda _, token=job.token: self._beaten(token))  # type: ignore[misc]
            else:
                next_at = min(next_at, job.lease.beat_at)
        return max(next_at - now, 0.01)

    def _beaten(self, token: str) -> None:
        self._under_way.pop(token, None)
        self._woken.set()

    async def _beat(self, job: RunningJob, now: float) -> None:
        told = job.take_report()
        percent, note = told or (None, None)
        call = calls.heartbeat(job.leased, lease_seconds=self._lease_s, progress=percent, note=note)
        try:
            await drive_async(exchange(call, ONCE), self._transport)
        except GONE:
            # An outcome that arrived meanwhile ends the lease too.
            if job.token in self._held and not job.is_settled:
                self._lose(job)
        except errors.PenstockError as error:
            log.warning("the heartbeat of job %s failed: %s", job.id, error)
            job.report_again(told)
            job.lease.not_renewed(self._loop.time())
        else:
            job.lease.renewed(now)

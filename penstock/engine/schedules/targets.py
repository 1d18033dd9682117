"""What the fires of schedules need beside a queue: the subscribers of topics, and whom to wake."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from penstock.engine.topics.topics import Topics
from penstock.engine.waiting import Waiters, job_key
from penstock.model.schedules import Fired, Firing, Schedule, TargetKind, headers_of, mark, stamp
from penstock.model.topics import Fanout, Publish
from penstock.store import Store


class Targets:
    def __init__(self, store: Store, topics: Topics, waiters: Waiters) -> None:
        self._store = store
        self._topics = topics
        self._waiters = waiters

    async def prepare(self, firing: Firing) -> Firing:
        fanouts = await self.fanouts(firing.schedule, firing.times, out_of_band=False)
        return replace(firing, fanouts=fanouts) if fanouts else firing

    async def fanouts(self, schedule: Schedule, times: Sequence[datetime], *, out_of_band: bool) -> tuple[Fanout, ...]:
        """Who receives an event, where no SQL function can find out. It is stored in the transaction of the fire."""
        if schedule.settings.target_kind is not TargetKind.TOPIC or self._store.has_sql_publish:
            return ()
        topic = await self._topics.find(schedule.tenant, schedule.settings.target)
        publishes = [_publish(schedule, time, topic is not None, out_of_band) for time in times]
        if topic is not None and topic.fifo:
            for publish, time in zip(publishes, times, strict=True):
                publish.group_id = schedule.settings.group_id or schedule.name
                publish.dedup_id = f"{schedule.name}@{stamp(time)}"
        return tuple(await self._topics.expand(schedule.tenant, publishes))

    def wake(self, fired: Fired) -> None:
        """Receivers in this process, as far as it is known here who received."""
        settings = fired.schedule.settings
        if settings.target_kind is TargetKind.JOB:
            self._waiters.wake(job_key(fired.schedule.tenant, settings.target), len(fired.times))
        elif settings.target_kind is TargetKind.TOPIC:
            for fanout in fired.fanouts:
                for entry in fanout.queues:
                    self._waiters.wake((entry.send.tenant, entry.send.queue))
            self._topics.on_deliveries()


def _publish(schedule: Schedule, time: datetime, to_topic: bool, out_of_band: bool) -> Publish:
    settings = schedule.settings
    return Publish(
        tenant=schedule.tenant,
        topic=settings.target if to_topic else None,
        routing_key=None if to_topic else settings.target,
        body=settings.body,
        json=settings.json,
        headers=headers_of(settings.headers, mark(schedule.name, time, out_of_band=out_of_band, trace=schedule.trace)),
        delay_s=settings.delay_s,
    )

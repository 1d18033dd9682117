"""After the load: receive what is left, let everything end, and write down the final facts."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import psycopg

from tests.fire.history import Recorder
from tests.fire.load import events, jobs, queues
from tests.fire.load.doors import Rest, name_of
from tests.fire.site import Access

SCHEDULE = "tick"
PATIENCE_S = 120.0
"""How long nothing may change before the drain gives up."""
AT_ONCE = 1000
FACTS = ("work", "later", "once", "poison", "dead", "steps.fifo", "probe", "published", "scheduled", "two:work")
METRICS_S = 40.0
"""Servers set their gauges every 15 s."""
_METRIC = re.compile(r'(\w+)\{queue="([^"]+)",tenant="(\w+)"\} ([0-9.e+]+)')


def _is_settled(shown: dict[str, float], total: int | None) -> bool:
    """Whether the gauges of a queue are newer than its last change."""
    left = [shown.get(name) for name in ("queue_depth", "queue_in_flight", "queue_delayed")]
    return left == [0, 0, 0] and shown.get("queue_sent_messages") == total


class Drain:
    def __init__(
        self, recorder: Recorder, urls: list[str], dsn: str, access: Access, say: Callable[[str], None]
    ) -> None:
        self._recorder = recorder
        self._urls = urls
        self._dsn = dsn
        self._say = say
        self._access = access
        self._rest = Rest(recorder, urls, access.token)
        self._other = Rest(recorder, urls, access.other_token)
        self._done = 0
        self._totals: dict[str, int] = {}

    def _of(self, queue: str) -> Rest:
        return self._other if queue == queues.OTHER else self._rest

    def run(self, roles: tuple[str, ...]) -> None:
        self._pause()
        self._until("queues", self._queues)
        self._until("webhooks", self._webhooks)
        if "jobs" in roles:
            self._jobs()
        if "sink" in roles:
            self._streams()
        self._metrics()

    def _pause(self) -> None:
        number = self._recorder.begin("pause", SCHEDULE, {"at": datetime.now(UTC).isoformat()})
        self._rest.ask("PATCH", f"/v1/schedules/{SCHEDULE}", {"status": "paused"})
        self._recorder.end(number, "ok")

    def _until(self, what: str, finished: Callable[[], bool]) -> None:
        """What does not end in time is left to the checks."""
        give_up, done = time.monotonic() + PATIENCE_S, self._done
        while not finished():
            if self._done > done:
                give_up, done = time.monotonic() + PATIENCE_S, self._done
            if time.monotonic() > give_up:
                self._say(f"  {what} did not end within {PATIENCE_S:.0f} s")
                return
            time.sleep(0.05)

    def _length(self, queue: str) -> int:
        length: int = self._of(queue).ask("GET", f"/v1/queues/{name_of(queue)}")["queue_length"]
        return length

    def _queues(self) -> bool:
        for queue in FACTS:
            rest = self._of(queue)
            while found := rest.receive(queue, AT_ONCE, 1 if queue == "poison" else 10):
                self._done += len(found)
                if queue != "poison":
                    rest.delete(queue, found)
        if any(self._length(queue) for queue in FACTS):
            return False
        for queue in FACTS:
            path, rest = f"/v1/queues/{name_of(queue)}", self._of(queue)
            counted = rest._call("counts", queue, {}, lambda rest=rest, path=path: rest.ask("GET", path))  # type: ignore[misc]
            self._totals[queue] = counted.result["total_messages"]
        return True

    def _metrics(self) -> None:
        """What a node shows Prometheus, once its gauges are newer than the last change."""
        due = time.monotonic() + METRICS_S
        while True:
            shown = self._shown()
            settled = all(_is_settled(shown.get(queue, {}), self._totals.get(queue)) for queue in FACTS)
            if settled or time.monotonic() > due:
                break
            time.sleep(0.5)
        for queue in FACTS:
            self._recorder.end(self._recorder.begin("metrics", queue, {}), "ok", shown.get(queue, {}))

    def _shown(self) -> dict[str, dict[str, float]]:
        text = self._rest.text("/metrics")
        found: dict[str, dict[str, float]] = {}
        for name, queue, tenant, value in _METRIC.findall(text):
            found.setdefault(queue if tenant == "default" else f"{tenant}:{queue}", {})[name] = float(value)
        return found

    def _webhooks(self) -> bool:
        with psycopg.connect(self._dsn, autocommit=True) as connection:
            [waiting] = connection.execute("select count(*) from penstock.deliveries where state < 2").fetchone() or [0]
            if waiting:
                return False
            rows = connection.execute("select message_id::text, state from penstock.deliveries").fetchall()
        for message_id, state in rows:
            number = self._recorder.begin("delivery", "webhook", {"id": message_id})
            self._recorder.end(number, "ok", {"state": "delivered" if state == 2 else "exhausted"})
        return True

    def _jobs(self) -> None:
        client = jobs.JobClient(self._recorder, self._urls, self._access.token, 0)

        def finished() -> bool:
            for queue in (jobs.QUEUE, jobs.LIMITED):
                for leased in client.lease(queue, 50):
                    client.report("ack", queue, leased)
            counts = self._rest.ask("GET", "/dashboard/queues")
            return not any(each["pending"] or each["processing"] for each in counts)

        self._until("jobs", finished)
        for queue in (jobs.QUEUE, jobs.LIMITED):
            for job in client.client.jobs.all(queue_name=queue):
                self._rest._call("job", queue, {"id": job.id}, lambda job=job: self._detail(job.id))  # type: ignore[misc]
        client.close()

    def _detail(self, job_id: str) -> dict[str, Any]:
        found = self._rest.ask("GET", f"/jobs/{job_id}/detail")
        job = found.get("job", found)
        return {name: job[name] for name in ("status", "max_retries", "attempts")}

    def _streams(self) -> None:
        reader = events.Reader(self._recorder, self._urls, self._access.token)
        sent = 0
        with psycopg.connect(self._dsn, autocommit=True) as connection:
            # The last event: when both consumers have it, they have all before it.
            last = f"{self._recorder.process}-last"
            number = self._recorder.begin("event", events.STREAM, {"keys": [last]})
            connection.execute("select pgque.send(%s, 'default', %s::text)", [events.STREAM, last])
            self._recorder.end(number, "ok")

            def finished() -> bool:
                nonlocal sent
                sent = 0 if reader.step(wait=1) else sent + 1
                row = connection.execute(f"select 1 from {events.TABLE} where key = %s".encode(), [last]).fetchone()
                return sent >= 2 and row is not None

            self._until("streams", finished)
            rows = connection.execute(f"select key from {events.TABLE}".encode()).fetchall()
        number = self._recorder.begin("sink", events.STREAM, {"consumer": events.SINK})
        self._recorder.end(number, "ok", [key for (key,) in rows])

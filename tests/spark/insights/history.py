"""A history to count: some days of queues, jobs, deliveries and streams, written with times of their own."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import psycopg

NOW = datetime(2026, 3, 10, 12, 30, tzinfo=UTC)
HOUR = timedelta(hours=1)

ERRORS = ["timeout after {} ms", "no row with id {}", "connection to 10.0.0.{} refused"]


def micros(moment: datetime) -> int:
    return round(moment.timestamp() * 1_000_000)


class History:
    """Everything happens between two moments, a little more each time it is written."""

    def __init__(self, database: psycopg.Connection) -> None:
        self._database = database
        self._random = random.Random(11)
        self._number = 0
        database.execute("insert into penstock.tenants (id, name, created_at) values (7, 'other', now())")
        for queue in ("a", "b", "dead"):
            database.execute("select penstock.create_queue(%s)", [queue])
        database.execute(
            """
            insert into penstock.job_queues (tenant_id, name, created_at)
            select t.id, n, now() from penstock.tenants as t cross join unnest(array['mail', 'video']) as n
            """
        )
        for stream in ("orders", "t7:orders", "quiet"):
            database.execute("select pgque.create_queue(%s)", [stream])

    def write(self, since: datetime, until: datetime) -> None:
        for day in range((until.date() - since.date()).days + 1):
            self._database.execute("select penstock.make_job_day(%s)", [since + timedelta(days=day)])
        self._queues(since, until)
        self._jobs(since, until)
        self._deliveries(since, until)
        self._streams(since, until)

    def _queues(self, since: datetime, until: datetime) -> None:
        for _ in range(120):
            sent, ended = self._life(since, until)
            self._database.execute(
                """
                insert into penstock.archive (
                  id, tenant_id, queue, sent_at, archived_at, receives, priority, is_json, body
                )
                values (%s, %s, %s, %s, %s, %s, 0, false, '')
                """,
                [self._next(), self._tenant(), self._any("a", "b"), sent, ended, self._random.randint(1, 4)],
            )
        for _ in range(20):
            self._message("a", self._at(since, until))
        for _ in range(10):
            sent, dead = self._life(since, until)
            message = self._message("dead", sent)
            self._database.execute(
                """
                update penstock.messages
                set dead_letter_source = (select id from penstock.queues where name = 'b'), receives = 3,
                    visible_at = %s, lease = %s
                where id = %s
                """,
                [dead, micros(dead), message],
            )

    def _message(self, queue: str, sent: datetime) -> int:
        row = self._database.execute("select penstock.send(%s, 'x')", [queue]).fetchone()
        assert row is not None
        self._database.execute("update penstock.messages set sent_at = %s where id = %s", [sent, row[0]])
        return int(row[0])

    def _jobs(self, since: datetime, until: datetime) -> None:
        for _ in range(120):
            created, ended = self._life(since, until)
            tenant, number = self._tenant(), self._next()
            queue = self._database.execute(
                "select id from penstock.job_queues where tenant_id = %s and name = %s",
                [tenant, self._any("mail", "video")],
            ).fetchone()
            assert queue is not None
            state = self._random.choice([0, 3, 4, 4, 4, 5])
            attempts = self._random.randint(1, 3) if state in (3, 4) else 0
            for attempt in range(1, attempts + 1):
                outcome = "completed" if state == 4 and attempt == attempts else self._any("failed", "failed", "lost")
                moment = ended if attempt == attempts else created + (ended - created) * attempt / attempts
                self._database.execute(
                    "insert into penstock.job_attempts values (%s, %s, %s, %s, %s, 'w', %s, %s)",
                    [
                        queue[0],
                        number,
                        attempt,
                        moment,
                        moment,
                        outcome,
                        self._error() if outcome == "failed" else None,
                    ],
                )
            self._job(queue[0], number, tenant, created, ended, state, attempts)

    def _job(
        self, queue: int, number: int, tenant: int, created: datetime, ended: datetime, state: int, attempts: int
    ) -> None:
        if state in (4, 5):
            self._database.execute(
                """
                insert into penstock.finished_jobs (
                  queue_id, id, tenant_id, run_at, created_at, finished_at, priority, max_retries, retry_count,
                  attempts, lease_lost_count, state, payload
                )
                values (%s, %s, %s, %s, %s, %s, 0, 3, 0, %s, 0, %s, '{}')
                """,
                [queue, number, tenant, created, created, ended, attempts, state],
            )
            return
        self._database.execute(
            """
            insert into penstock.jobs (
              queue_id, id, tenant_id, place, due_at, run_at, created_at, updated_at, finished_at, priority,
              max_retries, attempts, state, payload
            )
            values (%s, %s, %s, 0, %s, %s, %s, %s, %s, 0, 3, %s, %s, '{}')
            """,
            [
                queue, number, tenant, created, created, created, created, ended if state == 3 else None,
                attempts, state,
            ],
        )  # fmt: skip

    def _deliveries(self, since: datetime, until: datetime) -> None:
        for _ in range(80):
            created, ended = self._life(since, until)
            state = self._random.choice([0, 2, 2, 3])
            self._database.execute(
                """
                insert into penstock.deliveries (
                  tenant_id, lane, due_at, state, attempts, subscription_id, created_at, finished_at, confirms,
                  subscription_key, message_id, topic, routing_key, endpoint, last_error, headers, body
                )
                values (%s, 1, %s, %s, %s, 1, %s, %s, false, '', '', %s, %s, 'http://x', %s, '', '')
                """,
                [
                    self._tenant(), created, state, self._random.randint(1, 5), created, ended if state else None,
                    *self._random.choice([("news", None), (None, "order.paid")]), self._error() if state == 3 else None,
                ],
            )  # fmt: skip

    def _streams(self, since: datetime, until: datetime) -> None:
        for stream in ("orders", "t7:orders"):
            for _ in range(100):
                self.event(stream, self._at(since, until), self._any("made", "paid", None))
            for retry in (1, 2, 1, 1):
                self.event(stream, self._at(since, until), "made", retry)
            for _ in range(8):
                self.dead_letter(stream, *self._life(since, until))

    def event(self, stream: str, moment: datetime, kind: str | None = "made", retry: int | None = None) -> None:
        self._database.execute(
            "select pgque.insert_event_raw(%s, null, %s, %s, %s, %s, '{}', null, null, null, null)",
            [stream, moment, None if retry is None else 1, retry, kind],
        )

    def dead_letter(self, stream: str, sent: datetime, dead: datetime) -> None:
        self._database.execute(
            """
            insert into pgque.dead_letter (
              dl_queue_id, dl_consumer_id, dl_consumer_name, dl_time, dl_reason, ev_id, ev_time
            )
            values ((select queue_id from pgque.queue where queue_name = %s), 1, 'shop', %s, %s, %s, %s)
            """,
            [stream, dead, self._error(), self._next(), sent],
        )

    def _next(self) -> int:
        self._number += 1
        return self._number

    def _tenant(self) -> int:
        return self._random.choice([1, 1, 7])

    def _any(self, *choices: str | None) -> str | None:
        return self._random.choice(choices)

    def _error(self) -> str:
        return self._random.choice(ERRORS).format(self._random.randint(1, 255))

    def _at(self, since: datetime, until: datetime) -> datetime:
        return since + timedelta(seconds=round(self._random.random() * (until - since).total_seconds(), 3))

    def _life(self, since: datetime, until: datetime) -> tuple[datetime, datetime]:
        """A beginning and an end, most of them near each other."""
        began = self._at(since, until)
        lasted = timedelta(seconds=round(min(self._random.expovariate(1 / 600), 7000), 3))
        return began, min(began + lasted, until)

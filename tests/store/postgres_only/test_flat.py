"""A long transaction elsewhere pins what vacuum may remove; the cost of a message must not grow with the dead.

Costs are counted in buffers, which do not depend on the machine.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import asyncpg
import pytest

from penstock.clock import SystemClock
from penstock.model import DEFAULT_TENANT, Handle, Outcome, QueueSettings, Receive, Received, Send
from penstock.store.postgres.queues import hints
from penstock.store.postgres.store import PostgresStore
from tests.store.postgres_only.test_plans import LEAVE_ALONE
from tests.store.statistics import FLUSH

BATCH = 50

FLAT = 1.3
"""The last tenth of the messages may cost so many times the first."""


@pytest.fixture
async def store(migrated_database: str) -> AsyncIterator[PostgresStore]:
    """One connection for claims and one for the rest, so that the numbers of each can be asked for."""
    store = PostgresStore(migrated_database, max_connections=2)
    await store.open()
    # What a vacuum reads, or a worker that summarizes, would be counted too.
    for statement in LEAVE_ALONE.strip().splitlines():
        await store._connections.pools()[0].execute(statement)
    yield store
    await store.close()


@pytest.fixture
async def analyst(migrated_database: str) -> AsyncIterator[Any]:
    """Reads, in a transaction that stays open."""
    connection = await asyncpg.connect(migrated_database)
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        await connection.fetchval("select count(*) from penstock.messages")
        yield connection
    await connection.close()


@pytest.fixture
async def meter(store: PostgresStore, migrated_database: str) -> AsyncIterator[Meter]:
    connection = await asyncpg.connect(migrated_database)
    yield Meter(store, connection)
    await connection.close()


class Meter:
    """Buffers touched for messages, by table and index."""

    QUERY = """
        select 'heap', heap_blks_hit + heap_blks_read
        from pg_statio_user_tables
        where relid = 'penstock.messages'::regclass
        union all
        select indexrelname, idx_blks_hit + idx_blks_read
        from pg_statio_user_indexes
        where relid = 'penstock.messages'::regclass
    """

    def __init__(self, store: PostgresStore, connection: Any) -> None:
        self._store = store
        self._connection = connection
        self._last: Counter[str] = Counter()

    async def spent(self) -> Counter[str]:
        for pool in self._store._connections.pools():
            for statement in FLUSH:
                await pool.execute(statement)
        now = Counter({name: int(blocks) for name, blocks in await self._connection.fetch(self.QUERY)})
        spent, self._last = now - self._last, now
        return spent


def group_per_message(number: int) -> str:
    return uuid4().hex


def few_groups(number: int) -> str:
    return f"group-{number}"


async def cycle(store: PostgresStore, queue: str, group_of: Callable[[int], str]) -> None:
    """Send, receive and delete one batch."""
    now = SystemClock().now
    entries = [
        Send(tenant=DEFAULT_TENANT, queue=queue, body="body", group_id=group_of(number), dedup_id=dedup_id(queue))
        for number in range(BATCH)
    ]
    await store.send_many(entries, now())
    [received] = await store.receive_many([Receive(tenant=DEFAULT_TENANT, queue=queue, limit=BATCH)], now())
    assert isinstance(received, Received)
    assert len(received.messages) == BATCH
    handles = [Handle(tenant=DEFAULT_TENANT, queue=queue, id=m.id, lease=m.lease) for m in received.messages]
    assert set(await store.delete_many(handles, now())) == {Outcome.DONE}


def dedup_id(queue: str) -> str | None:
    return uuid4().hex if queue.endswith(".fifo") else None


async def costs(
    store: PostgresStore, meter: Meter, queue: str, count: int, group_of: Callable[[int], str]
) -> list[float]:
    """Buffers per message, for each tenth of so many messages."""
    await store.create_queue(DEFAULT_TENANT, queue, QueueSettings(visibility_timeout_s=1), SystemClock().now())
    await meter.spent()
    tenths = []
    for _ in range(10):
        for _ in range(count // BATCH // 10):
            await cycle(store, queue, group_of)
        tenths.append((await meter.spent()).total() * 10 / count)
    return tenths


@pytest.mark.slow
@pytest.mark.parametrize(("queue", "count"), [("work", 20_000), ("work.fifo", 8_000)])
async def test_the_cost_of_a_message_stays_flat(
    store: PostgresStore, analyst: Any, meter: Meter, queue: str, count: int
) -> None:
    tenths = await costs(store, meter, queue, count, group_per_message)

    assert tenths[-1] <= FLAT * tenths[0], tenths


@pytest.mark.slow
async def test_a_group_that_is_used_again_and_again_costs_what_it_has_left_behind(
    store: PostgresStore, analyst: Any, meter: Meter
) -> None:
    """Its dead messages lie together in the index, and every look at the group passes them."""
    count = 4_000
    tenths = await costs(store, meter, "work.fifo", count, few_groups)

    assert tenths[-1] <= FLAT * tenths[0] + 6 * count / BATCH, tenths


DEAD = 50_000


async def receive_one(user: Any) -> tuple[str, int]:
    """The body of the next message, and the buffers that the receive touched."""
    text = await user.fetchval(
        "explain (analyze, buffers, verbose, format json) select penstock.keep_body(body) from penstock.receive('work')"
    )
    return await user.fetchval("select current_setting('test.body')"), json.loads(text)[0]["Plan"]["Shared Hit Blocks"]


async def with_the_dead(dsn: str, left: int = 0) -> tuple[Any, list[str]]:
    """A session, with so many messages in a queue behind many that were deleted."""
    user = await asyncpg.connect(dsn)
    await user.execute(
        """
        create function penstock.keep_body(body text) returns text language sql volatile
        as $$ select set_config('test.body', body, false) $$;
        select set_config('test.body', '', false);
        select penstock.create_queue('work');
        """
    )
    bodies = [f"body {number}" for number in range(DEAD + left)]
    ids = await user.fetchval("select penstock.send_batch('work', $1)", bodies)
    await user.execute("delete from penstock.messages where id < $1", ids[0] + DEAD)
    return user, bodies[DEAD:]


async def settle(user: Any) -> None:
    """The last look of the session was long ago, and what it remembers holds for long."""
    await user.execute(
        """
        select set_config(
          'penstock.receive_hint', array[h[1], h[2], h[3], h[4] * 2, 2 ^ 62, h[6], 0]::bigint[]::text, false
        )
        from (select current_setting('penstock.receive_hint')::bigint[]) as s (h)
        """
    )


async def test_a_sql_session_starts_behind_the_dead(migrated_database: str, analyst: Any) -> None:
    user, bodies = await with_the_dead(migrated_database, left=10)
    other = await asyncpg.connect(migrated_database)

    first, _ = await receive_one(user)
    await settle(user)
    second, _ = await receive_one(user)
    third, hinted = await receive_one(user)
    fourth, walked = await receive_one(other)

    assert [first, second, third, fourth] == bodies[:4]
    assert hinted * 5 < walked

    await user.fetchval("select penstock.send('work', 'urgent', priority => 500)")
    assert (await receive_one(user))[0] == "urgent"
    await user.close()
    await other.close()


async def test_a_sql_session_that_finds_nothing_does_not_walk_again(migrated_database: str, analyst: Any) -> None:
    user, _ = await with_the_dead(migrated_database)
    other = await asyncpg.connect(migrated_database)
    _, walked = await receive_one(user)
    await settle(user)
    await receive_one(user)
    await settle(user)
    await receive_one(user)

    _, again = await receive_one(user)
    assert again * 20 < walked

    # What comes at the end is found at once, as is what the session itself puts in front.
    await other.fetchval("select penstock.send('work', 'usual')")
    assert (await receive_one(user))[0] == "usual"
    message = await user.fetchrow("select id, lease from penstock.messages where body = 'usual'")
    await user.execute("select penstock.change_visibility('work', $1, 0, $2)", *message)
    assert (await receive_one(user))[0] == "usual"
    await user.fetchval("select penstock.send('work', 'urgent', priority => 500)")
    assert (await receive_one(user))[0] == "urgent"

    await other.execute("select penstock.create_queue('dead'), penstock.send('dead', 'redriven', priority => 500)")
    await receive_one(user)
    await settle(user)
    await receive_one(user)
    assert await user.fetchval("select penstock.redrive('dead', 'work')") == 1
    assert (await receive_one(user))[0] == "redriven"
    await user.close()
    await other.close()


async def test_neither_does_one_whose_queue_has_a_receive_limit(migrated_database: str, analyst: Any) -> None:
    user, _ = await with_the_dead(migrated_database)
    await user.execute(
        """
        select penstock.create_queue('dead');
        select penstock.alter_queue('work', '{"max_receives": 3, "dead_letter_queue": "dead"}');
        """
    )
    _, walked = await receive_one(user)
    await settle(user)
    await receive_one(user)
    await settle(user)
    await receive_one(user)

    _, again = await receive_one(user)
    assert again * 20 < walked

    await user.fetchval("select penstock.send('work', 'usual')")
    assert (await receive_one(user))[0] == "usual"
    await user.close()


async def test_a_sql_session_passes_over_a_message_for_a_moment(migrated_database: str, analyst: Any) -> None:
    user, _ = await with_the_dead(migrated_database)
    other = await asyncpg.connect(migrated_database)
    await receive_one(user)
    await settle(user)
    clock = "select penstock.next_lease(0, clock_timestamp())"
    began = await user.fetchval(clock)
    await receive_one(user)
    until = await user.fetchval("select (current_setting('penstock.receive_hint')::bigint[])[4]")
    assert began < until <= await user.fetchval(clock) + 1_000_000
    await settle(user)
    await other.fetchval("select penstock.send('work', 'urgent', priority => 500)")

    assert (await receive_one(user))[0] == ""

    await user.execute(
        """
        select set_config('penstock.receive_hint', array[h[1], h[2], h[3], 0, h[5], h[6], h[7]]::text, false)
        from (select current_setting('penstock.receive_hint')::bigint[]) as s (h)
        """
    )
    assert (await receive_one(user))[0] == "urgent"
    await user.close()
    await other.close()


async def test_a_hint_of_a_sql_session_hides_no_message(migrated_database: str, analyst: Any) -> None:
    user = await asyncpg.connect(migrated_database)
    await user.execute("select penstock.create_queue('work')")
    [first, second] = await user.fetchval("select penstock.send_batch('work', '{first, second}')")
    bin_id = await user.fetchval("select bin_id from penstock.queues where name = 'work'")
    place = await user.fetchval("select place from penstock.messages where id = $1", second)
    far = 2**62
    hint = f"{{{bin_id},{place},0,0,{far},{place},{far}}}"
    await user.execute(f"select set_config('penstock.receive_hint', '{hint}', false)")

    received = [row["id"] for _ in range(3) for row in await user.fetch("select id from penstock.receive('work')")]

    assert received == [second, first]
    await user.close()


async def look(store: PostgresStore, now: datetime) -> Received:
    [received] = await store.receive_many([Receive(tenant=DEFAULT_TENANT, queue="work", limit=1)], now)
    assert isinstance(received, Received)
    return received


async def test_a_node_that_finds_nothing_does_not_walk_again(
    store: PostgresStore, analyst: Any, meter: Meter, migrated_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hints, "SHARE", 10_000)  # so that what is known holds for a second, however fast the walk was
    user, _ = await with_the_dead(migrated_database)
    start = datetime.now(UTC)
    await look(store, start)
    await look(store, start + timedelta(seconds=3))
    await meter.spent()
    await look(store, start + timedelta(seconds=6))
    walked = (await meter.spent()).total()
    began = start + timedelta(seconds=6.1)

    again = await look(store, began)
    assert (await meter.spent()).total() * 20 < walked
    # A receiver that waits looks again when everything is looked at.
    assert again.next_due_at is not None
    assert began < again.next_due_at <= began + timedelta(seconds=5)

    await user.fetchval("select penstock.send('work', 'usual')")
    assert [message.body for message in (await look(store, began)).messages] == ["usual"]
    await user.fetchval("select penstock.send('work', 'urgent', priority => 500)")
    assert (await look(store, began)).messages == []
    assert [message.body for message in (await look(store, again.next_due_at)).messages] == ["urgent"]
    await user.close()


async def test_a_node_knows_what_it_put_in_front_itself(
    store: PostgresStore, analyst: Any, migrated_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hints, "SHARE", 10_000)
    user, _ = await with_the_dead(migrated_database)
    now = datetime.now(UTC)
    for seconds in (0, 3, 6):
        await look(store, now + timedelta(seconds=seconds))
    now += timedelta(seconds=6.1)

    await store.send_many([Send(tenant=DEFAULT_TENANT, queue="work", body="urgent", priority=500)], now)
    [message] = (await look(store, now)).messages
    assert message.body == "urgent"

    handle = Handle(tenant=DEFAULT_TENANT, queue="work", id=message.id, lease=message.lease)
    await store.change_visibility_many([(handle, 0)], now)
    assert [again.body for again in (await look(store, now)).messages] == ["urgent"]
    await user.close()

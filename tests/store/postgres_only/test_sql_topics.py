"""Topics and events from SQL: what happens in the user's transaction, and what the server does after it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator

import psycopg
import pytest

from penstock.clock import SystemClock
from penstock.engine import Engine
from penstock.engine.topics.routing_keys import Patterns
from penstock.model import Receive, TenantId
from penstock.model.topics import NewSubscription, Publish
from penstock.store.postgres.store import PostgresStore
from tests.store.postgres_only.roles import User, user_of


@pytest.fixture
def user(dsn: str) -> Iterator[User]:
    """A user in a new tenant, with two queues and a topic."""
    with user_of(dsn) as user:
        for queue in ("work", "other", "line.fifo"):
            user.one("select penstock.create_queue(%s)", queue)
        for topic in ("news", "news.fifo"):
            user.one("select penstock.create_topic(%s)", topic)
        yield user


@pytest.fixture
async def engine(dsn: str) -> AsyncIterator[Engine]:
    engine = Engine(PostgresStore(dsn), SystemClock())
    await engine.open()
    yield engine
    await engine.close()


def tenant_of(user: User) -> TenantId:
    return TenantId(user.one("select penstock.current_tenant()"))


def bodies(user: User, queue: str) -> list[str]:
    rows = user.connection.execute("select body from penstock.receive(%s, 30, 100)", (queue,)).fetchall()
    return [body for (body,) in rows]


async def received(engine: Engine, user: User, queue: str) -> list[str]:
    found = await engine.messages.receive(Receive(tenant=tenant_of(user), queue=queue, limit=10))
    return [message.body for message in found]


def test_a_publish_is_there_when_its_transaction_commits(user: User) -> None:
    assert user.one("select penstock.subscribe('news', 'work')") is True
    assert user.one("select penstock.subscribe('news', 'work')") is False

    with user.connection.transaction():
        user.one("select penstock.publish('news', 'a')")
    with user.connection.transaction(force_rollback=True):
        user.one("select penstock.publish('news', 'b')")

    assert bodies(user, "work") == ["a"]


async def test_mail_of_a_publish_is_in_the_outbox_when_its_transaction_commits(user: User, engine: Engine) -> None:
    tenant = tenant_of(user)
    for address in ("ada@example.com", "bob@example.com"):
        new = NewSubscription(tenant=tenant, topic="news", protocol="email", endpoint=address)
        await engine.topics.subscribe(new)

    with user.connection.transaction():
        message_id = user.one(
            """select penstock.publish('news', 'a', 'Hi', '{"n": {"type": "Number", "value": "1"}}')"""
        )
    with user.connection.transaction(force_rollback=True):
        user.one("select penstock.publish('news', 'b')")

    items = await engine.outbox.list(tenant)
    assert [(each.address, each.subject, each.body, each.message_id) for each in reversed(items)] == [
        ("ada@example.com", "Hi", "a", message_id),
        ("bob@example.com", "Hi", "a", message_id),
    ]
    assert json.loads(items[0].attributes or "") == {"n": {"type": "Number", "value": "1"}}
    assert await engine.topics.send_outgoing() == 0


def test_events_go_where_their_patterns_say(user: User) -> None:
    user.one("select penstock.subscribe_events('orders.#', 'work')")
    user.one("select penstock.subscribe_events('*.made', 'other')")

    for key in ("orders", "orders.made", "bills.made", "bills.made.twice"):
        user.one("select penstock.publish_event(%s, %s::text)", key, key)

    assert bodies(user, "work") == ["orders", "orders.made"]
    assert bodies(user, "other") == ["orders.made", "bills.made"]


def test_the_database_and_the_server_agree_on_patterns(user: User) -> None:
    segments = ["a", "b", "*", "#"]
    patterns = [".".join((x, y, z)) for x in segments for y in segments for z in segments] + segments
    keys = ["a", "b", "a.b", "b.a", "a.a.a", "a.b.a", "a.b.a.b", "b.b.b.b.b"]
    for key in keys:
        tree: Patterns[str] = Patterns()
        for number, pattern in enumerate(patterns):
            tree.add(pattern, number, pattern)
        query = "select p from unnest(%s::text[]) as p where %s ~ penstock.pattern_expression(p)"
        found = {row[0] for row in user.connection.execute(query, (patterns, f"{key}.")).fetchall()}
        assert found == set(tree.match(key)), key


def test_a_fifo_topic_knows_a_repetition(user: User) -> None:
    user.one("select penstock.subscribe('news.fifo', 'line.fifo')")
    call = "select penstock.publish('news.fifo', %s, group_id => 'g', dedup_id => %s)"

    first = user.one(call, "a", "one")
    assert user.one(call, "b", "one") == first
    user.one(call, "c", "two")

    assert bodies(user, "line.fifo") == ["a", "c"]
    with pytest.raises(psycopg.Error) as caught:
        user.one("select penstock.publish('news.fifo', 'a')")
    assert caught.value.sqlstate == "PS010"


def test_what_is_not_there_or_not_right(user: User) -> None:
    for call, code in (
        ("select penstock.publish('nothing', 'a')", "PS025"),
        ("select penstock.publish('news', null)", "PS010"),
        ("""select penstock.publish('news', 'a', attributes => '{"a": 1}')""", "PS010"),
        ("""select penstock.publish('news', 'a', attributes => '[]')""", "PS010"),
        ("select penstock.publish_event('a..b', 'a'::text)", "PS010"),
        ("select penstock.publish_event('a.*', 'a'::text)", "PS010"),
        ("select penstock.subscribe('news', 'nothing')", "PS021"),
        ("select penstock.subscribe('nothing', 'work')", "PS025"),
        ("select penstock.subscribe_events('a.**', 'work')", "PS010"),
        ("select penstock.create_topic('a b')", "PS011"),
    ):
        with pytest.raises(psycopg.Error) as caught:
            user.one(call)
        assert caught.value.sqlstate == code, call


def test_an_ended_subscription_receives_nothing(user: User) -> None:
    user.one("select penstock.subscribe('news', 'work')")

    assert user.one("select penstock.unsubscribe('news', 'work')") is True
    assert user.one("select penstock.unsubscribe('news', 'work')") is False
    user.one("select penstock.publish('news', 'a')")

    assert bodies(user, "work") == []


async def test_the_server_serves_filters_and_envelopes_after_the_commit(engine: Engine, user: User) -> None:
    tenant = tenant_of(user)
    filtered = {"FilterPolicy": '{"kind": ["a"]}', "FilterPolicyScope": "MessageBody", "RawMessageDelivery": "true"}
    for queue, attributes in (("work", filtered), ("other", {})):
        new = NewSubscription(
            tenant=tenant, topic="news", protocol="sqs", endpoint=queue, target=queue, attributes=attributes
        )
        await engine.topics.subscribe(new)
    published = user.one("""select penstock.publish('news', '{"kind": "a"}')""")
    user.one("""select penstock.publish('news', '{"kind": "b"}')""")

    while await engine.topics.send_outgoing():
        pass

    assert await received(engine, user, "work") == ['{"kind": "a"}']
    envelopes = [json.loads(body) for body in await received(engine, user, "other")]
    assert [envelope["Message"] for envelope in envelopes] == ['{"kind": "a"}', '{"kind": "b"}']
    assert envelopes[0]["MessageId"] == published


async def test_a_publish_whose_topic_is_gone_by_then_is_forgotten(engine: Engine, user: User) -> None:
    new = NewSubscription(tenant=tenant_of(user), topic="news", protocol="sqs", endpoint="work", target="work")
    await engine.topics.subscribe(new)
    user.one("select penstock.publish('news', 'a')")
    user.one("select penstock.drop_topic('news')")

    while await engine.topics.send_outgoing():
        pass

    assert await received(engine, user, "work") == []


async def test_two_servers_carry_a_publish_out_once(engine: Engine, dsn: str, user: User) -> None:
    new = NewSubscription(tenant=tenant_of(user), topic="news", protocol="sqs", endpoint="work", target="work")
    await engine.topics.subscribe(new)
    user.one("select penstock.publish('news', 'a')")
    [outgoing] = [o for o in await engine.store.topics.outgoing(1000) if o.publish.tenant == new.tenant]

    first = await engine.topics.publish(outgoing.publish)
    second = await engine.topics.publish(outgoing.publish)

    assert (len(first.sent), len(second.sent)) == (1, 0)


async def test_a_stream_receives_events_in_the_transaction_of_the_publish(engine: Engine, user: User) -> None:
    # Of tenants other than the first, streams have names that no other can ask for.
    stream = f"t{tenant_of(user)}:news"
    user.one("select pgque.create_queue(%s)", stream)
    user.one("select pgque.register_consumer(%s, 'reader')", stream)
    name_here = stream.removeprefix(f"t{tenant_of(user)}:")
    for name in (name_here, "no-such-stream"):
        new = NewSubscription(
            tenant=tenant_of(user), pattern="#", protocol="stream", endpoint=name, target=name,
            attributes={"RawMessageDelivery": "true"},
        )  # fmt: skip
        await engine.topics.subscribe(new)

    await engine.topics.publish(Publish(tenant=tenant_of(user), routing_key="orders.made", body="hello"))

    user.one("select pgque.force_tick(%s)", stream)
    user.one("select pgque.ticker(%s)", stream)
    batch = user.one("select pgque.next_batch(%s, 'reader')", stream)
    rows = user.rows("select ev_type, ev_data from pgque.get_batch_events(%s)", batch)
    assert rows == [("orders.made", "hello")]

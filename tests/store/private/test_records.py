"""Private queues on PostgreSQL: what each operation does, and known mistakes that this store does not repeat."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence

import pytest

from penstock.client.private import new_key, public_key
from penstock.clock import FakeClock
from penstock.engine import Engine
from penstock.engine.private.cache import RecordCache
from penstock.engine.private.queues import DELETED_KEPT
from penstock.errors import Conflict, Forbidden, Invalid, NotFound, Unsupported
from penstock.model.private import LinkData, NewPrivateQueue, Party, PrivateRecord, PrivateStatus
from penstock.store.sqlite.store import SqliteStore
from tests.store.private.keys import KEY, PUBLIC, sign


class Counted:
    """Counts the statements that look records up."""

    def __init__(self, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[int] = []
        find = engine.store.private.find

        async def counted(party: Party, ids: Sequence[bytes]) -> list[PrivateRecord]:
            self.calls.append(len(ids))
            return await find(party, ids)

        monkeypatch.setattr(engine.private, "cache", RecordCache(counted))
        engine.store.private.watch(engine.private.cache.announce)


def other_public() -> bytes:
    return public_key(new_key())


async def test_each_party_finds_the_queue_by_its_own_id_only(node: Engine) -> None:
    made = await node.private.add_notifier(await node.private.create(PUBLIC), other_public())
    made = await node.private.set_link(made, None, LinkData(b"f", b"m"))

    for party in Party:
        own = made.id_of(party)
        assert own is not None
        assert len(own) == 24
        for asked in Party:
            found = await node.private.find(asked, own)
            assert (found == made) is (asked is party)


async def test_a_warm_look_up_by_sender_id_asks_the_database_nothing(
    node: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = await node.private.create(PUBLIC)
    counted = Counted(node, monkeypatch)

    for _ in range(5):
        assert await node.private.find(Party.SENDER, made.sender_id) == made

    assert counted.calls == [1]


async def test_a_thousand_cold_look_ups_take_one_statement(node: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    made = await node.private.create_many([(PUBLIC, None)] * 1000)
    counted = Counted(node, monkeypatch)

    found = await node.private.find_many(Party.SENDER, [record.sender_id for record in made])

    assert [found[record.sender_id] for record in made] == made
    assert counted.calls == [1000]


async def test_loads_of_one_id_at_the_same_time_are_one(node: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    made = await node.private.create(PUBLIC)
    counted = Counted(node, monkeypatch)

    found = await asyncio.gather(*(node.private.find(Party.SENDER, made.sender_id) for _ in range(20)))

    assert found == [made] * 20
    assert counted.calls == [1]
    assert node.private.cache.locks == 0


async def test_the_first_sender_key_wins(node: Engine, other_node: Engine) -> None:
    made = await node.private.create(PUBLIC)
    same = await other_node.private.find(Party.RECIPIENT, made.recipient_id)
    assert same is not None
    one, two = other_public(), other_public()

    answers = await asyncio.gather(
        node.private.secure(made, one), other_node.private.secure(same, two), return_exceptions=True
    )

    won = [answer for answer in answers if isinstance(answer, PrivateRecord)]
    assert len(won) == 1
    assert sum(isinstance(answer, Conflict) for answer in answers) == 1
    current = await node.store.private.get(made.number)
    assert current is not None
    assert current.sender_key == won[0].sender_key


async def test_securing_again_with_the_same_key_asks_the_database_nothing(
    node: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    secured = await node.private.secure(await node.private.create(PUBLIC), PUBLIC)

    async def refuse(*_: object) -> None:
        raise AssertionError("asked the database")

    monkeypatch.setattr(node.store.private, "secure", refuse)

    assert await node.private.secure(secured, PUBLIC) == secured
    with pytest.raises(Conflict):
        await node.private.secure(secured, other_public())


async def test_notifier_look_ups_stay_cached_alone_and_in_batches(
    node: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not a one-shot cache, whose second look-up asks again."""
    made = await node.private.add_notifier(await node.private.create(PUBLIC), other_public())
    assert made.notifier_id is not None
    counted = Counted(node, monkeypatch)

    for _ in range(3):
        assert await node.private.find(Party.NOTIFIER, made.notifier_id) == made
        assert (await node.private.find_many(Party.NOTIFIER, [made.notifier_id]))[made.notifier_id] == made

    assert counted.calls == [1]


async def test_a_change_reaches_all_ids_at_once(node: Engine) -> None:
    """Not one map after the other, with a half-known queue in between."""
    made = await node.private.create(PUBLIC)
    seen: list[bool] = []

    def look() -> None:
        known = [node.private.cache.peek(party, made.id_of(party) or b"")[1] for party in Party][:2]
        seen.append(known[0] is known[1])

    loop = asyncio.get_running_loop()
    for _ in range(20):
        loop.call_soon(look)
        made = await node.private.set_recipient_keys(made, [other_public()])
        loop.call_soon(look)
        await asyncio.sleep(0)

    assert all(seen)


async def test_the_locks_of_a_queue_are_gone_after_use(node: Engine) -> None:
    """Not a map of locks that only grows."""
    for _ in range(50):
        made = await node.private.create(PUBLIC)
        await node.private.add_notifier(made, other_public())
        await node.private.find(Party.SENDER, secrets.token_bytes(24))

    assert node.private.cache.locks == 0


async def test_no_id_of_a_deleted_queue_stays_in_memory(node: Engine) -> None:
    """Not links that are never cleaned."""
    made = await node.private.add_notifier(await node.private.create(PUBLIC), other_public())
    made = await node.private.set_link(made, None, LinkData(b"f", b"m"))

    await node.private.delete(made)

    for party in Party:
        own = made.id_of(party)
        assert own is not None
        assert node.private.cache.peek(party, own) == (False, None)
        assert await node.private.find(party, own) is None
    with pytest.raises(Forbidden):
        await node.private.link_data(made.link_id or b"")


async def test_a_missing_queue_is_one_error_cached_or_not_alone_or_in_a_batch(node: Engine, clock: FakeClock) -> None:
    """Not different codes for one condition."""
    missing = secrets.token_bytes(24)
    errors = []
    for _ in range(2):
        with pytest.raises(Forbidden) as alone:
            await node.private.admit(Party.RECIPIENT, missing, sign(KEY, clock))
        [together] = await node.private.admit_many(Party.RECIPIENT, [(missing, sign(KEY, clock))])
        assert isinstance(together, Forbidden)
        errors += [alone.value.message, together.message]

    assert len(set(errors)) == 1


async def test_a_taken_link_id_is_one_error_cached_or_not(node: Engine, other_node: Engine) -> None:
    owner = await node.private.set_link(await node.private.create(PUBLIC), None, LinkData(b"f", b""))
    messages = []
    for engine in (node, other_node):
        mine = await engine.private.create(PUBLIC)
        with pytest.raises(Conflict) as refused:
            await engine.private.set_link(mine, owner.link_id, LinkData(b"g", b""))
        messages.append(refused.value.message)

    # Not the database's own text, which would name columns and values.
    assert messages == ["the id is taken"] * 2


async def test_imported_bytes_come_back_whole(node: Engine) -> None:
    """Not CSV without escaping."""
    odd = b'",\n\\N\t\x00' + bytes(range(24))
    records = [
        NewPrivateQueue(
            recipient_id=(b'",\n\\' + secrets.token_bytes(24))[:24],
            sender_id=(b"\t\x00," + secrets.token_bytes(24))[:24],
            recipient_keys=(PUBLIC, other_public()),
            sender_key=PUBLIC,
            notifier_id=secrets.token_bytes(24),
            notifier_key=PUBLIC,
            link_id=secrets.token_bytes(24),
            fixed_data=odd,
            mutable_data=b"",
        )
        for _ in range(10)
    ]

    assert await node.private.import_records(iter(records)) == 10

    found = await node.private.find_many(Party.RECIPIENT, [each.recipient_id for each in records])
    for each in records:
        record = found[each.recipient_id]
        assert record is not None
        assert (record.sender_id, record.recipient_keys, record.sender_key, record.notifier_id, record.link_id) == (
            each.sender_id, each.recipient_keys, each.sender_key, each.notifier_id, each.link_id,
        )  # fmt: skip
        assert await node.private.link_data(each.link_id or b"") == LinkData(odd, b"")


async def test_an_import_with_a_taken_id_stores_nothing(node: Engine) -> None:
    known = await node.private.create(PUBLIC)
    before = await node.private.counts()
    fresh = NewPrivateQueue(
        recipient_id=secrets.token_bytes(24), sender_id=secrets.token_bytes(24), recipient_keys=(PUBLIC,)
    )
    taken = NewPrivateQueue(
        recipient_id=known.recipient_id, sender_id=secrets.token_bytes(24), recipient_keys=(PUBLIC,)
    )

    with pytest.raises(Conflict, match="nothing was imported"):
        await node.private.import_records([fresh, taken])

    assert await node.private.counts() == before


async def test_the_fixed_part_of_a_link_is_set_once(node: Engine) -> None:
    made = await node.private.set_link(await node.private.create(PUBLIC), None, LinkData(b"for ever", b"one"))
    assert made.link_id is not None

    again = await node.private.set_link(made, None, LinkData(b"for ever", b"two"))
    with pytest.raises(Conflict):
        await node.private.set_link(again, None, LinkData(b"other", b"two"))
    with pytest.raises(Conflict):
        await node.private.set_link(again, secrets.token_bytes(24), LinkData(b"for ever", b"two"))

    assert await node.private.link_data(made.link_id) == LinkData(b"for ever", b"two")


async def test_a_deleted_queue_is_compacted_after_its_time(node: Engine, clock: FakeClock) -> None:
    made = await node.private.create(PUBLIC)
    await node.private.delete(made)
    assert (await node.private.counts()).deleted >= 1

    assert made.number not in await node.private.compact()
    clock.advance(seconds=DELETED_KEPT.total_seconds() + 1)
    assert made.number in await node.private.compact(limit=100_000)


async def test_services_are_made_once_for_a_fingerprint(node: Engine, other_node: Engine) -> None:
    fingerprint = secrets.token_bytes(32)

    found = await asyncio.gather(*(each.private.service(fingerprint) for each in (node, other_node) * 5))

    assert len({service.id for service in found}) == 1


async def test_the_hash_of_a_services_queues_does_not_depend_on_their_order(node: Engine) -> None:
    first, second = [await node.private.service(secrets.token_bytes(32)) for _ in range(2)]
    made = await node.private.create_many([(PUBLIC, None)] * 3)
    assert first.queues == 0

    for record in made:
        await node.private.associate(record, first.id)
    forward = await node.private.service_summary(first.id)
    for record in reversed(made):
        await node.private.associate(record, second.id)
    backward = await node.private.service_summary(second.id)

    assert (forward.queues, forward.hash) == (backward.queues, backward.hash)
    assert forward.hash != first.hash
    assert (await node.private.service_summary(first.id)).queues == 0


async def test_a_missing_service_is_an_error_and_not_an_empty_one(node: Engine) -> None:
    with pytest.raises(NotFound):
        await node.private.service_summary(1 << 40)
    with pytest.raises(NotFound):
        await node.private.associate(await node.private.create(PUBLIC), 1 << 40)


async def test_all_records_can_be_streamed(node: Engine) -> None:
    made = await node.private.create_many([(PUBLIC, None)] * 5)

    numbers = [record.number async for record in node.private.records()]

    assert {record.number for record in made} <= set(numbers)
    assert numbers == sorted(numbers)


async def test_a_change_on_one_node_reaches_the_other(node: Engine, other_node: Engine) -> None:
    made = await node.private.create(PUBLIC)
    known = await other_node.private.find(Party.SENDER, made.sender_id)
    assert known == made

    await node.private.block(Party.SENDER, made.sender_id, "spam")

    async with asyncio.timeout(5):
        while True:
            found = await other_node.private.find(Party.SENDER, made.sender_id)
            assert found is not None
            if found.status is PrivateStatus.BLOCKED:
                break
            await asyncio.sleep(0.01)


async def test_keys_and_ids_of_another_length_are_refused(node: Engine) -> None:
    with pytest.raises(Invalid):
        await node.private.create(b"short")
    with pytest.raises(Invalid):
        await node.private.service(b"short")


def test_nothing_prints_two_ids_of_one_queue() -> None:
    new = NewPrivateQueue(recipient_id=b"r" * 24, sender_id=b"s" * 24, recipient_keys=(PUBLIC,))

    assert "rrrr" not in repr(new)


async def test_sqlite_says_what_is_needed() -> None:
    engine = Engine(SqliteStore(None))
    await engine.open()
    try:
        with pytest.raises(Unsupported, match="require PostgreSQL"):
            await engine.private.create(PUBLIC)
        with pytest.raises(Unsupported, match="require PostgreSQL"):
            engine.private.records()
    finally:
        await engine.close()

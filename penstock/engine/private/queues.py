"""Private queues: records addressed by unguessable ids, one for each party, in front of ordinary queues.

Every operation names one id and proves the right to it by a signature. An id that does not exist, a deleted queue, a
blocked one and a wrong key are refused in the same way. What a record permits is decided from a cached copy; every
change is made by a statement that carries its own conditions.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Iterable, Sequence
from datetime import timedelta
from time import monotonic

from penstock import limits
from penstock.clock import Clock
from penstock.engine.checks import check_range, check_text
from penstock.engine.private import ids
from penstock.engine.private.cache import MOST_RECORDS, RecordCache
from penstock.engine.private.signatures import Proof, SeenRequests, is_key, is_signed
from penstock.errors import Conflict, Forbidden, Invalid, NotFound
from penstock.model.private import (
    LinkData,
    NewPrivateQueue,
    Party,
    PrivateCounts,
    PrivateRecord,
    PrivateStatus,
    ServiceSummary,
)
from penstock.store import Store

REFUSED = "the queue does not exist, or the request is not signed with its key"
REFUSAL_S = 0.02
"""A refusal comes so long after its request, or a multiple of it: its time tells neither why nor how many keys."""
DELETED_KEPT = timedelta(days=7)
"""Deleted records stay so long before they are compacted."""
MOST_ATTEMPTS = 5


class PrivateQueues:
    def __init__(self, store: Store, clock: Clock, *, cached: int = MOST_RECORDS) -> None:
        self._store = store.private
        self._clock = clock
        self._seen = SeenRequests()
        self.cache = RecordCache(self._store.find, most=cached)
        self._store.watch(self.cache.announce)

    # Creating and finding

    async def create(self, recipient_key: bytes, sender_key: bytes | None = None) -> PrivateRecord:
        [record] = await self.create_many([(recipient_key, sender_key)])
        return record

    async def create_many(self, keys: Sequence[tuple[bytes, bytes | None]]) -> list[PrivateRecord]:
        check_range("queues", len(keys), limits.PRIVATE_BATCH)
        for recipient_key, sender_key in keys:
            _check_key("recipient_key", recipient_key)
            if sender_key is not None:
                _check_key("sender_key", sender_key)
        made: list[PrivateRecord | None] = [None] * len(keys)
        for _ in range(MOST_ATTEMPTS):
            # An id that is taken is so unlikely that only the database is asked.
            missing = [position for position, record in enumerate(made) if record is None]
            if not missing:
                break
            new = [_new(*keys[position]) for position in missing]
            for position, record in zip(missing, await self._store.create_many(new, self._clock.now()), strict=True):
                made[position] = record
        stored = [self.cache.store(record) for record in made if record is not None]
        if len(stored) < len(keys):
            raise Conflict("no free id was found")
        return stored

    async def find(self, party: Party, party_id: bytes) -> PrivateRecord | None:
        """Without proof: for the server itself."""
        return await self.cache.find(party, party_id)

    async def find_many(self, party: Party, party_ids: Sequence[bytes]) -> dict[bytes, PrivateRecord | None]:
        return await self.cache.find_many(party, party_ids)

    # Who may

    async def admit(self, party: Party, party_id: bytes, proof: Proof | None) -> PrivateRecord:
        """The record, when the request is signed by the party's key; for a queue that is not secured, by nobody."""
        began = monotonic()
        record = await self.cache.find(party, party_id)
        try:
            return self._judge(party, record, proof)
        except Forbidden:
            await _until_a_refusal_is_due(began)
            raise

    async def admit_many(
        self, party: Party, requests: Sequence[tuple[bytes, Proof | None]]
    ) -> list[PrivateRecord | Forbidden]:
        """One answer for each; those that are not known take one statement together."""
        began = monotonic()
        found = await self.cache.find_many(party, [party_id for party_id, _ in requests])
        answers: list[PrivateRecord | Forbidden] = []
        for party_id, proof in requests:
            try:
                answers.append(self._judge(party, found[party_id], proof))
            except Forbidden as error:
                answers.append(error)
        if any(isinstance(answer, Forbidden) for answer in answers):
            await _until_a_refusal_is_due(began)
        return answers

    def _judge(self, party: Party, record: PrivateRecord | None, proof: Proof | None) -> PrivateRecord:
        keys = record.keys_of(party) if record is not None else ()
        signed = is_signed(keys, proof)
        is_unsecured = record is not None and party is Party.SENDER and not keys
        if record is None or not (signed or is_unsecured):
            raise Forbidden(REFUSED)
        if record.status is PrivateStatus.BLOCKED and is_unsecured:
            raise Forbidden(REFUSED)
        if signed:
            assert proof is not None
            if not self._seen.accept(record.number, proof, self._clock.now()):
                raise Forbidden(REFUSED)
        return record

    # What the recipient decides

    async def secure(self, record: PrivateRecord, key: bytes) -> PrivateRecord:
        """Set the sender's key. The first key wins; the same one again changes nothing and asks nobody."""
        _check_key("key", key)
        if record.sender_key == key:
            return record
        async with self.cache.lock(record.number):
            if record.sender_key is None:
                changed = await self._store.secure(record.number, key)
                if changed is not None:
                    return self.cache.store(changed)
            current = await self._reload(record)
        if current.sender_key != key:
            raise Conflict("the queue is secured with another key")
        return current

    async def secure_as_sender(self, sender_id: bytes, key: bytes, proof: Proof | None) -> PrivateRecord:
        """The sender sets its own key, and proves that it holds it."""
        _check_key("key", key)
        began = monotonic()
        record = await self.cache.find(Party.SENDER, sender_id)
        signed = is_signed(() if record is None else (record.sender_key or key,), proof)
        if (
            record is None
            or proof is None
            or not signed
            or record.status is PrivateStatus.BLOCKED
            or not self._seen.accept(record.number, proof, self._clock.now())
        ):
            await _until_a_refusal_is_due(began)
            raise Forbidden(REFUSED)
        return await self.secure(record, key)

    async def add_notifier(self, record: PrivateRecord, key: bytes) -> PrivateRecord:
        """A new notifier id; an earlier one ends."""
        _check_key("key", key)
        async with self.cache.lock(record.number):
            for _ in range(MOST_ATTEMPTS):
                try:
                    return await self._change(record, self._store.set_notifier(record.number, ids.new_id(), key))
                except Conflict:
                    continue
        raise Conflict("no free id was found")

    async def delete_notifier(self, record: PrivateRecord) -> PrivateRecord:
        async with self.cache.lock(record.number):
            return await self._change(record, self._store.set_notifier(record.number, None, None))

    async def set_webhook(self, record: PrivateRecord, subscription_key: str | None) -> PrivateRecord:
        async with self.cache.lock(record.number):
            return await self._change(record, self._store.set_webhook(record.number, subscription_key))

    async def set_link(self, record: PrivateRecord, link_id: bytes | None, data: LinkData) -> PrivateRecord:
        """Set both parts of the link; the fixed part can be set once, the mutable part again and again."""
        check_range("fixed", len(data.fixed), limits.PRIVATE_LINK_BYTES)
        check_range("mutable", len(data.mutable), limits.PRIVATE_LINK_BYTES)
        wanted = link_id or record.link_id or ids.new_id()
        async with self.cache.lock(record.number):
            changed = await self._store.set_link(record.number, wanted, data)
            if changed is not None:
                return self.cache.store(changed)
            await self._reload(record)
        raise Conflict("the link has another id, or another fixed part, already")

    async def delete_link(self, record: PrivateRecord) -> PrivateRecord:
        async with self.cache.lock(record.number):
            return await self._change(record, self._store.clear_link(record.number))

    async def link_data(self, link_id: bytes) -> LinkData:
        began = monotonic()
        data = await self._store.link_data(link_id)
        if data is None:
            await _until_a_refusal_is_due(began)
            raise Forbidden(REFUSED)
        return data

    async def set_suspended(self, record: PrivateRecord, suspended: bool) -> PrivateRecord:
        if record.status is PrivateStatus.BLOCKED:
            raise Conflict(f"the queue is blocked: {record.block_reason}")
        status = PrivateStatus.SUSPENDED if suspended else PrivateStatus.ACTIVE
        async with self.cache.lock(record.number):
            return await self._change(record, self._store.set_status(record.number, status, None))

    async def set_recipient_keys(self, record: PrivateRecord, keys: Sequence[bytes]) -> PrivateRecord:
        check_range("keys", len(keys), limits.PRIVATE_KEYS)
        for key in keys:
            _check_key("keys", key)
        async with self.cache.lock(record.number):
            return await self._change(record, self._store.set_recipient_keys(record.number, keys))

    async def touch(self, records: Sequence[PrivateRecord]) -> None:
        await self._store.touch([record.number for record in records], self._clock.now())

    async def associate(self, record: PrivateRecord, service_id: int | None) -> PrivateRecord:
        async with self.cache.lock(record.number):
            return await self._change(record, self._store.associate(record.number, service_id))

    async def delete(self, record: PrivateRecord) -> None:
        async with self.cache.lock(record.number):
            deleted = await self._store.delete(record.number, self._clock.now())
            if deleted is not None:
                self.cache.drop(deleted)

    # What the operator does

    async def block(self, party: Party, party_id: bytes, reason: str | None) -> PrivateRecord:
        """Block a queue for a reason; with None, let it go on."""
        if reason is not None:
            check_range("reason", len(reason), limits.PRIVATE_REASON_CHARACTERS)
            check_text("reason", reason)
        record = (await self.cache.load(party, [party_id]))[party_id]
        if record is None:
            raise NotFound("there is no such private queue")
        status = PrivateStatus.ACTIVE if reason is None else PrivateStatus.BLOCKED
        async with self.cache.lock(record.number):
            return await self._change(record, self._store.set_status(record.number, status, reason))

    async def service(self, fingerprint: bytes) -> ServiceSummary:
        """The service of a certificate, made when there is none."""
        if len(fingerprint) != ids.FINGERPRINT_BYTES:
            raise Invalid(f"fingerprint must be {ids.FINGERPRINT_BYTES} bytes", field="fingerprint")
        return await self.service_summary(await self._store.service(fingerprint, self._clock.now()))

    async def service_summary(self, service_id: int) -> ServiceSummary:
        found = await self._store.service_summary(service_id)
        if found is None:
            raise NotFound("the service does not exist", field="service_id")
        return found

    async def counts(self) -> PrivateCounts:
        return await self._store.counts()

    def records(self) -> AsyncIterator[PrivateRecord]:
        """Every record, for an export; not all in memory."""
        return self._store.stream()

    async def import_records(self, records: Iterable[NewPrivateQueue]) -> int:
        """Store records of another system by binary COPY, all or none."""
        return await self._store.import_many(records, self._clock.now())

    async def compact(self, limit: int = 1000, kept: timedelta = DELETED_KEPT) -> list[int]:
        """Remove records that were deleted long ago; the numbers of those removed."""
        return await self._store.compact(self._clock.now() - kept, limit)

    async def reload(self, record: PrivateRecord) -> PrivateRecord:
        """The record as the database has it; `Forbidden` when it is gone."""
        return await self._reload(record)

    async def _reload(self, record: PrivateRecord) -> PrivateRecord:
        current = await self._store.get(record.number)
        if current is None:
            self.cache.announce(record.number, record.version + 1)
            raise Forbidden(REFUSED)
        return self.cache.store(current)

    async def _change(self, record: PrivateRecord, statement: Awaitable[PrivateRecord | None]) -> PrivateRecord:
        changed = await statement
        if changed is None:
            self.cache.announce(record.number, record.version + 1)
            raise Forbidden(REFUSED)
        return self.cache.store(changed)


def dedup_id(proof: Proof | None) -> str | None:
    """A signed send that is repeated on another node stores nothing more."""
    return None if proof is None else hashlib.sha256(proof.signature).hexdigest()


async def _until_a_refusal_is_due(began: float) -> None:
    await asyncio.sleep(REFUSAL_S - (monotonic() - began) % REFUSAL_S)


def _check_key(field: str, key: bytes) -> None:
    if len(key) != ids.KEY_BYTES or not is_key(key):
        raise Invalid(f"{field} must be an Ed25519 public key of {ids.KEY_BYTES} bytes", field=field)


def _new(recipient_key: bytes, sender_key: bytes | None) -> NewPrivateQueue:
    return NewPrivateQueue(
        recipient_id=ids.new_id(), sender_id=ids.new_id(), recipient_keys=(recipient_key,), sender_key=sender_key
    )

"""Signed requests: who holds the private key of a queue's party, and has this request been seen before. Pure.

`penstock.model.private.signed_text` is what is signed. A request is good within five minutes of the server's clock,
and once.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from penstock import limits

SIGNATURE_BYTES = 64
MOST_SEEN = 500_000
MOST_SEEN_EACH = 4_096

_NO_KEY = bytes.fromhex("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a")
"""A key nobody signs with here: an unknown queue takes as long to refuse as a known one."""
_NO_SIGNATURE = bytes(SIGNATURE_BYTES)


@dataclass(frozen=True, slots=True)
class Proof:
    """What a request says about itself, and the signature over it."""

    text: bytes
    seconds: int
    signature: bytes


def is_signed(keys: Iterable[bytes], proof: Proof | None) -> bool:
    """Whether one of the keys made the signature. Looks at one key at least, whatever is given."""
    text, signature = (proof.text, proof.signature) if proof is not None else (b"", _NO_SIGNATURE)
    # Not any(): which key fits should not show in the time.
    found = [_verifies(key, text, signature) for key in [*keys] or [_NO_KEY]]
    return True in found


def _verifies(key: bytes, text: bytes, signature: bytes) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, text)
    except (InvalidSignature, ValueError):
        return False
    return True


def is_key(key: bytes) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(key)
    except ValueError:
        return False
    return True


class SeenRequests:
    """Signatures accepted within the last minutes, for each queue apart and bounded in number.

    When a queue has too many, its oldest are forgotten, and no request signed at their time or before is accepted for
    this queue any more: what is forgotten cannot be repeated, and a flood on one queue harms no other.
    """

    def __init__(self, most: int = MOST_SEEN, each: int = MOST_SEEN_EACH) -> None:
        self._most = most
        self._each = each
        self._total = 0
        self._queues: OrderedDict[int, OrderedDict[bytes, int]] = OrderedDict()
        self._floors: OrderedDict[int, int] = OrderedDict()
        """By queue, the latest moment of a forgotten signature."""

    def accept(self, queue: int, proof: Proof, now: datetime) -> bool:
        """Note a request; False when it was seen, or is from another time."""
        moment = int(now.timestamp())
        if abs(moment - proof.seconds) > limits.PRIVATE_CLOCK_SKEW_S or proof.seconds <= self._floors.get(queue, 0):
            return False
        self._expire(moment)
        seen = self._queues.setdefault(queue, OrderedDict())
        self._queues.move_to_end(queue)
        digest = hashlib.sha256(proof.signature).digest()
        if digest in seen:
            return False
        seen[digest] = proof.seconds
        self._total += 1
        if len(seen) > self._each:
            self._forget(queue, seen)
        while self._total > self._most:
            oldest = next(iter(self._queues))
            self._forget(oldest, self._queues[oldest])
        return True

    def _forget(self, queue: int, seen: OrderedDict[bytes, int]) -> None:
        _, seconds = seen.popitem(last=False)
        self._total -= 1
        self._floors[queue] = max(self._floors.get(queue, 0), seconds)
        if not seen:
            del self._queues[queue]

    def _expire(self, moment: int) -> None:
        """Drop what is too old to be accepted anyway, a few queues per request."""
        past = moment - limits.PRIVATE_CLOCK_SKEW_S
        for queue in list(islice(self._queues, 2)):
            seen = self._queues[queue]
            while seen and next(iter(seen.values())) < past:
                seen.popitem(last=False)
                self._total -= 1
            if not seen:
                del self._queues[queue]
        for queue in list(islice(self._floors, 2)):
            if self._floors[queue] < past:
                del self._floors[queue]

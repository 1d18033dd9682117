"""Keys and signed requests for tests."""

from __future__ import annotations

import secrets

from penstock.client.private import new_key, public_key
from penstock.clock import Clock
from penstock.engine.private.signatures import Proof
from penstock.model.private import signed_text

KEY = new_key()
PUBLIC = public_key(KEY)


def sign(key: bytes, clock: Clock, *, seconds: int | None = None, nonce: str | None = None) -> Proof:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    moment = int(clock.now().timestamp()) if seconds is None else seconds
    text = signed_text("GET", "/", moment, nonce or secrets.token_hex(8), b"")
    return Proof(text, moment, Ed25519PrivateKey.from_private_bytes(key).sign(text))

"""Ids and keys of private queues: random bytes, shown as base64 for URLs without padding."""

from __future__ import annotations

import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error

from penstock.errors import Invalid

ID_BYTES = 24
KEY_BYTES = 32
FINGERPRINT_BYTES = 32


def new_id() -> bytes:
    return secrets.token_bytes(ID_BYTES)


def encode(value: bytes) -> str:
    return urlsafe_b64encode(value).rstrip(b"=").decode()


def decode(field: str, text: str, length: int) -> bytes:
    """Exactly `length` bytes, in their one spelling."""
    value = decode_any(field, text)
    if len(value) != length:
        raise Invalid(f"{field} must be {length} bytes in base64 for URLs, without padding", field=field)
    return value


def decode_any(field: str, text: str) -> bytes:
    try:
        value = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except (Error, ValueError):
        value = None
    if value is None or encode(value) != text:
        raise Invalid(f"{field} must be base64 for URLs, without padding", field=field)
    return value

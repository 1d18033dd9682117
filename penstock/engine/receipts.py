"""Receipts: the opaque text that names one delivery of one message.

A receipt holds the queue's tenant-wide name check, the message id and the lease. It is not a secret: it acts
only within the caller's own tenant and queue.
"""

from __future__ import annotations

import base64
import binascii
import struct
import zlib

from penstock.errors import InvalidReceipt

_LAYOUT = struct.Struct(">BIQQ")
_VERSION = 1


def encode(queue: str, message_id: int, lease: int) -> str:
    packed = _LAYOUT.pack(_VERSION, zlib.crc32(queue.encode()), message_id, lease)
    return base64.urlsafe_b64encode(packed).rstrip(b"=").decode()


def decode(queue: str, receipt: str) -> tuple[int, int]:
    """Message id and lease; `InvalidReceipt` for a text we did not make, or made for another queue."""
    try:
        packed = base64.b64decode(receipt + "=" * (-len(receipt) % 4), altchars=b"-_", validate=True)
        version, check, message_id, lease = _LAYOUT.unpack(packed)
    except (binascii.Error, struct.error, ValueError):
        raise InvalidReceipt(field="receipt") from None
    if version != _VERSION or check != zlib.crc32(queue.encode()) or max(message_id, lease) >= 1 << 63:
        raise InvalidReceipt(field="receipt")
    return message_id, lease

"""Receipts: the opaque text that names one delivery of one message.

A receipt holds the queue's tenant-wide name check, the message id and the lease. It is not a secret: it acts
only within the caller's own tenant and queue.
"""

from __future__ import annotations

import struct
from binascii import Error, a2b_base64, b2a_base64
from zlib import crc32

from penstock.errors import InvalidReceipt

_LAYOUT = struct.Struct(">BIQQ")
"""Twenty-one bytes: base64 needs no padding for them."""
_VERSION = 1
_TO_URL_TEXT = str.maketrans("+/", "-_")
_FROM_URL = bytes.maketrans(b"-_", b"+/")


def encode(queue: str, message_id: int, lease: int) -> str:
    """A receipt that can stand in a URL."""
    return encode_plain(queue, message_id, lease).translate(_TO_URL_TEXT)


def encode_plain(queue: str, message_id: int, lease: int) -> str:
    """The same receipt in the ordinary alphabet of base64, without `-` and `_`."""
    packed = _LAYOUT.pack(_VERSION, crc32(queue.encode()), message_id, lease)
    return b2a_base64(packed, newline=False).decode()


def decode(queue: str, receipt: str) -> tuple[int, int]:
    """Message id and lease, from either alphabet; `InvalidReceipt` for any other text, or for another queue's."""
    try:
        packed = a2b_base64(receipt.encode("ascii").translate(_FROM_URL), strict_mode=True)
        version, check, message_id, lease = _LAYOUT.unpack(packed)
    except (Error, struct.error, ValueError):
        raise InvalidReceipt(field="receipt") from None
    if version != _VERSION or check != crc32(queue.encode()) or max(message_id, lease) >= 1 << 63:
        raise InvalidReceipt(field="receipt")
    return message_id, lease

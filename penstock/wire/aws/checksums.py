"""The MD5 sums SDKs check: of a body, and of typed attributes in AWS's own serialisation."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import md5

try:
    # OpenSSL looks the algorithm up each time, and inside a server that costs more than to hash a short body.
    from _md5 import md5 as short_md5  # type: ignore[import-not-found]
except ImportError:  # a Python built without hashes of its own
    short_md5 = md5

SHORT = 1000
"""Characters. On a longer body OpenSSL is the faster one."""


def body_md5(body: str) -> str:
    digest = (short_md5 if len(body) <= SHORT else md5)(body.encode(), usedforsecurity=False)
    text: str = digest.hexdigest()
    return text


def attributes_md5(attributes: Iterable[tuple[str, str, str | bytes]]) -> str:
    """Of (name, full data type, value); a value of bytes is Binary, any other text."""
    digest = md5(usedforsecurity=False)
    for name, kind, value in sorted(attributes, key=lambda attribute: attribute[0]):
        digest.update(_sized(name.encode()))
        digest.update(_sized(kind.encode()))
        if isinstance(value, bytes):
            digest.update(b"\x02" + _sized(value))
        else:
            digest.update(b"\x01" + _sized(value.encode()))
    return digest.hexdigest()


def _sized(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data

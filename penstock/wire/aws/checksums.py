"""The MD5 sums SDKs check: of a body, and of typed attributes in AWS's own serialisation."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import md5


def body_md5(body: str) -> str:
    return md5(body.encode(), usedforsecurity=False).hexdigest()


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

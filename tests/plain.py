"""What HTTP clients of tests use for TLS, which no test speaks."""

from __future__ import annotations

import ssl
from functools import cache

import httpx
from httpx._transports import default

PLAIN = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""A client without this reads all certificate authorities of the world: 40 ms each."""


def read_authorities_once() -> None:
    """For the clients that the product makes, and those of tests that forget the above."""
    default.create_ssl_context = cache(httpx.create_ssl_context)  # type: ignore[attr-defined]

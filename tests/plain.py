"""What HTTP clients of tests use for TLS, which no test speaks."""

from __future__ import annotations

import ssl

PLAIN = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""A client without this reads all certificate authorities of the world: 40 ms each."""

"""Where the server is, and who calls it."""

from __future__ import annotations

import os
from urllib.parse import urlsplit

from penstock.errors import Invalid

ANYONE = "anyone"
"""The token when none is given: a server with open authentication accepts any."""


def address(url: str | None, token: str | None) -> tuple[str, str]:
    """URL and token: as given, or from PENSTOCK_URL and PENSTOCK_TOKEN."""
    found = url if url is not None else os.environ.get("PENSTOCK_URL")
    if not found:
        raise Invalid("no server is named: pass its URL, or set PENSTOCK_URL", field="url")
    return checked_url(found), token or os.environ.get("PENSTOCK_TOKEN") or ANYONE


def checked_url(url: str) -> str:
    """The URL of a server, without a slash at the end."""
    if not url.startswith(("http://", "https://")):
        raise Invalid(f"the URL must begin with http:// or https://: '{url}'", field="url")
    try:
        named = bool(urlsplit(url).hostname)
    except ValueError:
        named = False
    if not named:
        raise Invalid(f"the URL has no host: '{url}'", field="url")
    return url.rstrip("/")

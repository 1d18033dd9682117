"""What the operator of a server decides about its dashboard."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class WebSettings:
    read_only: bool = False
    """The dashboard shows everything and changes nothing."""
    payloads: bool = True
    """Whether bodies, headers and attributes of messages are shown."""
    secure_cookie: bool = False
    """Browsers send the session cookie over HTTPS only."""
    hosts: frozenset[str] = frozenset()
    """Further names of this server, as in the Host header: forms may come from pages under them too."""

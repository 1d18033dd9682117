"""Which addresses a webhook may reach: public ones, and others only where a setting allows them.

A subscriber could otherwise make the server call services that only the server can reach. The address that is connected
to is checked, not the name: a name can resolve to another address a moment later.
"""

from __future__ import annotations

import ipaddress
import socket
from contextvars import ContextVar
from typing import Any
from urllib.parse import urlsplit

ALLOW_PRIVATE = "PENSTOCK_HTTP_DELIVERY_PRIVATE"
"""The setting that allows all addresses."""

# A list of our own: what the standard library calls global differs between versions, and includes addresses that carry
# an IPv4 address inside.
_DENIED_V4 = tuple(
    map(
        ipaddress.IPv4Network,
        (
            "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
            "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24",
            "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
        ),
    )
)  # fmt: skip
_PUBLIC_V6 = ipaddress.IPv6Network("2000::/3")
_DENIED_V6 = tuple(map(ipaddress.IPv6Network, ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")))


class AddressRefused(OSError):
    """The endpoint is at an address that webhooks may not reach."""


def is_public(address: str) -> bool:
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped is not None:
            return is_public(str(parsed.ipv4_mapped))
        return parsed in _PUBLIC_V6 and not any(parsed in network for network in _DENIED_V6)
    return not any(parsed in network for network in _DENIED_V4)


def is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address.partition("%")[0]).is_loopback
    except ValueError:
        return False


def refusal_of(address: str, *, allow_loopback: bool) -> str | None:
    """Why webhooks may not reach an address; None when they may."""
    if is_public(address) or (allow_loopback and is_loopback(address)):
        return None
    return f"the endpoint's address {address} is not public; {ALLOW_PRIVATE}=true allows such endpoints"


def refusal_of_host(endpoint: str, *, allow_loopback: bool) -> str | None:
    """As `refusal_of`, for the host of a URL; None when that is a name, which is resolved later."""
    try:
        host = urlsplit(endpoint).hostname or ""
        address = "127.0.0.1" if host == "localhost" else str(ipaddress.ip_address(host.partition("%")[0]))
    except ValueError:
        return None
    return refusal_of(address, allow_loopback=allow_loopback)


AddressInfo = tuple[int | socket.AddressFamily, int | socket.SocketKind, int, str, tuple[Any, ...]]


class Guard:
    """Makes sockets for addresses that webhooks may reach, at the moment of connecting to them."""

    def __init__(self, *, allow_loopback: bool) -> None:
        self._allow_loopback = allow_loopback
        self.refusals: ContextVar[list[str]] = ContextVar("refusals")
        """Where a request finds why its address was refused: the error of the HTTP client does not say."""

    def __call__(self, info: AddressInfo) -> socket.socket:
        """A socket for this address; `AddressRefused` when webhooks may not reach it."""
        family, kind, protocol, _, address = info
        refusal = refusal_of(str(address[0]), allow_loopback=self._allow_loopback)
        if refusal is not None:
            self.refusals.get([]).append(refusal)
            raise AddressRefused(refusal)
        return socket.socket(family, kind, protocol)

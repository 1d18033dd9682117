"""Which addresses a webhook may reach: the public ones, and others only where the server's owner allows it.

Whoever may subscribe an endpoint could otherwise make the server knock at doors that only it can reach. What counts is
the address that is connected to: a name is resolved once, and may resolve to something else a moment later.
"""

from __future__ import annotations

import ipaddress
import socket
from typing import Any

# Our own list: what the standard library calls global differs between versions, and includes ways round it, such as
# addresses that carry an IPv4 address inside.
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


AddressInfo = tuple[int | socket.AddressFamily, int | socket.SocketKind, int, str, tuple[Any, ...]]


def guarded_socket(info: AddressInfo) -> socket.socket:
    """A socket for this address, made at the moment of connecting to it; `AddressRefused` when it is not public."""
    family, kind, protocol, _, address = info
    if not is_public(str(address[0])):
        raise AddressRefused("the endpoint's address is not public")
    return socket.socket(family, kind, protocol)

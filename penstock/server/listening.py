"""The sockets a server listens on."""

from __future__ import annotations

import errno
import socket
import sys
from contextlib import suppress

from penstock.config import Settings, join_address
from penstock.errors import Unavailable


def bind(settings: Settings) -> list[socket.socket]:
    """One bound socket per worker, all on one port.

    The kernel spreads connections over sockets that share a port far more evenly than over processes that share
    a socket. We keep them all open: what a dying worker had not accepted yet waits for its successor.
    """
    first = _bind(settings.host, settings.port, shared=False)
    if settings.workers == 1:
        return [first]
    port = int(first.getsockname()[1])
    if sys.platform != "linux":
        return [first] * settings.workers
    # The first bind showed that the port is nobody else's: sockets that share one would have kept silent.
    first.close()
    return [_bind(settings.host, port, shared=True) for _ in range(settings.workers)]


def url_of(settings: Settings, bound: socket.socket) -> str:
    """Where a client on this machine finds us."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.host, settings.host)  # noqa: S104
    return f"http://{join_address(host, int(bound.getsockname()[1]))}"


def _bind(host: str, port: int, *, shared: bool) -> socket.socket:
    where = join_address(host, port)
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except socket.gaierror as error:
        raise Unavailable(f"cannot listen on {where}: {error.strerror}") from None
    bound = socket.socket(family, kind, protocol)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if shared:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    if family == socket.AF_INET6:
        with suppress(OSError):
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    try:
        bound.bind(address)
        # Listening already, though nobody accepts yet: of two servers started together, one must fail here.
        bound.listen(2048)
    except OSError as error:
        bound.close()
        raise Unavailable(f"cannot listen on {where}: {_why(error)}") from None
    bound.setblocking(False)
    return bound


def _why(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return "the port is in use; stop the other server or choose another with --port"
    if error.errno == errno.EACCES:
        return "not allowed; ports below 1024 need privileges"
    return error.strerror or str(error)

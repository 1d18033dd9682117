"""Whether a Spark server answers: Spark itself retries for minutes, or for ever, before it gives up."""

from __future__ import annotations

import socket
from urllib.parse import urlsplit

TIMEOUT_S = 2.0
CONNECT_PORT, MASTER_PORT, HTTPS_PORT = 15002, 7077, 443


class UnreachableError(RuntimeError):
    """No Spark server answers at the address."""


def check_reachable(master: str | None, remote: str | None) -> None:
    """Raises `UnreachableError` within a few seconds when nothing listens at the address of a master or a remote."""
    if remote is not None:
        address = urlsplit(remote)
        if address.scheme != "sc" or not address.hostname:
            raise UnreachableError(f"{remote} is not the address of a Spark Connect server, such as sc://host:15002")
        _check("Spark Connect server", remote, [(address.hostname, address.port or CONNECT_PORT)])
    elif master is not None and master.startswith("spark://"):
        hosts = master.removeprefix("spark://").split(",")
        _check("Spark master", master, [_host_and_port(each, MASTER_PORT) for each in hosts])
    elif master is not None and master.startswith("k8s://"):
        host = urlsplit(master.removeprefix("k8s://")).netloc or master.removeprefix("k8s://")
        _check("Kubernetes API server", master, [_host_and_port(host, HTTPS_PORT)])


def _host_and_port(text: str, default: int) -> tuple[str, int]:
    address = urlsplit(f"//{text}")
    try:
        return address.hostname or "", address.port or default
    except ValueError:
        raise UnreachableError(f"{text} is not an address of the form host:port") from None


def _check(kind: str, url: str, addresses: list[tuple[str, int]]) -> None:
    """One of several addresses is enough: a standby master listens too."""
    problem: OSError | None = None
    for address in addresses:
        try:
            socket.create_connection(address, timeout=TIMEOUT_S / len(addresses)).close()
            return
        except OSError as error:
            problem = error
    reason = "timed out" if isinstance(problem, TimeoutError) else (problem and problem.strerror) or str(problem)
    raise UnreachableError(f"no {kind} answers at {url}: {reason}")

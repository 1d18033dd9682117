"""The bounds of the HTTP layer: bytes, counts and seconds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpLimits:
    """What one connection, and all of them together, may take from the server."""

    url_bytes: int = 8_192
    header_bytes: int = 32_768
    header_count: int = 100
    web_body_bytes: int = 65_536
    """For everything outside the routes, which name their own."""
    header_s: float = 10.0
    body_s: float = 30.0
    handler_s: float = 30.0
    """A handler that waits on purpose has this much on top of its wait."""
    keep_alive_s: float = 60.0
    write_s: float = 60.0
    """A client that takes nothing for so long is dropped."""
    linger_s: float = 2.0
    """After a refusal what the client still sends is read and dropped, or it would never see the answer."""
    connections: int = 10_000
    connections_per_address: int = 10_000
    """As many as in all, because behind a proxy every client has the proxy's address."""
    requests_in_flight: int = 8_000
    buffered_bytes: int = 268_435_456
    """Of all bodies that are on their way in, or wait for their answer."""
    unknown_body_bytes: int = 65_536
    """A larger body is read only after the caller is known from the head."""
    parked_s: float = 2.0
    """A body that takes longer than this gives way when `buffered_bytes` are used up."""
    unsent_bytes: int = 134_217_728
    """Of all answers that their clients do not take in time."""
    queued_requests: int = 16
    """Pipelined requests of one connection that wait their turn before reading stops."""
    turns: bool = False
    """Callers have turns, so that none fills the server alone. Without authentication there is only one."""
    home_only: bool = False
    """Answer only to names of this machine, and to `hosts`."""
    hosts: frozenset[str] = frozenset()
    same_site_only: bool = False
    """Refuse what browsers send for pages of other sites."""
    sweep_s: float = 1.0
    """How often deadlines are looked at: the precision of all the seconds above."""

"""Circuit breakers: an endpoint that keeps failing is left alone for a while, and then tried again.

Its deliveries stay pending meanwhile, and none of their attempts is used up.
"""

from __future__ import annotations

from dataclasses import dataclass

FAILURES = 5
"""In a row, before an endpoint is left alone."""
KEPT = 10_000


@dataclass(slots=True)
class _Breaker:
    failures: int = 0
    open_until: float = 0.0


class Breakers:
    """By key. Times are those of a monotonic clock."""

    def __init__(self, rest_s: float) -> None:
        self._rest_s = rest_s
        self._breakers: dict[int, _Breaker] = {}

    def succeeded(self, key: int) -> None:
        self._breakers.pop(key, None)

    def failed(self, key: int, now: float) -> None:
        breaker = self._breakers.get(key)
        if breaker is None:
            if len(self._breakers) >= KEPT:
                self._breakers.pop(next(iter(self._breakers)))
            breaker = self._breakers[key] = _Breaker()
        breaker.failures += 1
        if breaker.failures >= FAILURES:
            # It stays at the brink: after the rest a single failure brings the next one.
            breaker.open_until = now + self._rest_s

    def resting(self, now: float) -> list[int]:
        return [key for key, breaker in self._breakers.items() if now < breaker.open_until]

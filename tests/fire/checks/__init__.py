"""Checks: pure functions from a history to violations of a guarantee."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.fire.history import Call, History

CLOCK_S = 0.05
"""How far the monotonic clock and the wall clock of a machine may drift apart during a call."""


@dataclass(frozen=True)
class Violation:
    """What is wrong, and the calls that show it."""

    check: str
    message: str
    calls: tuple[Call, ...] = ()

    def __str__(self) -> str:
        return "\n".join([f"{self.check}: {self.message}", *(f"    {call}" for call in self.calls)])


Check = Callable[[History], list[Violation]]

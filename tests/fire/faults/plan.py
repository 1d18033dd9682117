"""The plan of faults: made from a seed, printed, and the same again for the same seed."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

KINDS: dict[str, int] = {
    "kill server": 6,
    "kill postgres": 5,
    "terminate server": 1,
    "kill worker": 2,
    "stop server": 1,
    "end backends": 2,
    "idle transaction": 1,
    "cut before requests": 1,
    "cut after requests": 1,
    "cut during answers": 1,
    "exhaust pool": 1,
    "exhaust connections": 1,
    "fill disk": 1,
    "step clock": 1,
    "flood": 1,
    "slow consumers": 1,
    "upgrade": 1,
}
"""Each with its weight."""


@dataclass(frozen=True)
class Fault:
    at: float
    kind: str
    node: int
    seconds: float

    def __str__(self) -> str:
        return f"{self.at:6.1f} s  {self.kind} (node {self.node}, {self.seconds:.1f} s)"


def make_plan(seed: int, seconds: float, nodes: int, kinds: list[str] | None = None, every: float = 5.0) -> list[Fault]:
    """Faults about `every` seconds. Each of the kinds comes once before chance decides."""
    random = Random(f"plan {seed}")
    allowed = kinds if kinds is not None else list(KINDS)
    faults: list[Fault] = []
    first = random.sample(allowed, len(allowed))
    at = 2.0
    while allowed and at < seconds - 1:
        kind = first.pop() if first else random.choices(allowed, weights=[KINDS.get(each, 1) for each in allowed])[0]
        faults.append(Fault(at, kind, random.randrange(nodes), random.uniform(2.5, 4)))
        at += random.uniform(0.6, 1.4) * every
    return faults

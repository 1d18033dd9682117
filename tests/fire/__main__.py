"""`python -m tests.fire`: break things from a plan, and say whether a guarantee was broken. Exits with 1 if so."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import linear_regression

from tests.fire.faults.plan import KINDS
from tests.fire.mutants import MUTANTS
from tests.fire.run import Options, Verdict, run

SHOWN = 10


def slope(memory: list[tuple[float, float]]) -> float:
    """Of the line that fits best, in megabytes per minute. The first fifth of the run is left out: caches fill."""
    rows = [row for row in memory if row[0] >= memory[-1][0] / 5]
    if len({seconds for seconds, _ in rows}) < 2:
        return 0.0
    times, sizes = zip(*rows, strict=True)
    return 60 * linear_regression(times, sizes).slope


def report(verdict: Verdict) -> str:
    lines = [f"{verdict.sent} sends acknowledged"]
    lines += [f"  {name}: {count}" for name, count in sorted(verdict.calls.items())]
    for kind, seconds in sorted(verdict.recoveries.items()):
        ordered = sorted(seconds)
        p95 = ordered[min(len(ordered) - 1, int(len(ordered) * 0.95))]
        lines.append(
            f"{kind}: {len(seconds)} times, works again after {p95:.2f} s (p95), {ordered[-1]:.2f} s (longest)"
        )
    if verdict.memory:
        lines.append(
            f"memory of all servers: {verdict.memory[0][1]:.0f} MB at first, {verdict.memory[-1][1]:.0f} MB at last,"
            f" {slope(verdict.memory):+.2f} MB per minute after warming up"
        )
    lines += [str(violation) for violation in verdict.violations[:SHOWN]]
    if verdict.folder is not None:
        lines.append(f"the histories are in {verdict.folder}")
    lines.append(
        f"VERDICT: {len(verdict.violations)} violations" if verdict.violations else "VERDICT: all guarantees held"
    )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Break servers and databases, and check what they promised.")
    parser.add_argument("--seconds", type=float, default=60, help="Time under load.")
    parser.add_argument("--seed", type=int, default=1, help="The plan follows from it.")
    parser.add_argument("--nodes", type=int, default=2, choices=[1, 2, 3])
    parser.add_argument("--rate", type=float, default=60, help="Messages per second of each producer.")
    parser.add_argument("--every", type=float, default=5, help="Seconds between faults, on average.")
    parser.add_argument("--fault", action="append", choices=sorted(KINDS), help="Only these; may be repeated.")
    parser.add_argument("--calm", action="store_true", help="No faults.")
    parser.add_argument(
        "--keep", type=Path, default=Path("fire-histories"), help="Folder for histories of failed runs."
    )
    parser.add_argument("--mutant", choices=sorted(MUTANTS), help="Break this rule in all servers.")
    given = parser.parse_args(arguments)
    kinds = [] if given.calm else given.fault
    options = Options(given.seconds, given.seed, given.nodes, given.rate, kinds, given.every, keep=given.keep)
    if given.mutant is not None:
        options.servers = {"FIRE_MUTANT": given.mutant}
    options.say = lambda text: print(text, flush=True)
    verdict = run(options)
    print(report(verdict), flush=True)
    return 1 if verdict.violations else 0


if __name__ == "__main__":
    sys.exit(main())

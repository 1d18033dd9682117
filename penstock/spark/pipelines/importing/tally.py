"""The result of an import: how many rows went where, and why others were rejected."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

EXAMPLES = 3
MOST_SHOWN = 1000


@dataclass(slots=True)
class Tally:
    good: int = 0
    bad: int = 0
    last: int = 0
    """Rows of the portion added last."""
    left_out: list[str] = field(default_factory=list)
    _counts: dict[tuple[str, str, str], tuple[int, list[str]]] = field(default_factory=dict)

    def add(self, queue: str, target: str, counted: list[Any]) -> int:
        """Add the counts of a portion; returns how many of its rows were rejected."""
        bad = 0
        self.last = 0
        for name, reason, count, example in counted:
            key = (queue, f"{target} {name}", reason or "")
            before, shown = self._counts.get(key, (0, []))
            self._counts[key] = (before + count, [*shown, *([example] if reason else [])][:EXAMPLES])
            self.last += count
            bad += count if reason else 0
        self.good += self.last - bad
        self.bad += bad
        return bad

    def rows(self) -> list[dict[str, Any]]:
        """Rejected rows first, and as many others as fit."""
        shown = sorted(self._counts, key=lambda key: (not key[2], key))[:MOST_SHOWN]
        return [
            {"from": queue, "to": name, "rows": count, "rejected because": reason, "such as": ", ".join(examples)}
            for (queue, name, reason), (count, examples) in ((key, self._counts[key]) for key in sorted(shown))
        ]

    def remarks(self) -> str:
        parts = []
        if self.left_out:
            parts.append(f"; left out: {', '.join(self.left_out)}")
        if len(self._counts) > MOST_SHOWN:
            parts.append(f"; {MOST_SHOWN:,} of {len(self._counts):,} lines are shown")
        return "".join(parts)

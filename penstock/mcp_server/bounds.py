"""Answers of a bounded size: an agent reads all of them."""

from __future__ import annotations

from typing import Any

import msgspec

LONGEST_TEXT = 1_000
"""Characters of a text; the rest is cut, and its length is told."""
MOST_ENTRIES = 100
"""Entries of a list or an object."""
DEEPEST = 12
"""Levels of nesting."""
LARGEST = 20_000
"""Characters of a whole answer, as JSON."""


def bounded(answer: dict[str, Any]) -> dict[str, Any]:
    """The answer as plain JSON, cut where it is too long. Every cut is told at its place."""
    plain, text, entries = msgspec.to_builtins(answer), LONGEST_TEXT, MOST_ENTRIES
    while True:
        found: dict[str, Any] = _cut(plain, text, entries, 0)
        if len(msgspec.json.encode(found)) <= LARGEST or entries == 1:
            return found
        text, entries = max(text // 2, 50), max(entries // 2, 1)


def _cut(value: Any, text: int, entries: int, depth: int) -> Any:
    if isinstance(value, str):
        return value if len(value) <= text else f"{value[:text]}… (cut, {len(value)} characters)"
    if isinstance(value, int | float) or value is None:
        # Larger numbers change in programs that read JSON numbers as doubles.
        return str(value) if isinstance(value, int) and abs(value) > 2**53 else value
    if depth == DEEPEST:
        return "… (cut, nested too deeply)"
    if isinstance(value, dict):
        kept = {key[:text]: _cut(one, text, entries, depth + 1) for key, one in list(value.items())[:entries]}
        return kept if len(value) <= entries else {**kept, "…": f"cut, {len(value)} members"}
    items = [_cut(one, text, entries, depth + 1) for one in value[:entries]]
    return items if len(value) <= entries else [*items, f"… (cut, {len(value)} entries)"]

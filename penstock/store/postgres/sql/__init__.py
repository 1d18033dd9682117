"""The SQL of the PostgreSQL store, in the order it is loaded.

`migrations` make tables and run once each. `pgque` (streams) and `penstock` (functions) are loaded as a whole whenever
any of their files changed. Files of a unit lie in folders by feature; the number in a file's name is its place in the
order, unique within the unit.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).parent


@cache
def sources(unit: str) -> tuple[tuple[str, str], ...]:
    """File names and texts of `migrations`, `pgque` or `penstock`."""
    found = sorted((_FOLDER / unit).rglob("*.sql"), key=lambda path: path.name)
    return tuple((path.name, path.read_text("utf-8")) for path in found)


def whole(unit: str) -> str:
    """The text of a unit that is loaded as a whole."""
    return "\n".join(text for _, text in sources(unit))

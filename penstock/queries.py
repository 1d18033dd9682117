"""The named queries of folders' `.sql` files.

A file holds blocks that begin with `-- name: some_query`; what stands before the first belongs to the reader.
"""

from __future__ import annotations

from pathlib import Path

_NAME = "-- name: "


def parse(text: str) -> dict[str, str]:
    queries: dict[str, str] = {}
    for block in ("\n" + text).split("\n" + _NAME)[1:]:
        name, _, body = block.partition("\n")
        if name in queries:
            raise ValueError(f"query {name!r} is defined twice")
        queries[name] = body.strip()
    return queries


def load(*folders: Path) -> dict[str, str]:
    queries: dict[str, str] = {}
    for path in sorted(path for folder in folders for path in folder.glob("*.sql")):
        found = parse(path.read_text("utf-8"))
        if twice := queries.keys() & found.keys():
            raise ValueError(f"{path.name} defines again: {', '.join(sorted(twice))}")
        queries.update(found)
    return queries

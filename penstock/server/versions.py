"""Which Penstock this is."""

from __future__ import annotations

from functools import cache


@cache
def version() -> str:
    from importlib import metadata

    try:
        return metadata.version("penstock")
    except metadata.PackageNotFoundError:
        return "(not installed)"

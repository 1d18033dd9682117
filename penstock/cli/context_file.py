"""Named servers: a file with the URL and the token of each, and the name of the one in use."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from penstock.errors import Invalid, NotFound


def path() -> Path:
    if named := os.environ.get("PENSTOCK_CONTEXTS"):
        return Path(named)
    base = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(base) / "penstock" / "contexts.json"


def read() -> dict[str, Any]:
    """`{"current": NAME, "contexts": {NAME: {"url": URL, "token": TOKEN}}}`."""
    try:
        found = json.loads(path().read_text("utf-8"))
    except FileNotFoundError:
        return {"current": None, "contexts": {}}
    except ValueError as error:
        raise Invalid(f"{path()} is not valid JSON: {error}") from None
    if not isinstance(found, dict) or not isinstance(found.get("contexts"), dict):
        raise Invalid(f"{path()} has no contexts")
    return found


def write(found: dict[str, Any]) -> None:
    """Replace the file as a whole. Only its owner may read it: it holds tokens."""
    target = path()
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f"{target.name}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(found, file, indent=2)
        file.write("\n")
    temporary.replace(target)


def get(name: str) -> tuple[str, str | None]:
    """URL and token of a context."""
    found = read()["contexts"].get(name)
    if found is None:
        raise NotFound(f"context '{name}' does not exist; create it with: penstock context add {name} URL")
    return str(found["url"]), found.get("token")

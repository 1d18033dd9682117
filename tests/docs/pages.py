"""The pages of the documentation, and their parts: sections, tables, blocks."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
DOCUMENTED_ADDRESS = "http://127.0.0.1:9324"
COMMAND = re.compile(r"^\$ ", re.MULTILINE)


def page(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def section(text: str, heading: str) -> str:
    """The text under a heading, up to the next heading of its level."""
    rank = heading.partition(" ")[0]
    assert f"\n{heading}\n" in text, heading
    return re.split(rf"\n#{{2,{len(rank)}}} ", text.partition(f"\n{heading}\n")[2])[0]


def rows(text: str) -> list[list[str]]:
    """The cells of all tables of a text, without the header rows."""
    found: list[list[str]] = []
    for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        lines = [[cell.strip() for cell in line.strip()[1:-1].split("|")] for line in table.splitlines()]
        found += lines[2:]
    return found


def plain(cell: str) -> str:
    return cell.strip("` ")


def quoted(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


def blocks(text: str) -> list[tuple[str, str]]:
    """Language and content of every fenced block."""
    return re.findall(r"^```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def eventually(true: Callable[[], bool], timeout: float = 20) -> None:
    give_up = time.monotonic() + timeout
    while not true():
        assert time.monotonic() < give_up
        time.sleep(0.02)

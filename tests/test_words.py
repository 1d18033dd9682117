"""The wording of code and documentation: no pronouns for people, no retired names, one name for each variable."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.config.settings import KNOWN

ROOT = Path(__file__).parent.parent

PRONOUNS = re.compile(r"(?<![\"`])\b([Hh]e|[Hh]is|[Hh]im|[Hh]imself|[Ww]hoever)\b(?![\"`])")
"""Quoted words are about the words themselves."""

RETIRED = re.compile(r"\b_?(KnownQueues|[Cc]rowding|Misunderstood|figures)\b|([Rr]ollup)")
"""Former names: QueueCache, InFlightLimit, ScheduleError, insights, gauges."""

FOLDERS = ("bench", "docs", "examples", "penstock", "pyspark_penstock", "pyspark_penstock_lake", "tests")
FILES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "Makefile", "pyproject.toml")
SUFFIXES = {".css", ".html", ".js", ".md", ".py", ".sql"}
NOT_EDITED = {"migrations", "node_modules", "schema.sql", "test_words.py", "vendor"}
"""Released migrations, generated and foreign files, and this one."""


def sources() -> list[Path]:
    found = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.suffix in SUFFIXES]
    return sorted({path for path in [*found, *(ROOT / name for name in FILES)] if not NOT_EDITED & set(path.parts)})


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """Line number and text of what people read: comments and strings of code, everything of other files."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.lineno, node.value
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                yield token.start[0], token.string
    else:
        yield from enumerate(text.splitlines(), 1)


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_people_are_not_he() -> None:
    found = [
        f"{named(path)}:{line}: {word[1]}"
        for path in sources()
        if PRONOUNS.search(path.read_text(encoding="utf-8"))
        for line, text in prose(path)
        for word in PRONOUNS.finditer(text)
    ]

    assert found == []


def test_retired_names_are_gone() -> None:
    found = [
        f"{named(path)}:{line}: {word[0]}"
        for path in sources()
        for line, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        for word in RETIRED.finditer(text)
    ]

    assert found == []


def test_pages_use_the_canonical_variables() -> None:
    aliases = {found.alias for found in KNOWN.values() if found.alias} - {"DATABASE_URL"}
    pattern = re.compile(rf"\b({'|'.join(sorted(aliases))})\b")
    pages = [path for path in (ROOT / "docs").rglob("*.md") if path.name != "reference.md"]

    assert [f"{named(path)}: {word[1]}" for path in pages for word in pattern.finditer(path.read_text())] == []


@pytest.mark.parametrize("text", ["in his transaction", "Whoever waits", "(he said)"])
def test_a_pronoun_is_found(text: str) -> None:
    assert PRONOUNS.search(text) is not None


@pytest.mark.parametrize("text", ["the history", 'do not write "he"', "when it is there", "this"])
def test_other_words_are_not_pronouns(text: str) -> None:
    assert PRONOUNS.search(text) is None

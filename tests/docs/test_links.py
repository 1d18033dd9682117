"""What the documentation names exists: links, files, commands, folders. No page names a machine."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, PAGES, ROOT, blocks, page, quoted, rows, section
from tests.test_architecture import LEAF, MAY_IMPORT, folders


def anchors(text: str) -> set[str]:
    """The anchors GitHub gives to headings."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_resolve(path: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", path.read_text()):
        if target.startswith("https://"):
            continue
        file, _, anchor = target.partition("#")
        found = (path.parent / file).resolve() if file else path
        assert found.exists(), target
        assert not anchor or anchor in anchors(found.read_text()), target


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_named_files_exist(path: Path) -> None:
    ours = re.compile(r"(?:penstock|tests|bench|docs|examples|\.ci)(?:/[\w.*-]+)+|requirements[\w-]*\.lock")
    for name in quoted(path.read_text()):
        if ours.fullmatch(name):
            assert (ROOT / name).exists(), name


def test_the_targets_of_make_exist() -> None:
    verbs = set(re.findall(r"^([a-z-]+):.*## ", page("Makefile"), re.MULTILINE))
    for path in PAGES:
        text = path.read_text()
        named = [name for code in quoted(text) for name in re.findall(r"^make ([\w-]+)", code)]
        named += [name for _, content in blocks(text) for name in re.findall(r"^make ([\w-]+)", content, re.MULTILINE)]
        assert set(named) <= verbs, path


def test_the_table_of_allowed_imports_is_enforced() -> None:
    documented: dict[str, set[str]] = {}
    for row in rows(section(page("CONTRIBUTING.md"), "## Packages")):
        leaves = "the leaves" in row[1] or "each other" in row[1]
        for package in quoted(row[0]):
            documented[package] = set(quoted(row[1])) | (LEAF if leaves else set())

    assert documented == MAY_IMPORT


def test_the_folder_tree_is_that_of_the_package() -> None:
    [tree] = [text for language, text in blocks(section(page("docs/design.md"), "## Layers")) if language == "text"]
    documented: list[str] = []
    path: list[str] = []
    for line in tree.splitlines():
        found = re.fullmatch(r"((?:  )*)(\w+)/ +(\S.*)", line)
        assert found is not None, line
        path = [*path[: len(found[1]) // 2], found[2]]
        documented.append("/".join(path))

    assert documented == sorted(
        str(folder.relative_to(ROOT)) for folder in folders() if len(folder.relative_to(ROOT).parts) <= 4
    )


def test_the_files_of_ordinary_changes_exist() -> None:
    changes = rows(section(page("CONTRIBUTING.md"), "## Where to make a change"))

    assert len(changes) >= 10
    for change, files in changes:
        named = [name for name in quoted(files) if "/" in name]
        assert 2 <= len(named) <= 7, change
        assert [name for name in named if not (ROOT / name).exists()] == []


def test_decisions_are_short_and_numbered() -> None:
    found = sorted((DOCS / "decisions").iterdir())
    for number, path in enumerate(found, 1):
        text = path.read_text()
        assert path.name.startswith(f"{number:04}-")
        assert text.startswith(f"# {number}. ")
        assert re.findall(r"^## (.*)$", text, re.MULTILINE) == ["Context", "Decision", "Consequences"]
        assert len(text.splitlines()) <= 40


def test_the_changelog_has_a_place_for_what_is_not_released() -> None:
    assert re.findall(r"^## (.*)$", page("CHANGELOG.md"), re.MULTILINE)[0] == "[Unreleased]"


SOMEONES_MACHINE = re.compile(
    r"(?<![\w.~-])/(?:root|work|Users)/"
    r"|(?<![\w.~-])/home/(?!someone\b)\w"
    r"|(?<!-)--(?:extra-)?index-url"
    r"|https?://[^\s/\"']*(?:pypi|pythonhosted|registry|mirror|artifact|nexus)"
)
"""Home directories and package registries, which must not appear in the repository. `someone` is a placeholder."""


@pytest.mark.skipif(not (ROOT / ".git").exists() or shutil.which("git") is None, reason="not a clone")
def test_no_file_contains_paths_of_a_machine() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        check=True,
        env={**os.environ, "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"},
    )
    told = []
    for name in listed.stdout.decode().split("\0"):
        path = ROOT / name
        if not name or path == Path(__file__) or not path.is_file():
            continue
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        told += [f"{name}: {found[0]}" for found in SOMEONES_MACHINE.finditer(text)]

    assert told == []

"""The public API: `__all__` equals the visible names and the documentation, and the import is cheap."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import penstock
from penstock.server.versions import version

ROOT = Path(__file__).parent.parent

VISIBLE = """
import types, penstock
names = [name for name, value in vars(penstock).items() if not isinstance(value, types.ModuleType)]
names += penstock._LATER
print(*(name for name in names if not name.startswith("_")))
"""
LOADED = "import sys, penstock; print(*{name.partition('.')[0] for name in sys.modules})"


def run(code: str) -> list[str]:
    """Run code in a new process: this one has imported most of the package."""
    command = [sys.executable, "-c", code]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()


def test_what_is_visible_is_what_is_announced() -> None:
    assert sorted(run(VISIBLE)) == sorted(set(penstock.__all__) - {"__version__"})


def test_what_is_announced_is_documented() -> None:
    section = (ROOT / "docs" / "reference.md").read_text().partition("\n## Python\n")[2]

    assert sorted(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)) == sorted(penstock.__all__)


def test_every_announced_name_is_there() -> None:
    for name in penstock.__all__:
        assert getattr(penstock, name) is not None


def test_the_version_is_the_servers() -> None:
    assert penstock.__version__ == version()


def test_other_names_are_missing_as_usual() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        penstock.__getattr__("Nonsense")


def test_the_import_needs_nothing_but_the_standard_library() -> None:
    # Some modules are loaded by the interpreter itself, for example by an editable install.
    strangers = set(run(LOADED)) - set(run("import sys; print(*{name.partition('.')[0] for name in sys.modules})"))

    assert strangers - sys.stdlib_module_names == {"penstock"}

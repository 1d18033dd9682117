"""The tutorial works as printed: every block runs in its order, on a server of its own."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import DOCUMENTED_ADDRESS, blocks, page
from tests.system.serving import environment, penstock, serving

STARTS = "make serve\n"
"""The block that starts the server; the test starts one instead, on the store that the tutorial uses."""
WHOLE = re.compile(r"penstock [^$|<>]*")
SAVED = re.compile(r"as\n?\s*`(\w+\.py)`")


class Terminal:
    """Runs the blocks of the tutorial as a reader does: in one folder and one session."""

    def __init__(self, url: str, database: str, folder: Path) -> None:
        self._url = url
        self._folder = folder
        (folder / "bin").mkdir()
        for name, command in {"penstock": "-m penstock", "python": ""}.items():
            script = folder / "bin" / name
            script.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {command} "$@"\n')
            script.chmod(0o755)
        path = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
        # The reader's database is that of the data directory; `penstock sql url` prints the URL of either.
        self._more = {"HOME": str(folder), "PATH": path, "DATABASE_URL": database}

    def run(self, block: str) -> str:
        lines = block.replace(DOCUMENTED_ADDRESS, self._url).splitlines()
        lines = [line for line in lines if line != ". .venv/bin/activate"]
        exports = [line for line in lines if line.startswith("export ")]
        self._more |= dict(line.removeprefix("export ").split("=", 1) for line in exports)
        lines = [line for line in lines if line not in exports]
        if all(map(WHOLE.fullmatch, lines)):
            return "".join(self._command(line) for line in lines)
        return self._shell("\n".join(lines))

    def _command(self, line: str) -> str:
        done = penstock(*shlex.split(line)[1:], cwd=self._folder, more=self._more)
        assert done.returncode == 0, (line, done.stdout, done.stderr)
        return done.stdout or done.stderr

    def _shell(self, text: str) -> str:
        done = subprocess.run(
            ["sh", "-ec", text],
            cwd=self._folder,
            env=environment(self._more),
            capture_output=True,
            text=True,
            timeout=110,
        )
        assert done.returncode == 0, (text, done.stdout, done.stderr)
        return done.stdout


def test_the_tutorial_has_fourteen_tasks() -> None:
    tasks = re.findall(r"^## (\d+)\. ", page("docs/tutorial.md"), re.MULTILINE)

    assert [int(number) for number in tasks] == list(range(1, 15))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_every_block_of_the_tutorial_works_as_printed(migrated_database: str, tmp_path: Path) -> None:
    text = page("docs/tutorial.md")
    names = iter(SAVED.findall(text))
    with serving("--database-url", migrated_database) as server:
        terminal = Terminal(server.url, migrated_database, tmp_path)
        printed = ""
        for language, block in blocks(text):
            if language == "python":
                (tmp_path / next(names)).write_text(block)
            elif language == "text":
                assert trimmed(printed) == trimmed(block)
            elif block != STARTS:
                printed = terminal.run(block)
    assert next(names, None) is None


def trimmed(text: str) -> list[str]:
    """Tables pad the last column too."""
    return [line.rstrip() for line in text.splitlines()]

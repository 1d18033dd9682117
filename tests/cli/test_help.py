"""What `--help` shows of each command."""

from __future__ import annotations

import re
from typing import Any

import pytest

from penstock.cli import command_line
from penstock.cli.manual import commands
from tests.cli.commands import penstock

ALL: dict[str, Any] = dict(commands(command_line()))
PYTHON = re.compile(r"[{}]|\[\[|\.{4}|<(str|bool|int|float|list|path)\b")
"""What typer shows of Python, and what it adds around the name of an argument."""


@pytest.mark.parametrize("command", ALL)
def test_help_has_words_of_the_command_line_and_no_types_of_python(command: str) -> None:
    shown = penstock(*command.split()[1:], "--help")

    assert shown.code == 0
    # The default of a payload is JSON.
    assert not PYTHON.search(shown.out.replace("[default: {}]", ""))


def test_an_argument_looks_the_same_in_the_usage_and_in_its_explanation() -> None:
    shown = penstock("pipeline", "run", "import", "--help").out
    usage, explained = shown.split("Arguments:")
    assert usage.startswith("Usage: penstock pipeline run import [OPTIONS] SOURCE [PATHS...]\n")
    assert "\n  PATHS...  " in explained

    assert penstock("pgque", "consumers", "--help").out.startswith("Usage: penstock pgque consumers [OPTIONS] [QUEUE]")


@pytest.mark.parametrize("group", sorted({name.rpartition(" ")[0] for name in ALL if name.count(" ") > 1}))
def test_the_list_of_a_group_has_whole_sentences(group: str) -> None:
    listed = penstock(*group.split()[1:], "--help").out.split("Commands:\n")[1]

    assert "..." not in listed
    assert re.search(r"\w\.$", listed.rstrip())

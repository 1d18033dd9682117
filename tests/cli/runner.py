"""Typer's runner of commands in this process. It builds the whole command line for each of them; here only once."""

from __future__ import annotations

from functools import cache

from typer import testing
from typer.main import get_command

testing._get_command = cache(get_command)  # type: ignore[attr-defined]

CliRunner = testing.CliRunner
Result = testing.Result

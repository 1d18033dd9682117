"""Runs commands in this process, as `penstock` does."""

from __future__ import annotations

import io
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from typing import Any, TypeVar
from unittest.mock import patch

import msgspec

from penstock.cli import main

Shape = TypeVar("Shape")


@dataclass(frozen=True)
class Done:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str


def penstock(*arguments: str, stdin: str = "") -> Done:
    out, err = io.StringIO(), io.StringIO()
    code: Any = 0
    with redirect_stdout(out), redirect_stderr(err), patch("sys.stdin", io.StringIO(stdin)):
        try:
            main(list(arguments))
        except SystemExit as end:
            code = end.code or 0
    return Done(code, out.getvalue(), err.getvalue())


@dataclass(frozen=True)
class Target:
    """A server or a database that commands work on."""

    kind: str
    options: tuple[str, ...]

    def run(self, *arguments: str, stdin: str = "", code: int = 0) -> Done:
        done = penstock(*arguments, *self.options, stdin=stdin)
        assert done.code == code, (arguments, done)
        return done

    def json(self, shape: type[Shape], *arguments: str, stdin: str = "", code: int = 0) -> Shape:
        """The output with `--json`, checked against the type that describes it in the OpenAPI document."""
        done = self.run(*arguments, "--json", stdin=stdin, code=code)
        return msgspec.json.decode(done.out, type=shape)

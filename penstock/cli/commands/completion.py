"""`penstock completion`: a script that completes commands and options in a shell."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer


class Shell(StrEnum):
    bash = "bash"
    zsh = "zsh"
    fish = "fish"


def completion(shell: Annotated[Shell, typer.Argument(help="The shell.")]) -> None:
    """Print a completion script, for example for `source <(penstock completion bash)`."""
    from typer._completion_shared import get_completion_script

    print(get_completion_script(prog_name="penstock", complete_var="_PENSTOCK_COMPLETE", shell=shell.value))

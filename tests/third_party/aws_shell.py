"""The `aws` command many times over, without starting a Python for each.

A list of arguments comes in as a line of JSON; the exit status, standard output and standard error go out as another.
"""

from __future__ import annotations

import io
import json
import sys
from contextlib import redirect_stderr, redirect_stdout

from awscli.clidriver import create_clidriver

driver = create_clidriver()


def call(arguments: list[str]) -> tuple[int, str, str]:
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="") for _ in range(2))
    with redirect_stdout(out), redirect_stderr(err):
        status = driver.main(arguments)
    return status, _text(out), _text(err)


def _text(stream: io.TextIOWrapper) -> str:
    stream.flush()
    stream.seek(0)
    return stream.read()


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(call(json.loads(line))), flush=True)

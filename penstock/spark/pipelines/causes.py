"""What went wrong, in one line: the cause at the bottom, not the Java and Python around it."""

from __future__ import annotations

import re

from penstock.spark.pipelines.run_log import scrubbed

LENGTH = 500

_PYTHON_ERROR = re.compile(r"^((?:\w+\.)*)([A-Z]\w*(?:Error|Exception|Failure|Lost|Unavailable)): ?(.*)$")
_JAVA_CAUSE = re.compile(r"^Caused by: ((?:[\w$]+\.)*)(\w+): (.*)$")
_FRAME = re.compile(r"^\s+at |^\s*File \"|^Traceback |^\s+\.\.\. \d+ more|^\s*[~^]+\s*$")


def cause(error: BaseException) -> str:
    while error.__cause__ is not None and error.__cause__ is not error:
        error = error.__cause__
    text = str(error).strip()
    found = _last(_PYTHON_ERROR, text) or _last(_JAVA_CAUSE, text)
    if found is None:
        lines = [line for line in text.splitlines() if line.strip() and not _FRAME.match(line)]
        found = lines[0].strip() if lines else type(error).__name__
    return scrubbed(" ".join(found.split()))[:LENGTH]


def _last(pattern: re.Pattern[str], text: str) -> str | None:
    """A traceback ends with what happened; of several, the last is the outermost that says so in words."""
    found = [match for line in text.splitlines() if (match := pattern.match(line.strip())) and match[3].strip()]
    if not found:
        return None
    module, name, words = found[-1].groups()
    # Our own errors say in words what is wrong; the name of a class would add nothing.
    return words if module.startswith("penstock.") or name == "ValueError" else f"{name}: {words}"

"""What went wrong, in one line: the cause at the bottom, not the Java and Python around it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from penstock.spark.pipelines.run_log import scrubbed

LENGTH = 500
JAVA_ENDED = "Spark's Java ended in the midst of the run: it was killed, or had too little memory"

_PYTHON_ERROR = re.compile(r"^((?:\w+\.)*)([A-Z]\w*(?:Error|Exception|Failure|Lost|Unavailable)): ?(.*)$")
# Py4J has the first of them on a line of its own.
_JAVA_CAUSE = re.compile(r"^(?:Caused by)?: ((?:[\w$]+\.)*)([\w$]+): (.*)$")
_NO_START = re.compile(
    r'^(?:Exception in thread "main" (?:[\w$]+\.)*[\w$]+: |Error: |Error occurred during initialization of VM\n)(.+)$',
    re.MULTILINE,
)
_FRAME = re.compile(r"^\s+at |^\s*File \"|^Traceback |^\s+\.\.\. \d+ more|^\s*[~^]+\s*$")


def cause(error: BaseException) -> str:
    found = _own_words(error)
    if found is None:
        found = JAVA_ENDED if any(_lost_java(each) for each in _causes(error, met=True)) else _deepest(error)
    return scrubbed(" ".join(found.split()))[:LENGTH]


def is_clear(error: BaseException) -> bool:
    """Whether it is an error of ours: its text says all there is to say, and a log would add nothing."""
    return _own_words(error) is not None


def why_no_start(log: str) -> str | None:
    """The line in Spark's log that says why its Java did not start."""
    found = _NO_START.search(log)
    return None if found is None else found[1].strip()


def _own_words(error: BaseException) -> str | None:
    """Of an error of ours, raised here or told by a task: what led to it is for us to know."""
    causes = list(_causes(error))
    for each in causes:
        if type(each).__module__.startswith("penstock."):
            return str(each) or None
    found = _last(_PYTHON_ERROR, _text(causes[-1]))
    return found[3] if found is not None and found[1].startswith("penstock.") else None


def _deepest(error: BaseException) -> str:
    [*_, error] = _causes(error)
    text = _text(error)
    if (found := _last(_PYTHON_ERROR, text) or _last(_JAVA_CAUSE, text)) is not None:
        # A value is wrong in words; the name of the class would add nothing.
        return found[3] if found[2] == "ValueError" else f"{found[2]}: {found[3]}"
    lines = [line for line in text.splitlines() if line.strip() and not _FRAME.match(line)]
    return lines[0] if lines else type(error).__name__


def _last(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    """A traceback ends with what happened; of several, the last is the outermost that says so in words."""
    found = [match for line in text.splitlines() if (match := pattern.match(line.strip())) and match[3].strip()]
    return found[-1] if found else None


def _causes(error: BaseException | None, *, met: bool = False) -> Iterator[BaseException]:
    """From the outside in; `met` with what it came upon: whoever cleans up after Java finds it gone, too."""
    seen: list[BaseException] = []
    while error is not None and error not in seen:
        seen.append(error)
        yield error
        error = error.__cause__ or (error.__context__ if met else None)


def _lost_java(error: BaseException) -> bool:
    """As Py4J says it: by a socket that is shut, or by an answer that says nothing."""
    name, text = type(error).__name__, _text(error)
    said_nothing = text.startswith("An error occurred while calling") and "\n" not in text
    is_socket = isinstance(error, ConnectionRefusedError | ConnectionResetError)
    return is_socket or name == "Py4JNetworkError" or (name.startswith("Py4J") and said_nothing)


def _text(error: BaseException) -> str:
    try:
        return str(error).strip()
    except Exception:
        # Py4J asks Java for the text of an error of Java, and that may be gone.
        return "An error occurred while calling Java"

"""The cause of a failure in one line, without the Java and Python stack traces around it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from penstock.spark.pipelines.run_log import scrubbed

LENGTH = 500
JAVA_ENDED = "Spark's Java process ended during the run: it was killed, or ran out of memory"

_PYTHON_ERROR = re.compile(r"^((?:\w+\.)*)([A-Z]\w*(?:Error|Exception|Failure|Lost|Unavailable)): ?(.*)$")
# Py4J puts the first of them on a line of its own.
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


def is_own_error(error: BaseException) -> bool:
    """Whether it is an error of this package: its text is complete, and a log adds nothing."""
    return _own_words(error) is not None


def start_failure(log: str) -> str | None:
    """The line of Spark's log that says why Java did not start."""
    found = _NO_START.search(log)
    return None if found is None else found[1].strip()


def _own_words(error: BaseException) -> str | None:
    """The text of an error of this package, raised here or reported by a task; None for other errors."""
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
        # The text of a ValueError is enough; the name of the class adds nothing.
        return found[3] if found[2] == "ValueError" else f"{found[2]}: {found[3]}"
    lines = [line for line in text.splitlines() if line.strip() and not _FRAME.match(line)]
    return lines[0] if lines else type(error).__name__


def _last(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    """The last match: a traceback ends with the error."""
    found = [match for line in text.splitlines() if (match := pattern.match(line.strip())) and match[3].strip()]
    return found[-1] if found else None


def _causes(error: BaseException | None, *, met: bool = False) -> Iterator[BaseException]:
    """The chain of causes, outermost first; with `met`, also errors that occurred while another was handled."""
    seen: list[BaseException] = []
    while error is not None and error not in seen:
        seen.append(error)
        yield error
        error = error.__cause__ or (error.__context__ if met else None)


def _lost_java(error: BaseException) -> bool:
    """Whether Py4J has lost Java: its socket is closed, or its answer is empty."""
    name, text = type(error).__name__, _text(error)
    said_nothing = text.startswith("An error occurred while calling") and "\n" not in text
    is_socket = isinstance(error, ConnectionRefusedError | ConnectionResetError)
    return is_socket or name == "Py4JNetworkError" or (name.startswith("Py4J") and said_nothing)


def _text(error: BaseException) -> str:
    try:
        return str(error).strip()
    except Exception:
        # Py4J asks Java for the text, and Java may have ended.
        return "An error occurred while calling Java"

"""Functions and folders stay small enough to read: no function over 80 lines, no folder over 20 source files."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
MOST_LINES = 80
MOST_FILES = 20

_SQL_FUNCTION = re.compile(
    r"^create (?:or replace )?(?:function|procedure) ([\w.]+).*?^(?:\$\$;|end;\n(?!\$\$))", re.DOTALL | re.MULTILINE
)


def sources(suffix: str) -> list[Path]:
    return sorted(
        path
        for folder in ("bench", "penstock", "tests")
        for path in (ROOT / folder).rglob(f"*{suffix}")
        if "migrations" not in path.parts
    )


def python_functions() -> Iterator[tuple[str, int]]:
    """Name and length, without those of files that are short enough themselves."""
    for path in sources(".py"):
        text = path.read_text("utf-8")
        if text.count("\n") <= MOST_LINES:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{path.relative_to(ROOT)}: {node.name}", (node.end_lineno or node.lineno) - node.lineno + 1


def sql_functions() -> Iterator[tuple[str, int]]:
    for path in sources(".sql"):
        for found in _SQL_FUNCTION.finditer(path.read_text("utf-8")):
            yield found[1], found[0].count("\n") + 1


def test_no_function_in_python_is_too_long() -> None:
    assert [(name, lines) for name, lines in python_functions() if lines > MOST_LINES] == []


def test_no_function_in_sql_is_too_long() -> None:
    found = list(sql_functions())

    assert len(found) > 100
    assert [(name, lines) for name, lines in found if lines > MOST_LINES] == []


def test_no_folder_holds_too_many_source_files() -> None:
    folders = Counter(path.parent.relative_to(ROOT) for suffix in (".py", ".sql") for path in sources(suffix))

    assert {str(folder): count for folder, count in folders.items() if count > MOST_FILES} == {}

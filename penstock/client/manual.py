"""Prints the reference of the client for docs/client.md: `python -m penstock.client.manual`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from penstock.client.api import admin, jobs, queues, schedules, streams, topics
from penstock.client.api.requests import Answered
from penstock.client.job_calls import Jobs
from penstock.client.namespaces import Admin, Queues, Schedules, Streams, Topics

NAMESPACES: tuple[tuple[str, type, ModuleType], ...] = (
    ("queues", Queues, queues),
    ("jobs", Jobs, jobs),
    ("topics", Topics, topics),
    ("streams", Streams, streams),
    ("schedules", Schedules, schedules),
    ("admin", Admin, admin),
)


def lines() -> Iterator[str]:
    for name, namespace, module in NAMESPACES:
        yield f"### client.{name}"
        yield ""
        yield "| method | returns |"
        yield "|---|---|"
        for method, function in methods(namespace):
            given, returned = _signature(function)
            yield f"| `{method}({given})` | {_code(returned)} |"
        yield ""
        yield "| class | fields |"
        yield "|---|---|"
        for kind in classes(module):
            yield f"| `{kind.__name__}` | {', '.join(f'`{field}`' for field in fields(kind))} |"
        for options in option_types(module):
            yield f"| `{options.__name__}` | {', '.join(f'`{field}`' for field in options.__annotations__)} |"
        yield ""


def methods(namespace: type) -> list[tuple[str, Callable[..., Any]]]:
    """The calls of a namespace, in the order in which they are written."""
    return [(name, value) for name, value in vars(namespace).items() if callable(value) and not name.startswith("_")]


def classes(module: ModuleType) -> list[type[Answered]]:
    own = [value for value in vars(module).values() if getattr(value, "__module__", "") == module.__name__]
    return [value for value in own if isinstance(value, type) and issubclass(value, Answered)]


def option_types(module: ModuleType) -> list[type]:
    return [value for name, value in vars(module).items() if name.endswith("Options") and hasattr(value, "__total__")]


def fields(kind: type[Answered]) -> tuple[str, ...]:
    return kind.__struct_fields__


def _signature(function: Callable[..., Any]) -> tuple[str, str]:
    found = inspect.signature(function)
    given = [
        each.replace(annotation=inspect.Parameter.empty) for each in found.parameters.values() if each.name != "self"
    ]
    text = str(found.replace(parameters=given, return_annotation=inspect.Signature.empty))
    return text[1:-1], re.sub(r"^Call\[(.*)\]$", r"\1", str(found.return_annotation))


def _code(text: str) -> str:
    return "" if text == "None" else f"`{text}`"


if __name__ == "__main__":
    print("\n".join(lines()).strip())

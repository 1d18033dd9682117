"""What a request may say at a place where it said something else, read from the type that parses it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import inspect

_STEP = re.compile(r"\.(?P<name>[^.\[\]]+)|\[[^\]]*\]")


def known_fields(shape: Any, path: str) -> list[str]:
    """The fields of the object at this path of msgspec, such as `.jobs[...]`."""
    structs = [node for node in _at(shape, path) if isinstance(node, inspect.StructType)]
    return list(dict.fromkeys(field.encode_name for struct in structs for field in struct.fields))


def allowed_values(shape: Any, path: str) -> list[str]:
    """The values of the choice at this path; none when anything else may stand there too."""
    values: list[str] = []
    for node in _at(shape, path):
        if isinstance(node, inspect.LiteralType):
            values += map(str, node.values)
        elif isinstance(node, inspect.EnumType):
            values += [str(member.value) for member in node.cls]
        elif not isinstance(node, inspect.NoneType):
            return []
    return values


def listed(values: Sequence[str]) -> str:
    """`a, b or c`."""
    return " or ".join(filter(None, [", ".join(values[:-1]), values[-1]])) if values else ""


def _at(shape: Any, path: str) -> list[inspect.Type]:
    nodes = list(_choices(inspect.type_info(shape)))
    for step in _STEP.finditer(path):
        nodes = [choice for node in nodes for part in _parts(node, step["name"]) for choice in _choices(part)]
    return nodes


def _choices(node: inspect.Type) -> Iterator[inspect.Type]:
    if isinstance(node, inspect.Metadata):
        yield from _choices(node.type)
    elif isinstance(node, inspect.UnionType):
        for one in node.types:
            yield from _choices(one)
    else:
        yield node


def _parts(node: inspect.Type, name: str | None) -> Iterator[inspect.Type]:
    if isinstance(node, inspect.StructType):
        yield from (field.type for field in node.fields if field.encode_name == name)
    elif isinstance(node, inspect.DictType):
        yield node.value_type
    elif isinstance(node, inspect.ListType):
        yield node.item_type

"""The Query protocol, inwards: `Entry.1.Name=…` from a form or a query string, into the Struct of an action."""

from __future__ import annotations

from typing import Any, TypeVar
from urllib.parse import parse_qsl

import msgspec
from msgspec import Struct

from penstock.wire.aws_errors import AwsError, malformed
from penstock.wire.aws_json import serialization_fault
from penstock.wire.aws_shapes import ListPlan, MapPlan, Named, Plan, Scalar, StructPlan, plan

Shape = TypeVar("Shape", bound=Struct)
Parameters = dict[str, str]
Tree = dict[str, Any]
"""Parameters by the parts of their names; what is a value and has parts below it too keeps the value under ''."""

MAX_PARAMETERS = 10_000
MAX_DEPTH = 12


def parse(*sources: bytes | bytearray) -> Parameters:
    """The parameters of a query string and of a form; of one given twice the last counts."""
    found: Parameters = {}
    for source in sources:
        if source:
            try:
                text = bytes(source).decode("ascii")
                found |= parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=MAX_PARAMETERS)
            except ValueError:
                raise AwsError("MalformedQueryString", "The query string is not well formed.") from None
    return found


def read(shape: type[Shape], parameters: Parameters) -> Shape:
    neutral = _struct(plan(shape), tree(parameters))
    try:
        return msgspec.convert(neutral, shape, strict=False)
    except msgspec.ValidationError as error:
        raise serialization_fault(error) from None


def tree(parameters: Parameters) -> Tree:
    root: Tree = {}
    for name, value in parameters.items():
        node = root
        *parents, last = name.split(".", MAX_DEPTH)
        for part in parents:
            below = node.setdefault(part, {})
            if not isinstance(below, dict):
                below = node[part] = {"": below}
            node = below
        here = node.get(last)
        if isinstance(here, dict):
            here[""] = value
        else:
            node[last] = value
    return root


def _struct(shape: StructPlan, node: Any) -> dict[str, Any]:
    if not isinstance(node, dict):
        raise malformed("Start of structure or map expected.")
    found = {}
    for field in shape.fields:
        value = _value(field.plan, field.name, node)
        if value is not None:
            found[field.name] = value
    return found


def _value(shape: Plan, name: str, node: Tree) -> Any:
    if isinstance(shape, Scalar | StructPlan):
        below = node.get(name)
        return None if below is None else _item(shape, below)
    below = node.get(shape.names.item) if shape.names.flat else _unwrapped(node.get(name), shape.names)
    if below is None:
        return None
    items = _numbered(below)
    if isinstance(shape, ListPlan):
        return [_item(shape.item, item) for item in items]
    return dict(_entry(shape, item) for item in items)


def _unwrapped(below: Any, names: Named) -> Any:
    if isinstance(below, dict):
        return below.get(names.item, {})
    # `Tags=` is how clients write an empty list.
    return {} if below == "" else below


def _numbered(below: Any) -> list[Any]:
    """The items in the order of their numbers. A lone one may come without."""
    if not isinstance(below, dict):
        return [below] if below else []
    numbers = sorted((part for part in below if part.isdecimal()), key=int)
    if numbers:
        return [below[number] for number in numbers]
    return [below] if below and set(below) != {""} else []


def _entry(shape: MapPlan, item: Any) -> tuple[str, Any]:
    node = item if isinstance(item, dict) else {}
    key, value = node.get(shape.names.key), node.get(shape.names.value)
    if not isinstance(key, str):
        raise malformed("A map has an entry without a key.")
    return key, None if value is None else _item(shape.value, value)


def _item(shape: Plan, node: Any) -> Any:
    if isinstance(shape, StructPlan):
        return _struct(shape, node)
    if isinstance(shape, Scalar):
        if isinstance(node, dict):
            raise malformed("Start of structure or map found where not expected.")
        return node
    raise malformed("Start of list found where not expected")

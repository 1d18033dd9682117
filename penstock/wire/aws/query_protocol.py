"""The Query protocol, inwards: `Entry.1.Name=…` from a form or a query string, into the Struct of an action.

A form is taken apart without decoding it. A value is decoded when the Struct of the action asks for it, so a large
form costs no more than what the action reads.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterator
from typing import Any, TypeVar
from urllib.parse import unquote_to_bytes

import msgspec
from msgspec import Struct

from penstock.wire.aws.errors import AwsError, malformed
from penstock.wire.aws.json_protocol import serialization_fault
from penstock.wire.aws.shapes import ListPlan, MapPlan, Named, Plan, Scalar, StructPlan, plan

Shape = TypeVar("Shape", bound=Struct)
Parameters = dict[str, bytes]
"""Names, decoded, and values as they were sent."""
Tree = dict[str, Any]
"""Parameters by the parts of their names; what is a value and has parts below it too keeps the value under ''."""

MAX_PARAMETERS = 2_000
"""A batch of ten messages with ten attributes each has about 500."""
MAX_NAME = 512
MAX_DEPTH = 12
_SMALL = 65_536

_NUMBER = re.compile(r"[0-9]{1,9}")


def parse(*sources: bytes | bytearray) -> Parameters:
    """The parameters of a query string and of a form; of one given twice the last counts."""
    found: Parameters = {}
    for source in sources:
        if not source:
            continue
        if source.count(b"&") >= MAX_PARAMETERS or not source.isascii():
            raise _not_well_formed()
        for part in bytes(source).split(b"&"):
            name, _, value = part.partition(b"=")
            if len(name) > MAX_NAME:
                raise _not_well_formed()
            if part:
                found[decode(name)] = value
    return found


def text(parameters: Parameters, name: str) -> str | None:
    value = parameters.get(name)
    return None if value is None else decode(value)


def decode(raw: bytes) -> str:
    """A name or a value as text. In time and memory that grow with its length alone, whatever it holds."""
    try:
        return _unescaped(raw.replace(b"+", b" ")).decode()
    except UnicodeDecodeError:
        raise _not_well_formed() from None


def _unescaped(raw: bytes) -> bytes:
    escapes = raw.count(b"%")
    if not escapes:
        return raw
    if len(raw) <= _SMALL:
        return unquote_to_bytes(raw)
    # The standard library makes an object of every escape: a form of them takes a hundred times its size.
    plain = b"".join(map(_decoded_in_c, _pieces(raw)))
    if len(plain) != len(raw) - 2 * escapes:
        raise _not_well_formed()
    return plain


def _pieces(raw: bytes) -> Iterator[bytes]:
    """Parts that split no escape, each so small that other threads get their turn between two of them."""
    start = 0
    while start < len(raw):
        end = min(start + _SMALL, len(raw))
        cut = raw.rfind(b"%", max(end - 2, start), end)
        end = cut if cut > start and end < len(raw) else end
        yield raw[start:end]
        start = end


def _decoded_in_c(raw: bytes) -> bytes:
    """Quoted-printable has the same escapes behind another sign; it differs in line breaks and in broken escapes."""
    if b"\n" in raw or b"\r" in raw:
        raise _not_well_formed()
    return binascii.a2b_qp(raw.replace(b"=", b"=3D").replace(b"%", b"="))


def _not_well_formed() -> AwsError:
    return AwsError("MalformedQueryString", "The query string is not well formed.")


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
    return {} if below == b"" else below


def _numbered(below: Any) -> list[Any]:
    """The items in the order of their numbers. A lone one may come without."""
    if not isinstance(below, dict):
        return [below] if below else []
    numbers = sorted((part for part in below if _NUMBER.fullmatch(part)), key=int)
    if numbers:
        return [below[number] for number in numbers]
    return [below] if below and set(below) != {""} else []


def _entry(shape: MapPlan, item: Any) -> tuple[str, Any]:
    node = item if isinstance(item, dict) else {}
    key, value = node.get(shape.names.key), node.get(shape.names.value)
    if not isinstance(key, bytes):
        raise malformed("A map has an entry without a key.")
    return decode(key), None if value is None else _item(shape.value, value)


def _item(shape: Plan, node: Any) -> Any:
    if isinstance(shape, StructPlan):
        return _struct(shape, node)
    if isinstance(shape, Scalar):
        if isinstance(node, dict):
            raise malformed("Start of structure or map found where not expected.")
        return decode(node)
    raise malformed("Start of list found where not expected")

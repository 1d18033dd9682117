"""Reading answers of the server: one value that Python cannot read makes one item unreadable, not the whole answer.

JSON sets no bounds, Python does: numbers such as 1e400, integers of thousands of digits and deeply nested arrays are
valid JSON that no decoder here accepts. An answer may hold many jobs, and their leases have begun.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from penstock.errors import Unavailable

DEEPEST = 3
"""Levels that our own answers have around a payload: a list of leases, a lease, its job."""
OPAQUE = frozenset({"payload", "result", "message"})
"""Members that belong to the user: read as a whole or not at all."""

_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{},:]', re.DOTALL)


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Stands for a value that could not be read."""

    reason: str


def decode(body: bytes) -> Any:
    """The answer, with `Unreadable` in place of what cannot be read; `Unavailable` when it is no JSON."""
    try:
        return msgspec.json.decode(body)
    except (ValueError, RecursionError) as error:
        problem = error
    try:
        return _salvage(body, 0)
    except ValueError:
        raise Unavailable(f"the answer of the server cannot be read: {_reason(problem)}") from problem


def _salvage(text: bytes, depth: int) -> Any:
    try:
        return msgspec.json.decode(text)
    except (ValueError, RecursionError) as error:
        parts = list(_parts(text)) if depth < DEEPEST else []
        if not parts:
            _check(text, error)
            return Unreadable(_reason(error))
    if text.lstrip()[:1] == b"[":
        return [_salvage(value, depth + 1) for _, value in parts]
    names = [msgspec.json.decode(name, type=str) for name, _ in parts]
    depths = [DEEPEST if name in OPAQUE else depth + 1 for name in names]
    return {name: _salvage(value, deep) for name, deep, (_, value) in zip(names, depths, parts, strict=True)}


def _parts(text: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The members of an object, or the items of an array with no name, without reading into them."""
    depth, start, name = 0, 0, b""
    for token in _TOKEN.finditer(text):
        sign = token.group()
        if sign in (b"[", b"{"):
            depth += 1
            if depth == 1:
                start = token.end()
        elif sign in (b"]", b"}"):
            depth -= 1
            if depth == 0 and text[start : token.start()].strip():
                yield name, text[start : token.start()]
        elif depth == 1 and sign == b":":
            name, start = text[start : token.start()], token.end()
        elif depth == 1 and sign == b",":
            yield name, text[start : token.start()]
            start = token.end()
    if depth != 0:
        raise ValueError("brackets do not match")


def _check(text: bytes, error: Exception) -> None:
    """What is no JSON is a broken answer, and not a value that is out of bounds."""
    malformed = isinstance(error, msgspec.DecodeError) and not isinstance(error, msgspec.ValidationError)
    if malformed or not text.strip():
        raise ValueError("not JSON")


def _reason(error: Exception) -> str:
    return "nested too deeply" if isinstance(error, RecursionError) else str(error).partition(" - at")[0]

"""Routing keys and the patterns they fit. `*` stands for one segment, `#` for any number of segments, also none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

from penstock import limits
from penstock.errors import Invalid

Value = TypeVar("Value")


def check_routing_key(key: str) -> None:
    if limits.ROUTING_KEY.fullmatch(key) is None:
        raise Invalid(
            "a routing key has 1 to 255 letters, digits, hyphens and underscores, in segments between dots",
            field="routing_key",
        )


def check_pattern(pattern: str) -> None:
    if limits.ROUTING_PATTERN.fullmatch(pattern) is None:
        raise Invalid("a pattern is a routing key in which a segment may be * or #", field="pattern")


class _Tail:
    """What follows the first `#` of a pattern, matched against the rest of a key in one pass.

    Bit n of `state` is set while the first n segments of the tail fit the segments read so far. A step costs the same
    whatever the tail contains, so the time is linear in the length of the key.
    """

    __slots__ = ("_any", "_final", "_loops", "_words")

    def __init__(self, segments: Sequence[str]) -> None:
        self._words: dict[str, int] = {}
        self._any = 0
        self._loops = 1
        """The places behind a `#`, which stay reached: it takes any number of segments."""
        place = 0
        for segment in segments:
            if segment == "#":
                self._loops |= 1 << place
                continue
            if segment == "*":
                self._any |= 1 << place
            else:
                self._words[segment] = self._words.get(segment, 0) | 1 << place
            place += 1
        self._final = 1 << place

    def fits(self, segments: Sequence[str]) -> bool:
        state = 1
        for segment in segments:
            state = state & self._loops | (state & (self._any | self._words.get(segment, 0))) << 1
            if not state:
                return False
        return bool(state & self._final)


class _Node(Generic[Value]):
    __slots__ = ("any", "tails", "values", "words")

    def __init__(self) -> None:
        self.words: dict[str, _Node[Value]] = {}
        self.any: _Node[Value] | None = None
        self.tails: dict[int, tuple[_Tail, Value]] = {}
        """The patterns that continue with a `#` here."""
        self.values: dict[int, Value] = {}
        """The patterns that end here."""

    @property
    def empty(self) -> bool:
        return not (self.values or self.tails or self.words or self.any)


class Patterns(Generic[Value]):
    """Values by pattern, in a tree of segments up to the first `#`: a key meets only patterns that begin like it."""

    def __init__(self) -> None:
        self._root: _Node[Value] = _Node()

    def add(self, pattern: str, number: int, value: Value) -> None:
        head, tail = _split(pattern)
        node = self._root
        for segment in head:
            if segment == "*":
                node.any = node = node.any or _Node()
            else:
                node = node.words.setdefault(segment, _Node())
        if tail is None:
            node.values[number] = value
        else:
            node.tails[number] = (_Tail(tail), value)

    def remove(self, pattern: str, number: int) -> None:
        path: list[tuple[_Node[Value], str]] = []
        node = self._root
        for segment in _split(pattern)[0]:
            path.append((node, segment))
            child = node.any if segment == "*" else node.words.get(segment)
            if child is None:
                return
            node = child
        node.values.pop(number, None)
        node.tails.pop(number, None)
        for parent, segment in reversed(path):
            if not node.empty:
                break
            if segment == "*":
                parent.any = None
            else:
                del parent.words[segment]
            node = parent

    def match(self, key: str) -> list[Value]:
        """The values of every pattern that the key fits, each once."""
        segments = key.split(".")
        here = [self._root]
        found: list[Value] = []
        for position in range(len(segments) + 1):
            rest = segments[position:]
            for node in here:
                found += [value for tail, value in node.tails.values() if tail.fits(rest)]
            if not rest:
                break
            children = (child for node in here for child in (node.words.get(rest[0]), node.any))
            here = [child for child in children if child is not None]
            if not here:
                return found
        return found + [value for node in here for value in node.values.values()]


def _split(pattern: str) -> tuple[list[str], list[str] | None]:
    """The segments before the first `#`, and those behind it; None when there is no `#`."""
    segments = pattern.split(".")
    if "#" not in segments:
        return segments, None
    first = segments.index("#")
    return segments[:first], segments[first + 1 :]

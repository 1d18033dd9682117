"""Routing keys: which patterns a key fits. `*` stands for one segment, `#` for any number of them, none included."""

from __future__ import annotations

from collections.abc import Iterator
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


class _Node(Generic[Value]):
    __slots__ = ("any", "loops", "rest", "values", "words")

    def __init__(self, loops: bool = False) -> None:
        self.words: dict[str, _Node[Value]] = {}
        self.any: _Node[Value] | None = None
        self.rest: _Node[Value] | None = None
        self.loops = loops
        """It stands behind a `#`, which may swallow one more segment."""
        self.values: dict[int, Value] = {}

    @property
    def empty(self) -> bool:
        return not self.values and not self.words and self.any is None and self.rest is None


class Patterns(Generic[Value]):
    """Values by pattern, in a tree of segments: a key meets only the patterns that begin like it."""

    def __init__(self) -> None:
        self._root: _Node[Value] = _Node()

    def add(self, pattern: str, number: int, value: Value) -> None:
        node = self._root
        for segment in pattern.split("."):
            if segment == "*":
                node.any = node = node.any or _Node()
            elif segment == "#":
                node.rest = node = node.rest or _Node(loops=True)
            else:
                node = node.words.setdefault(segment, _Node())
        node.values[number] = value

    def remove(self, pattern: str, number: int) -> None:
        path: list[tuple[_Node[Value], str]] = []
        node = self._root
        for segment in pattern.split("."):
            path.append((node, segment))
            child = node.any if segment == "*" else node.rest if segment == "#" else node.words.get(segment)
            if child is None:
                return
            node = child
        node.values.pop(number, None)
        for parent, segment in reversed(path):
            if not node.empty:
                break
            if segment == "*":
                parent.any = None
            elif segment == "#":
                parent.rest = None
            else:
                del parent.words[segment]
            node = parent

    def match(self, key: str) -> list[Value]:
        """The values of every pattern that the key fits, each once."""
        here: dict[_Node[Value], None] = dict.fromkeys(_with_empty(self._root))
        for segment in key.split("."):
            there: dict[_Node[Value], None] = {}
            for node in here:
                if node.loops:
                    there.update(dict.fromkeys(_with_empty(node)))
                for child in (node.words.get(segment), node.any):
                    if child is not None:
                        there.update(dict.fromkeys(_with_empty(child)))
            if not there:
                return []
            here = there
        return [value for node in here for value in node.values.values()]


def _with_empty(node: _Node[Value]) -> Iterator[_Node[Value]]:
    """The node, and those behind a `#` that swallows nothing."""
    yield node
    while node.rest is not None:
        node = node.rest
        yield node

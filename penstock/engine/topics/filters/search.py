"""Looking through a body for what a filter policy asks for.

Arrays are alternatives. Keys of one object below an array must be met by the same element of it: an order of
`[{"name": "pen", "stock": 0}, {"name": "ink", "stock": 9}]` does not have a pen in stock. A body is walked once, and
for each part of it is noted which requirements can be met together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from penstock.engine.topics.filters.conditions import Leaf, Requirement, Rule, Test, leaf_key


class KeyTests:
    """What the requirements about one path come to, so that a value is looked at once for all of them."""

    __slots__ = ("all", "exact", "present", "tests")

    def __init__(self) -> None:
        self.all = 0
        self.present = 0
        self.exact: dict[tuple[str, Leaf], int] = {}
        self.tests: list[tuple[Test, int]] = []

    def add(self, requirement: Requirement, bit: int) -> None:
        self.all |= bit
        self.present |= bit if requirement.present else 0
        for value in requirement.exact:
            self.exact[value] = self.exact.get(value, 0) | bit
        self.tests += [(test, bit) for test in requirement.tests]

    def met(self, value: Leaf) -> int:
        met = self.present | self.exact.get(leaf_key(value), 0)
        for test, bit in self.tests:
            if not met & bit and test(value):
                met |= bit
        return met


@dataclass(frozen=True, slots=True)
class Plan:
    """The rules made ready for a search. Every requirement has a bit of its own; a number is a set of requirements."""

    keys: Mapping[str, KeyTests]
    ways: frozenset[str]
    """Paths on which something asked for lies further down."""
    rules: tuple[int, ...]
    absent: int
    """The requirements that are content with nothing."""


def plan_of(rules: tuple[Rule, ...]) -> Plan:
    keys: dict[str, KeyTests] = {}
    numbers: list[int] = []
    absent, bit = 0, 1
    for rule in rules:
        first = bit
        for requirement in rule:
            keys.setdefault(requirement.path, KeyTests()).add(requirement, bit)
            absent |= bit if requirement.absent else 0
            bit <<= 1
        numbers.append(bit - first)
    ways = {".".join(parts[:end]) for parts in (path.split(".") for path in keys) for end in range(1, len(parts))}
    return Plan(keys, frozenset(ways), tuple(numbers), absent)


MOST_WORK = 300_000
"""Comparisons of sets in one search: some hundredths of a second."""


class TooMuchWork(Exception):
    """A body has more combinations of choices than a search may compare."""


Found = int | list[set[int]]
"""The requirements met in a part of a body; where there is a choice, those each rule can have met together."""


class Search:
    """One walk through one body, whatever the number of rules."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._seen = 0
        """Requirements whose path leads to a value, whatever that is."""
        self._work = MOST_WORK

    def finds(self, document: dict[str, Any]) -> bool:
        """Whether a rule is met. Raises `TooMuchWork` for a body that has more choices than can be compared."""
        found = self._in_object(document, "")
        unseen = self._plan.absent & ~self._seen
        if isinstance(found, int):
            return any(not rule & ~(found | unseen) for rule in self._plan.rules)
        choices = zip(self._plan.rules, found, strict=True)
        return any(not rule & ~(met | unseen) for rule, sets in choices for met in sets)

    def _in_object(self, node: dict[str, Any], path: str) -> Found:
        """What stands side by side can be met together."""
        plain, choices = 0, []
        for key, value in node.items():
            here = f"{path}{key}"
            if here in self._plan.keys or here in self._plan.ways:
                found = self._in_value(value, here)
                if isinstance(found, int):
                    plain |= found
                else:
                    choices.append(found)
        if not choices:
            return plain
        together = self._apart(plain)
        for found in choices:
            pairs = list(zip(together, found, strict=True))
            self._spend(sum(len(ours) * len(theirs) for ours, theirs in pairs))
            together = [self._largest({one | other for one in ours for other in theirs}) for ours, theirs in pairs]
        return together

    def _in_value(self, value: Any, path: str) -> Found:
        if isinstance(value, dict):
            return self._in_object(value, f"{path}.") if path in self._plan.ways else 0
        if isinstance(value, list):
            return self._in_array(value, path)
        key_tests = self._plan.keys.get(path)
        if key_tests is None:
            return 0
        self._seen |= key_tests.all
        return key_tests.met(value)

    def _in_array(self, array: list[Any], path: str) -> Found:
        """One element or another."""
        plain: set[int] = set()
        apart: list[set[int]] | None = None
        for element in _elements(array):
            self._spend(1 if apart is None else len(self._plan.rules))
            found = self._in_value(element, path)
            if isinstance(found, int):
                plain.add(found)
            elif apart is None:
                apart = [set(sets) for sets in found]
            else:
                for ours, theirs in zip(apart, found, strict=True):
                    ours |= theirs
        if apart is None and len(plain) < 2:
            return plain.pop() if plain else 0
        either = apart or [set() for _ in self._plan.rules]
        for rule, sets in zip(self._plan.rules, either, strict=True):
            sets.update({met & rule for met in plain})
        return [self._largest(sets) for sets in either]

    def _apart(self, met: int) -> list[set[int]]:
        return [{met & rule} for rule in self._plan.rules]

    def _largest(self, sets: set[int]) -> set[int]:
        """Without those that another includes. Few are left: a policy has few keys."""
        if len(sets) < 2:
            return sets
        self._spend(len(sets) ** 2)
        return {one for one in sets if not any(one != other and one & other == one for other in sets)}

    def _spend(self, work: int) -> None:
        self._work -= work
        if self._work < 0:
            raise TooMuchWork()


def _elements(array: list[Any]) -> Iterator[Any]:
    """Of an array of arrays, however deep, the values at the bottom."""
    waiting = [array]
    while waiting:
        for element in waiting.pop():
            if isinstance(element, list):
                waiting.append(element)
            else:
                yield element

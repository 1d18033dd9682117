"""What a filter policy may ask of one value: equal to this, beginning with that, within a range, in a network.

A condition is read once and asked often, so each is a function of the value. None of them takes longer than the
value is long: wildcards are looked for from left to right, never by trying again.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from typing import Any

from penstock.errors import Invalid

Leaf = str | int | float | bool | None
Test = Callable[[Leaf], bool]
"""Asked of a value that is there."""

_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    "=": operator.eq,
    ">": operator.gt,
    ">=": operator.ge,
}
_NOT_A_LEAF = "Match value must be String, number, true, false, or null"
_BUT = "Value of anything-but must be an array or single string/number value."
_BUT_LIST = "Inside anything but list, start|null|boolean is not supported."
_BUT_MIXED = "Inside anything but list, either all values are number or string, mixed type is not supported"


def bad_policy(reason: str) -> Invalid:
    return Invalid(f"FilterPolicy: {reason}", field="filter_policy")


def leaf_key(value: Leaf) -> tuple[str, Leaf]:
    """Equal for equal values only: in JSON true is not 1, while 3 is 3.0."""
    return ("bool" if isinstance(value, bool) else "number" if isinstance(value, int | float) else "", value)


@dataclass(frozen=True, slots=True)
class Requirement:
    """What one key asks for: any one of these."""

    path: str
    exact: frozenset[tuple[str, Leaf]]
    tests: tuple[Test, ...]
    present: bool
    """Any value will do."""
    absent: bool
    """None at all will do."""

    def accepts(self, value: Leaf) -> bool:
        return self.present or leaf_key(value) in self.exact or any(test(value) for test in self.tests)


Rule = tuple[Requirement, ...]
"""Two requirements may be about one path: what stands beside an `$or` and what stands within."""


def check_leaf(value: Any) -> Leaf:
    if value is not None and not isinstance(value, str | int | float):
        raise bad_policy(_NOT_A_LEAF)
    return value


def read_test(name: str, operand: Any) -> Test:
    """The test that `{name: operand}` stands for. `exists` is none: it is about values that are not there."""
    reader = _READERS.get(name)
    if reader is None:
        raise bad_policy(f"Unrecognized match type {name}")
    return reader(name, operand)


def _text(name: str, operand: Any) -> str:
    if not isinstance(operand, str):
        raise bad_policy(f"{name} match pattern must be a string")
    return operand


def _prefix(name: str, operand: Any) -> Test:
    text = _text(name, operand)
    return lambda value: isinstance(value, str) and value.startswith(text)


def _suffix(name: str, operand: Any) -> Test:
    text = _text(name, operand)
    return lambda value: isinstance(value, str) and value.endswith(text)


def _ignore_case(name: str, operand: Any) -> Test:
    text = _text(name, operand).lower()
    return lambda value: isinstance(value, str) and value.lower() == text


def _wildcard(name: str, operand: Any) -> Test:
    pieces = split_wildcard(_text(name, operand))
    return lambda value: isinstance(value, str) and matches_wildcard(pieces, value)


def split_wildcard(pattern: str) -> list[str]:
    """The texts between the stars; a backslash before a star or a backslash makes it an ordinary character."""
    pieces, position, starred = [""], 0, False
    while position < len(pattern):
        character = pattern[position]
        if character == "*":
            if starred:
                raise bad_policy(f"Consecutive wildcard characters at pos {position}")
            pieces.append("")
        elif character == "\\":
            position += 1
            if pattern[position : position + 1] not in ("*", "\\"):
                raise bad_policy(f"Invalid escape character at pos {position - 1}")
            pieces[-1] += pattern[position]
        else:
            pieces[-1] += character
        starred = character == "*"
        position += 1
    return pieces


def matches_wildcard(pieces: list[str], text: str) -> bool:
    """Whether the pieces occur in order, the first at the start, the last at the end."""
    first, last = pieces[0], pieces[-1]
    if len(pieces) == 1:
        return text == first
    if not (text.startswith(first) and text.endswith(last) and len(text) >= len(first) + len(last)):
        return False
    position, end = len(first), len(text) - len(last)
    for piece in pieces[1:-1]:
        # Taking the earliest occurrence leaves most room for the others: no other choice need be tried.
        found = text.find(piece, position, end)
        if found < 0:
            return False
        position = found + len(piece)
    return True


def _cidr(name: str, operand: Any) -> Test:
    if not isinstance(operand, str):
        # Amazon's own words for it.
        raise bad_policy("prefix match pattern must be a string")
    address, slash, bits = operand.partition("/")
    if not slash or "/" in bits:
        raise bad_policy("Malformed CIDR, one '/' required")
    if not (bits.isascii() and bits.isdecimal() and len(bits) <= 3):
        raise bad_policy("Malformed CIDR, mask bits must be an integer")
    try:
        network = ip_network(operand, strict=False)
    except ValueError:
        raise bad_policy(f"Nonstandard IP address: {address}") from None

    def within(value: Leaf) -> bool:
        if not isinstance(value, str) or len(value) > 64:
            return False
        try:
            return ip_address(value) in network
        except ValueError:
            return False

    return within


# Anything but


def _anything_but(name: str, operand: Any) -> Test:
    if isinstance(operand, dict):
        tests = _nested_but(operand)
        return lambda value: not any(test(value) for test in tests)
    values = operand if isinstance(operand, list) else [operand]
    for value in values:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise bad_policy(_BUT_LIST if isinstance(operand, list) else _BUT)
    if len({isinstance(value, str) for value in values}) != 1:
        raise bad_policy(_BUT_MIXED)
    excluded = frozenset(map(leaf_key, values))
    return lambda value: leaf_key(value) not in excluded


def _nested_but(operand: dict[str, Any]) -> list[Test]:
    if not operand:
        raise bad_policy("Anything-But expression name not found")
    if len(operand) > 1:
        raise bad_policy("Only one key allowed in match expression")
    ((name, inner),) = operand.items()
    if name != "prefix":
        raise bad_policy(f"Unsupported anything-but pattern: {name}")
    return [read_test(name, inner)]


# Numbers


def _numeric(name: str, operand: Any) -> Test:
    if not isinstance(operand, list):
        raise bad_policy("Value of numeric must be an array.")
    if not operand:
        raise bad_policy("Invalid member in numeric match: ]")
    first = operand[0]
    if not isinstance(first, str):
        raise bad_policy(f"Invalid member in numeric match: {_shown(first)}")
    if first not in _COMPARE:
        raise bad_policy(f"Unrecognized numeric range operator: {first}")
    bounds = [(first, _number(first, operand[1:2]))]
    if len(operand) > 2:
        bounds.append(_upper(first, bounds[0][1], operand[2:]))
    tests = [_bounded(sign, bound) for sign, bound in bounds]
    if len(tests) == 1:
        return tests[0]
    lower, upper = tests
    return lambda value: lower(value) and upper(value)


def _bounded(sign: str, bound: float) -> Test:
    compare = _COMPARE[sign]
    # Not isinstance: true and false are numbers to Python.
    return lambda value: type(value) in (int, float) and compare(value, bound)


def _upper(first: str, bottom: float, rest: list[Any]) -> tuple[str, float]:
    """The second half of a range."""
    if first not in (">", ">="):
        raise bad_policy("Too many elements in numeric expression")
    second = rest[0]
    if not isinstance(second, str):
        raise bad_policy(f"Bad value in numeric range: {_shown(second)}")
    if second not in ("<", "<="):
        raise bad_policy(f"Bad numeric range operator: {second}")
    top = _number(second, rest[1:2])
    if top <= bottom:
        raise bad_policy("Bottom must be less than top")
    if len(rest) > 2:
        raise bad_policy("Too many terms in numeric range expression")
    return second, top


def _number(sign: str, given: list[Any]) -> float:
    if not given or not _is_number(given[0]):
        raise bad_policy(f"Value of {'equals' if sign == '=' else sign} must be numeric")
    number: float = given[0]
    return number


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _shown(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    return str(value)


_READERS: dict[str, Callable[[str, Any], Test]] = {
    "prefix": _prefix,
    "suffix": _suffix,
    "equals-ignore-case": _ignore_case,
    "wildcard": _wildcard,
    "cidr": _cidr,
    "anything-but": _anything_but,
    "numeric": _numeric,
}
OPERATORS = frozenset({*_READERS, "exists"})

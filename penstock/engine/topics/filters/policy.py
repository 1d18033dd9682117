"""Filter policies: which of a topic's messages a subscription wants. Pure; read once, asked for every message.

A policy is a JSON object. Each key names an attribute, or a path into the body, and lists what its value may be; all
keys must agree. `$or` offers several objects of which one must. It is multiplied out when it is read: what remains is
a few rules, and a message matches when one of them does.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal, Protocol

import msgspec

from penstock.engine.topics.filters.conditions import (
    OPERATORS,
    Leaf,
    Requirement,
    Rule,
    bad_policy,
    check_leaf,
    leaf_key,
    read_test,
)
from penstock.engine.topics.filters.search import Plan, Search, TooMuchWork, plan_of
from penstock.errors import Invalid

log = logging.getLogger(__name__)

Scope = Literal["attributes", "body"]

MOST_BYTES = 262_144
MOST_KEYS = 5
MOST_COMBINATIONS = 150
MOST_VALUES = 1000
"""Values in all lists of a policy, those within `anything-but` included."""
MOST_REQUIREMENTS = 10
"""Of one rule. Keys within an `$or` are not among the five; without a bound here, arrays could be searched for ever."""
_NESTED = "Filter policy scope MessageAttributes does not support nested filter policy"
_COMPLEX = "Filter policy is too complex"


class Attribute(Protocol):
    """A message attribute as the stores keep it: the full type, and the value as text."""

    @property
    def type(self) -> str: ...

    @property
    def value(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Policy:
    scope: Scope
    rules: tuple[Rule, ...]
    """Of an empty policy, none; it wants everything."""
    _plan: Plan | None = field(default=None, repr=False)

    def matches(self, attributes: Mapping[str, Attribute], body: str) -> bool:
        if not self.rules:
            return True
        if self.scope == "attributes":
            return any(
                all(_meets(requirement, attributes.get(requirement.path)) for requirement in rule)
                for rule in self.rules
            )
        document = _body(body)
        if self._plan is None or not isinstance(document, dict):
            return False
        try:
            return Search(self._plan).finds(document)
        except TooMuchWork:
            log.warning("a message is too complex for a filter policy, and does not match it")
            return False


def parse(policy: str, scope: Scope) -> Policy:
    """Read a policy; raise `Invalid`, in Amazon's words, when it is none."""
    if len(policy.encode()) > MOST_BYTES:
        raise bad_policy("Filter policy is too long")
    try:
        document = msgspec.json.decode(policy or "{}")
    except (ValueError, RecursionError):
        raise bad_policy("failed to parse JSON.") from None
    if not isinstance(document, dict):
        raise bad_policy("Filter is not an object")
    try:
        rules = _read(document, scope)
    except RecursionError:
        raise bad_policy(_COMPLEX) from None
    return Policy(scope, rules, plan_of(rules) if scope == "body" else None)


# Reading


def _read(document: dict[str, Any], scope: Scope) -> tuple[Rule, ...]:
    if not document:
        return ()
    _check(document)
    if scope == "attributes" and _is_nested(document):
        raise Invalid(_NESTED, field="filter_policy")
    if len(document) > MOST_KEYS:
        raise bad_policy(f"Filter policy can not have more than {MOST_KEYS} keys")
    if _combinations(document) > MOST_COMBINATIONS or _values_in(document) > MOST_VALUES:
        raise bad_policy(_COMPLEX)
    rules = tuple(_multiply(document, "", [()]))
    if any(len(rule) > MOST_REQUIREMENTS for rule in rules):
        raise bad_policy(_COMPLEX)
    return rules


def _is_or(key: str, value: Any) -> bool:
    """`$or` is a key like any other unless it lists two or more objects, none of them a match expression."""
    return (
        key == "$or"
        and isinstance(value, list)
        and len(value) > 1
        and all(isinstance(choice, dict) and choice and not choice.keys() & OPERATORS for choice in value)
    )


def _check(document: dict[str, Any]) -> None:
    """Whether every part has the right form. Nothing is multiplied out before this and the limits are known."""
    for key, value in document.items():
        if _is_or(key, value):
            for choice in value:
                _check(choice)
        elif isinstance(value, dict):
            if not value:
                raise bad_policy("Empty objects are not allowed")
            _check(value)
        elif isinstance(value, list):
            _requirement(key, value)
        else:
            raise bad_policy(f'"{key}" must be an object or an array')


def _is_nested(document: dict[str, Any]) -> bool:
    for key, value in document.items():
        if isinstance(value, dict) or (_is_or(key, value) and any(map(_is_nested, value))):
            return True
    return False


def _combinations(document: dict[str, Any], depth: int = 1, so_far: int = 1) -> int:
    """Values multiplied by values, and each by how deep it lies; the choices of an `$or` are added up."""
    for key, value in document.items():
        if so_far > MOST_COMBINATIONS:
            return so_far
        if _is_or(key, value):
            so_far = sum(_combinations(choice, depth, so_far) for choice in value)
        elif isinstance(value, dict):
            so_far = _combinations(value, depth + 1, so_far)
        else:
            so_far *= len(value) * depth
    return so_far


def _values_in(value: Any) -> int:
    """How many values there are to compare with, at any depth."""
    parts: Iterable[Any] = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return sum(map(_values_in, parts)) + (len(value) if isinstance(value, list) else 0)


def _multiply(document: dict[str, Any], path: str, rules: list[Rule]) -> list[Rule]:
    """The rules so far, each with what this part of the policy asks for besides."""
    for key, value in document.items():
        if _is_or(key, value):
            rules = [more for choice in value for more in _multiply(choice, path, rules)]
            continue
        here = f"{path}{key}"
        if isinstance(value, dict):
            rules = _multiply(value, f"{here}.", rules)
        else:
            requirement = _requirement(here, value)
            rules = [(*rule, requirement) for rule in rules]
    return rules


def _requirement(path: str, values: list[Any]) -> Requirement:
    if not values:
        raise bad_policy("Empty arrays are not allowed")
    exact, tests, exists = set(), [], set()
    for value in values:
        if not isinstance(value, dict):
            exact.add(leaf_key(check_leaf(value)))
            continue
        if len(value) != 1:
            raise bad_policy("Only one key allowed in match expression")
        ((operator, operand),) = value.items()
        if operator != "exists":
            tests.append(read_test(operator, operand))
        elif isinstance(operand, bool):
            exists.add(operand)
        else:
            raise bad_policy("exists match pattern must be either true or false.")
    return Requirement(path, frozenset(exact), tuple(tests), True in exists, False in exists)


# Attributes


def _meets(requirement: Requirement, attribute: Attribute | None) -> bool:
    values = list(_values(attribute)) if attribute is not None else []
    return any(map(requirement.accepts, values)) if values else requirement.absent


def _values(attribute: Attribute) -> Iterator[Leaf]:
    """Binary attributes are not looked at, as if they were not there."""
    if attribute.type == "String.Array":
        found = _document(attribute.value)
        yield from (each for each in found if not isinstance(each, dict | list)) if isinstance(found, list) else ()
    elif attribute.type.startswith("Number"):
        try:
            yield float(attribute.value)
        except ValueError:
            yield attribute.value
    elif attribute.type.startswith("String"):
        yield attribute.value


# Documents


@lru_cache(1)
def _body(text: str) -> Any:
    """The document in a body. All subscriptions are asked about one message in a row: it is parsed for the first."""
    return _document(text)


def _document(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (ValueError, RecursionError):
        return None

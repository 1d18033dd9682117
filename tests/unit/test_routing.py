"""Routing keys and patterns, against an obvious matcher."""

from __future__ import annotations

from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as some

from penstock.engine.topics.routing_keys import Patterns, check_pattern, check_routing_key
from penstock.errors import Invalid

words = some.sampled_from(["a", "b", "c"])
keys = some.lists(words, min_size=1, max_size=6).map(".".join)
patterns = some.lists(some.sampled_from(["a", "b", "*", "#"]), min_size=1, max_size=6).map(".".join)


def fits(pattern: list[str], key: list[str]) -> bool:
    if not pattern:
        return not key
    if pattern[0] == "#":
        return fits(pattern[1:], key) or (bool(key) and fits(pattern, key[1:]))
    return bool(key) and pattern[0] in ("*", key[0]) and fits(pattern[1:], key[1:])


def made_of(listed: list[str]) -> Patterns[str]:
    tree: Patterns[str] = Patterns()
    for number, pattern in enumerate(listed):
        tree.add(pattern, number, f"{number} {pattern}")
    return tree


@given(some.lists(patterns, max_size=12), keys)
def test_a_key_meets_the_patterns_it_fits_each_once(listed: list[str], key: str) -> None:
    expected = [f"{n} {p}" for n, p in enumerate(listed) if fits(p.split("."), key.split("."))]

    assert sorted(made_of(listed).match(key)) == sorted(expected)


@given(some.lists(patterns, min_size=1, max_size=12), keys, some.data())
def test_a_removed_pattern_leaves_the_others(listed: list[str], key: str, data: some.DataObject) -> None:
    tree = made_of(listed)
    gone = data.draw(some.integers(0, len(listed) - 1))
    tree.remove(listed[gone], gone)

    expected = [f"{n} {p}" for n, p in enumerate(listed) if n != gone and fits(p.split("."), key.split("."))]
    assert sorted(tree.match(key)) == sorted(expected)


@pytest.mark.parametrize(
    ("pattern", "key", "met"),
    [
        ("a.#", "a", True),
        ("a.#", "a.b.c", True),
        ("#", "a.b", True),
        ("a.*", "a", False),
        ("a.*", "a.b", True),
        ("a.*", "a.b.c", False),
        ("#.c", "c", True),
        ("#.c", "a.b.c", True),
        ("a.#.c", "a.c", True),
        ("a.b", "a.b.c", False),
    ],
)
def test_wildcards(pattern: str, key: str, met: bool) -> None:
    assert bool(made_of([pattern]).match(key)) is met


def test_many_hashes_cost_no_more_than_their_number() -> None:
    tree = made_of([".".join(["#", "a"] * 60)])

    assert tree.match(".".join(["a"] * 120)) != []


@pytest.mark.parametrize("key", ["", ".", "a.", ".a", "a..b", "a.*", "a b", "ä", "a" * 256, "a\n"])
def test_what_is_no_routing_key(key: str) -> None:
    with pytest.raises(Invalid):
        check_routing_key(key)


@pytest.mark.parametrize("pattern", ["", "a.", "a**", "a.#b", "a..#", "#" * 256, "*\n"])
def test_what_is_no_pattern(pattern: str) -> None:
    with pytest.raises(Invalid):
        check_pattern(pattern)


def test_patterns_of_mixed_wildcards_are_matched_in_one_pass_over_the_key() -> None:
    patterns: Patterns[int] = Patterns()
    for number in range(300):
        segments = [("#", "*", "a")[(number + place * place) % 3] for place in range(127)]
        patterns.add(".".join(segments), number, number)
    key = ".".join(["a"] * 128)

    began = process_time()
    found = patterns.match(key)

    assert len(found) == 200
    assert process_time() - began < 2

"""Filter policies: what they accept, what they refuse to be, and a slow reader of the same rules that must agree."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.topics.filters import search
from penstock.engine.topics.filters.conditions import matches_wildcard, split_wildcard
from penstock.engine.topics.filters.policy import MOST_COMBINATIONS, Scope, parse
from penstock.errors import Invalid


@dataclass
class Attribute:
    type: str
    value: str


def attributes(**given: Any) -> dict[str, Attribute]:
    """Texts, numbers, lists of anything; Attributes as they are."""
    found = {}
    for name, value in given.items():
        if isinstance(value, Attribute):
            found[name] = value
        elif isinstance(value, list):
            found[name] = Attribute("String.Array", json.dumps(value))
        elif isinstance(value, str):
            found[name] = Attribute("String", value)
        else:
            found[name] = Attribute("Number", str(value))
    return found


def by_attributes(policy: Any, **given: Any) -> bool:
    return parse(json.dumps(policy), "attributes").matches(attributes(**given), "")


def by_body(policy: Any, body: Any) -> bool:
    return parse(json.dumps(policy), "body").matches({}, body if isinstance(body, str) else json.dumps(body))


# What matches


@pytest.mark.parametrize(
    ("condition", "value", "matches"),
    [
        ("blue", "blue", True),
        ("blue", "Blue", False),
        ("blue", ["red", "blue"], True),
        ("blue", [], False),
        (5, 5, True),
        (5, 5.0, True),
        (5, "5", False),
        ("5", 5, False),
        (True, ["x", True], True),
        (True, [1], False),
        (1, [True], False),
        (None, [None], True),
        (None, "null", False),
        ({"prefix": "bl"}, "blue", True),
        ({"prefix": "lu"}, "blue", False),
        ({"prefix": ""}, "", True),
        ({"prefix": "5"}, 5, False),
        ({"suffix": "ue"}, "blue", True),
        ({"suffix": "bl"}, "blue", False),
        ({"equals-ignore-case": "BLUE"}, "bLuE", True),
        ({"equals-ignore-case": "BLUE"}, "blues", False),
        ({"wildcard": "b*e"}, "blue", True),
        ({"wildcard": "b*e"}, "be", True),
        ({"wildcard": "b*e"}, "b", False),
        ({"wildcard": "*"}, "anything", True),
        ({"wildcard": "a*b*a"}, "aba", True),
        ({"wildcard": "a*a"}, "a", False),
        ({"wildcard": r"a\*b"}, "a*b", True),
        ({"wildcard": r"a\*b"}, "axb", False),
        ({"wildcard": r"a\\*"}, "a\\x", True),
        ({"anything-but": "red"}, "blue", True),
        ({"anything-but": "red"}, "red", False),
        ({"anything-but": ["red", "blue"]}, "blue", False),
        ({"anything-but": ["red", "blue"]}, ["blue", "green"], True),
        ({"anything-but": [1, 2]}, 2, False),
        ({"anything-but": [1, 2]}, 3, True),
        ({"anything-but": [1, 2]}, "2", True),
        ({"anything-but": {"prefix": "r"}}, "red", False),
        ({"anything-but": {"prefix": "r"}}, "blue", True),
        ({"numeric": ["=", 5]}, 5, True),
        ({"numeric": ["=", 5]}, 5.1, False),
        ({"numeric": ["<", 5]}, 5, False),
        ({"numeric": ["<=", 5]}, 5, True),
        ({"numeric": [">", 5]}, 5, False),
        ({"numeric": [">=", 5]}, 5, True),
        ({"numeric": [">", 0, "<=", 100]}, 99.12, True),
        ({"numeric": [">", 0, "<=", 100]}, 111, False),
        ({"numeric": [">", 0, "<=", 100]}, "50", False),
        ({"numeric": ["=", 300]}, Attribute("Number", "3.0e2"), True),
        ({"numeric": ["=", 1]}, [True], False),
        ({"exists": True}, "x", True),
        ({"exists": False}, "x", False),
        ({"exists": True}, Attribute("Binary", "AgME"), False),
        ({"cidr": "10.0.0.0/24"}, "10.0.0.255", True),
        ({"cidr": "10.0.0.0/24"}, "10.0.1.0", False),
        ({"cidr": "10.0.0.0/24"}, "no address", False),
        ({"cidr": "2001:db8::/32"}, "2001:db8::1", True),
        ("x", Attribute("String.Array", "not json"), False),
        ("x", Attribute("String.colour", "x"), True),
    ],
)
def test_a_condition_looks_at_the_value_of_an_attribute(condition: Any, value: Any, matches: bool) -> None:
    assert by_attributes({"key": [condition]}, key=value) is matches


@pytest.mark.parametrize(
    "condition",
    ["x", None, {"anything-but": "x"}, {"exists": True}, {"prefix": ""}, {"anything-but": {"prefix": "x"}}],
    ids=json.dumps,
)
def test_what_is_not_there_meets_only_the_wish_that_it_be_not_there(condition: Any) -> None:
    assert not by_attributes({"key": [condition]}, other="x")
    assert not by_body({"key": [condition]}, {"other": "x"})
    assert by_attributes({"key": [condition, {"exists": False}]}, other="x")
    assert by_body({"key": [condition, {"exists": False}]}, {"other": "x"})


def test_every_key_must_agree_and_any_of_its_values_will_do() -> None:
    policy = {"shop": ["a", "b"], "price": [{"numeric": [">=", 100]}]}

    assert by_attributes(policy, shop="b", price=100)
    assert not by_attributes(policy, shop="b", price=99)
    assert not by_attributes(policy, shop="c", price=100)
    assert not by_attributes(policy, price=100)


def test_or_offers_alternatives_beside_what_must_hold_anyway() -> None:
    policy = {"shop": ["a"], "$or": [{"metric": ["cpu"]}, {"space": ["disk"], "size": [{"numeric": [">", 3]}]}]}

    assert by_attributes(policy, shop="a", metric="cpu")
    assert by_attributes(policy, shop="a", space="disk", size=4)
    assert not by_attributes(policy, shop="a", space="disk", size=3)
    assert not by_attributes(policy, shop="b", metric="cpu")


def test_or_with_match_expressions_is_a_key_like_any_other() -> None:
    assert by_attributes({"$or": [{"prefix": "a"}, {"suffix": "b"}]}, **{"$or": "xb"})


@pytest.mark.parametrize("policy", ["", "{}"])
def test_an_empty_policy_wants_everything(policy: str) -> None:
    assert parse(policy, "attributes").matches({}, "")
    assert parse(policy, "body").matches({}, "not json")


@pytest.mark.parametrize("body", ["", "text", "[]", '["key"]', '"key"', "1", "{", "[" * 5000])
def test_a_body_that_is_no_json_object_matches_no_policy(body: str) -> None:
    assert not by_body({"key": [{"exists": False}]}, body)


@pytest.mark.parametrize(
    "body",
    [
        {"object": {"nested": {"test": "v"}}},
        {"object.nested.test": "v"},
        {"object.nested": {"test": "v"}},
        {"object": {"nested.test": "v"}},
        {"object": [[{"nested": [{"test": ["u", "v"]}]}]]},
    ],
    ids=json.dumps,
)
def test_a_path_is_the_same_however_it_is_written(body: Any) -> None:
    assert by_body({"object": {"nested": {"test": ["v"]}}}, body)
    assert by_body({"object.nested.test": ["v"]}, body)
    assert by_body({"object": {"nested.test": ["v"]}}, body)
    assert not by_body({"object": {"nested": {"test": ["w"]}}}, body)


def test_keys_below_an_array_must_be_met_by_one_element() -> None:
    policy = {"orders": {"name": ["pen"], "stock": [{"numeric": [">", 0]}]}}

    assert not by_body(policy, {"orders": [{"name": "pen", "stock": 0}, {"name": "ink", "stock": 9}]})
    assert by_body(policy, {"orders": [{"name": "ink", "stock": 0}, {"name": "pen", "stock": 9}]})


def test_arrays_side_by_side_are_chosen_from_independently() -> None:
    policy = {"a": {"x": [1]}, "b": {"y": [2]}}

    assert by_body(policy, {"a": [{"x": 0}, {"x": 1}], "b": [{"y": 2}, {"y": 0}]})


def test_an_object_is_no_value() -> None:
    assert not by_body({"key": [{"exists": True}]}, {"key": {"inner": 1}})
    assert by_body({"key": [{"exists": False}]}, {"key": {"inner": 1}})
    assert by_body({"key": [{"exists": False}]}, {"key": []})


# What is no policy


REFUSALS: list[tuple[Any, str]] = [
    ({"key": [["value"]]}, "Match value must be String, number, true, false, or null"),
    ({"key": [{"wrong-operator": True}]}, "Unrecognized match type wrong-operator"),
    ({"key": [{"suffix": "a", "prefix": "b"}]}, "Only one key allowed in match expression"),
    ({"key": [{}]}, "Only one key allowed in match expression"),
    ({"key": [{"suffix": 100}]}, "suffix match pattern must be a string"),
    ({"key": [{"suffix": None}]}, "suffix match pattern must be a string"),
    ({"key": [{"prefix": []}]}, "prefix match pattern must be a string"),
    ({"key": [{"equals-ignore-case": 1}]}, "equals-ignore-case match pattern must be a string"),
    ({"key": [{"wildcard": 1}]}, "wildcard match pattern must be a string"),
    ({"key": [{"wildcard": "a**b"}]}, "Consecutive wildcard characters at pos 2"),
    ({"key": [{"wildcard": "a\\b"}]}, "Invalid escape character at pos 1"),
    ({"key": {"suffix": "value"}}, '"suffix" must be an object or an array'),
    ({"key": "value"}, '"key" must be an object or an array'),
    ({"key": None}, '"key" must be an object or an array'),
    ({"key": []}, "Empty arrays are not allowed"),
    ({"key": {}}, "Empty objects are not allowed"),
    ({"key": [{"exists": None}]}, "exists match pattern must be either true or false."),
    ({"key": [{"exists": "no"}]}, "exists match pattern must be either true or false."),
    ({"key": [{"numeric": []}]}, "Invalid member in numeric match: ]"),
    ({"key": [{"numeric": "="}]}, "Value of numeric must be an array."),
    ({"key": [{"numeric": ["operator"]}]}, "Unrecognized numeric range operator: operator"),
    ({"key": [{"numeric": [1, "<="]}]}, "Invalid member in numeric match: 1"),
    ({"key": [{"numeric": ["=", "000"]}]}, "Value of equals must be numeric"),
    ({"key": [{"numeric": ["=", True]}]}, "Value of equals must be numeric"),
    ({"key": [{"numeric": [">="]}]}, "Value of >= must be numeric"),
    ({"key": [{"numeric": ["<", 100, ">", 10]}]}, "Too many elements in numeric expression"),
    ({"key": [{"numeric": [">=", 1, ">", 2]}]}, "Bad numeric range operator: >"),
    ({"key": [{"numeric": [">", 3, "<", 1]}]}, "Bottom must be less than top"),
    ({"key": [{"numeric": [">", 20, "<="]}]}, "Value of <= must be numeric"),
    ({"key": [{"numeric": [">", 20, 30]}]}, "Bad value in numeric range: 30"),
    ({"key": [{"numeric": [">", 20, "test"]}]}, "Bad numeric range operator: test"),
    ({"key": [{"numeric": [">", "20", "<", "30"]}]}, "Value of > must be numeric"),
    ({"key": [{"numeric": [">", 20, "<", "30"]}]}, "Value of < must be numeric"),
    ({"key": [{"numeric": [">", 20, "<", 30, "<", 50]}]}, "Too many terms in numeric range expression"),
    ({"key": [{"anything-but": {"wrong-operator": None}}]}, "Unsupported anything-but pattern: wrong-operator"),
    ({"key": [{"anything-but": {"exists": False}}]}, "Unsupported anything-but pattern: exists"),
    (
        {"key": [{"anything-but": {"prefix": False}}]},
        "prefix match pattern must be a string",
    ),
    ({"key": [{"anything-but": {"prefix": 1}}]}, "prefix match pattern must be a string"),
    ({"key": [{"anything-but": {"suffix": "x"}}]}, "Unsupported anything-but pattern: suffix"),
    ({"key": [{"anything-but": {}}]}, "Anything-But expression name not found"),
    ({"key": [{"anything-but": None}]}, "Value of anything-but must be an array or single string/number value."),
    ({"key": [{"anything-but": [True]}]}, "Inside anything but list, start|null|boolean is not supported."),
    (
        {"key": [{"anything-but": ["a", 1]}]},
        "Inside anything but list, either all values are number or string, mixed type is not supported",
    ),
    ({"key": [{"cidr": 1}]}, "prefix match pattern must be a string"),
    ({"key": [{"cidr": "10.0.0.1"}]}, "Malformed CIDR, one '/' required"),
    ({"key": [{"cidr": "10.0.0.0/x"}]}, "Malformed CIDR, mask bits must be an integer"),
    ({"key": [{"cidr": "10.0.0/24"}]}, "Nonstandard IP address: 10.0.0"),
    ({"key": [f"v{number}" for number in range(151)]}, "Filter policy is too complex"),
    ({"a": [*range(100)], "b": [*range(51)]}, "Filter policy is too complex"),
    ({f"key{number}": ["v"] for number in range(6)}, "Filter policy can not have more than 5 keys"),
    ({"$or": [{"a": []}, {"b": ["x"]}]}, "Empty arrays are not allowed"),
]  # fmt: skip


@pytest.mark.parametrize(("policy", "reason"), REFUSALS, ids=[str(number) for number in range(len(REFUSALS))])
@pytest.mark.parametrize("scope", ["attributes", "body"])
def test_what_is_no_policy_is_refused_in_the_words_of_amazon(policy: Any, reason: str, scope: Scope) -> None:
    with pytest.raises(Invalid) as found:
        parse(json.dumps(policy), scope)

    assert found.value.message == f"FilterPolicy: {reason}"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{invalidjson}", "failed to parse JSON."),
        ("[]", "Filter is not an object"),
        ('"x"', "Filter is not an object"),
        ('{"a":' * 20_000, "failed to parse JSON."),
        (json.dumps({"key": ["x" * 262_144]}), "Filter policy is too long"),
    ],
    ids=["no json", "array", "text", "deep", "long"],
)
def test_a_text_that_is_no_policy_is_refused(text: str, reason: str) -> None:
    with pytest.raises(Invalid, match=reason.replace(".", r"\.")):
        parse(text, "body")


def test_attributes_are_not_nested() -> None:
    with pytest.raises(Invalid) as found:
        parse('{"object": {"key": ["x"]}}', "attributes")

    assert found.value.message == "Filter policy scope MessageAttributes does not support nested filter policy"
    parse('{"object": {"key": ["x"]}}', "body")


def test_combinations_count_depth_and_add_up_over_alternatives() -> None:
    values = [str(number) for number in range(4)]
    within = {"source": values, "$or": [{"name": [*values, "4", "5"]}, {"kind": values, "id": values}]}
    beyond = {
        "source": values,
        "$or": [
            {"name": [*values, "4", "5"]},
            {"kind": values, "$or": [{"id": values}, {"space": values}]},
        ],
    }

    parse(json.dumps(within), "attributes")
    parse(json.dumps({"a": {"b": {"c": [*range(50)]}}}), "body")
    for policy in (beyond, {"a": {"b": {"c": [*range(51)]}}}):
        with pytest.raises(Invalid, match="too complex"):
            parse(json.dumps(policy), "body")


# A slow reader of the same rules


def accepts(condition: Any, value: Any) -> bool:
    """One match expression, read from the policy itself each time."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not isinstance(condition, dict):
        return (type(condition) is type(value) and condition == value) or (
            number and isinstance(condition, int | float) and not isinstance(condition, bool) and condition == value
        )
    ((operator, operand),) = condition.items()
    if operator == "exists":
        return bool(operand)
    if operator == "numeric":
        pairs = [operand[at : at + 2] for at in range(0, len(operand), 2)]
        compare = {"=": "__eq__", "<": "__lt__", "<=": "__le__", ">": "__gt__", ">=": "__ge__"}
        return number and all(getattr(float(value), compare[sign])(float(bound)) for sign, bound in pairs)
    if operator == "anything-but":
        if isinstance(operand, dict):
            ((inner, texts),) = operand.items()
            texts = texts if isinstance(texts, list) else [texts]
            return not any(accepts({inner: text}, value) for text in texts)
        return not any(accepts(each, value) for each in (operand if isinstance(operand, list) else [operand]))
    if not isinstance(value, str):
        return False
    if operator == "cidr":
        try:
            return ip_address(value) in ip_network(operand, strict=False)
        except ValueError:
            return False
    if operator == "wildcard":
        return fits(operand, value)
    found: bool = {
        "prefix": value.startswith(operand),
        "suffix": value.endswith(operand),
        "equals-ignore-case": value.lower() == operand.lower(),
    }[operator]
    return found


def fits(pattern: str, text: str) -> bool:
    """Every way a star can be read, remembered in a table. The patterns here have no escapes."""
    reached = {0}
    for character in pattern:
        if character == "*":
            reached = {later for start in reached for later in range(start, len(text) + 1)}
        else:
            reached = {at + 1 for at in reached if text[at : at + 1] == character}
    return len(text) in reached


def holds(policy: Mapping[str, Any], world: Mapping[str, list[Any]], seen: set[str], path: str = "") -> bool:
    for key, value in policy.items():
        if key == "$or":
            if not any(holds(choice, world, seen, path) for choice in value):
                return False
        elif isinstance(value, dict):
            if not holds(value, world, seen, f"{path}{key}."):
                return False
        else:
            here = f"{path}{key}"
            there = any(accepts(condition, leaf) for condition in value for leaf in world.get(here, []))
            missing = here not in seen and {"exists": False} in value
            if not there and not missing:
                return False
    return True


def worlds(node: Any, path: str = "") -> Iterator[dict[str, list[Any]]]:
    """Every way to pick one element of each array."""
    if isinstance(node, dict):
        parts = [list(worlds(value, f"{path}.{key}" if path else key)) for key, value in node.items()]
        for chosen in itertools.product(*parts):
            merged: dict[str, list[Any]] = {}
            for world in chosen:
                for name, leaves in world.items():
                    merged.setdefault(name, []).extend(leaves)
            yield merged
    elif isinstance(node, list):
        if not node:
            yield {}
        for element in node:
            yield from worlds(element, path)
    else:
        yield {path: [node]}


def leaves_of(node: Any, path: str = "") -> set[str]:
    return {name for world in worlds(node, path) for name in world}


KEYS = st.sampled_from(["a", "b", "c"])
TEXTS = st.text(alphabet="ab", max_size=3)
LEAVES = st.one_of(TEXTS, st.integers(-2, 2), st.sampled_from([0.5, 1.0]), st.booleans(), st.none())


def ranges() -> st.SearchStrategy[list[Any]]:
    numbers = st.integers(-2, 2)
    single = st.tuples(st.sampled_from(["=", "<", "<=", ">", ">="]), numbers).map(list)
    double = st.tuples(st.sampled_from([">", ">="]), numbers, st.sampled_from(["<", "<="]), st.integers(1, 3)).map(
        lambda found: [found[0], found[1], found[2], found[1] + found[3]]
    )
    return st.one_of(single, double)


CONDITIONS = st.one_of(
    LEAVES,
    st.fixed_dictionaries({"prefix": TEXTS}),
    st.fixed_dictionaries({"suffix": TEXTS}),
    st.fixed_dictionaries({"equals-ignore-case": st.text(alphabet="aAb", max_size=3)}),
    st.fixed_dictionaries({"wildcard": st.sampled_from(["*", "a*", "*b", "a*b", "*a*", "a*b*a"])}),
    st.fixed_dictionaries({"exists": st.booleans()}),
    st.fixed_dictionaries({"numeric": ranges()}),
    st.fixed_dictionaries(
        {"anything-but": st.one_of(TEXTS, st.lists(TEXTS, min_size=1, max_size=2), st.integers(0, 1))}
    ),
    st.fixed_dictionaries({"anything-but": st.fixed_dictionaries({"prefix": st.sampled_from(["a", "b"])})}),
)
WISHES = st.lists(CONDITIONS, min_size=1, max_size=3)
FLAT = st.dictionaries(KEYS, WISHES, min_size=1, max_size=3)


def with_or(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    alternatives = st.lists(inner, min_size=2, max_size=3)
    return st.one_of(inner, st.tuples(inner, alternatives).map(lambda found: {**found[0], "$or": found[1]}))


NESTED = st.recursive(
    FLAT, lambda inner: st.dictionaries(KEYS, st.one_of(WISHES, inner), min_size=1, max_size=2), max_leaves=4
)
BODIES = st.dictionaries(
    KEYS,
    st.recursive(
        LEAVES,
        lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=3)),
        max_leaves=6,
    ),
    max_size=3,
)


def readable(policy: Any, scope: Scope) -> Any:
    """None for the few that exceed what a policy may ask."""
    try:
        return parse(json.dumps(policy), scope)
    except Invalid as error:
        if "too complex" not in error.message:
            raise
        return None


@given(
    with_or(FLAT), st.dictionaries(KEYS, st.one_of(TEXTS, st.integers(-2, 2), st.lists(LEAVES, max_size=3)), max_size=3)
)
def test_policies_on_attributes_agree_with_the_slow_reader(policy: Any, have: dict[str, Any]) -> None:
    read = readable(policy, "attributes")
    world = {name: value if isinstance(value, list) else [value] for name, value in have.items()}
    seen = {name for name, values in world.items() if values}

    if read is not None:
        assert read.matches(attributes(**have), "") is holds(policy, world, seen)


@given(with_or(NESTED), BODIES)
def test_policies_on_bodies_agree_with_the_slow_reader(policy: Any, body: dict[str, Any]) -> None:
    read = readable(policy, "body")

    if read is not None:
        seen = leaves_of(body)
        assert read.matches({}, json.dumps(body)) is any(holds(policy, world, seen) for world in worlds(body))


@given(st.text(alphabet="ab*", max_size=8).filter(lambda text: "**" not in text), st.text(alphabet="ab", max_size=12))
def test_wildcards_agree_with_a_table_of_all_readings(pattern: str, text: str) -> None:
    assert matches_wildcard(split_wildcard(pattern), text) is fits(pattern, text)


# What it costs


def test_many_alternatives_over_a_large_body_are_one_walk() -> None:
    names = [f"key{number}" for number in range(10)]
    pairs = [{"a.x": [number], "a.y": [{"numeric": ["=", number + 1]}]} for number in range(150)]
    read = parse(json.dumps({"$or": pairs}), "body")
    body = json.dumps({"a": [{"x": number % 150, "y": number % 149} for number in range(12_000)]})
    with pytest.raises(Invalid, match="too complex"):
        parse(json.dumps({"$or": [{name: [1] for name in [*names, "more"]}, {"x": [1]}]}), "body")

    began = time.process_time()
    read.matches({}, body)
    parse(json.dumps({"$or": [{name: [1] for name in names}, {"x": [1]}]}), "body")
    assert time.process_time() - began < 3


def test_no_pattern_and_no_body_makes_a_match_slow() -> None:
    stars = "*".join(["a"] * 40)
    policy = {"a": {"b": [{"wildcard": stars}], "c": [1], "d": [2], "e": [{"exists": False}]}}
    assert MOST_COMBINATIONS >= 16
    read = parse(json.dumps(policy), "body")
    wide = json.dumps({"a": [{"b": "a" * 50 + "c", "c": number, "d": 2} for number in range(3000)]})
    nested = json.dumps({"a": {"b": ["a" * 200_000 + "c"], "c": 1, "d": 2}})

    began = time.process_time()
    assert not read.matches({}, wide)
    assert not read.matches({}, nested)
    assert not read.matches({}, '{"a":' + "[" * 900 + "]" * 900 + "}")
    assert time.process_time() - began < 2


# Bounds


def test_values_within_anything_but_count() -> None:
    many = [f"v{number}" for number in range(1001)]

    with pytest.raises(Invalid, match="Filter policy is too complex"):
        parse(json.dumps({"key": [{"anything-but": many}]}), "attributes")


def test_a_body_made_to_be_slow_takes_bounded_time() -> None:
    keys = [f"k{number}" for number in range(7)]
    policy = parse(json.dumps({"a": {key: ["1"] for key in keys}}), "body")
    subsets = [{key: "1" for place, key in enumerate(keys) if number >> place & 1} for number in range(127)]
    arrays = [[subset] for subset in subsets] * 200
    body = json.dumps({"a": [arrays, *subsets * 500]})

    began = time.process_time()

    assert not policy.matches({}, body)
    assert time.process_time() - began < 5


def test_a_search_with_too_many_choices_matches_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = parse(json.dumps({"a": {"x": ["1"], "y": ["1"]}}), "body")
    body = json.dumps({"a": [{"x": "1", "y": "0"}, {"x": "0", "y": "1"}, {"x": "1", "y": "1"}]})
    assert policy.matches({}, body)

    monkeypatch.setattr(search, "MOST_WORK", 2)

    assert not policy.matches({}, body)

"""The error tree: one code each, none shared."""

from __future__ import annotations

import re

from penstock import errors
from penstock.errors import BY_CODE, PenstockError


def subclasses(root: type[PenstockError]) -> set[type[PenstockError]]:
    return {root}.union(*(subclasses(child) for child in root.__subclasses__()))


def test_every_error_has_a_code_of_its_own() -> None:
    assert set(BY_CODE.values()) == subclasses(PenstockError)


def test_codes_are_sqlstates() -> None:
    assert all(re.fullmatch(r"PS\d{2}[0-9A-Z]", code) for code in BY_CODE)


def test_the_tree_in_the_docstring_is_the_tree() -> None:
    assert errors.__doc__ is not None
    named = set(re.findall(r"^[ │├└─]*([A-Z]\w+)", errors.__doc__.split("\n\n")[1], re.MULTILINE))

    assert named == {kind.__name__ for kind in BY_CODE.values()}

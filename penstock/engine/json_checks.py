"""Checks of JSON texts that a client will parse: jobs, their results, and events of streams.

The doors have parsed the JSON already, or PostgreSQL will. What is refused here is valid JSON that Python's parser
cannot read: one such text would fail in every consumer that meets it.

A text is looked at in pieces. Large texts are looked at in a thread, and no step there keeps the interpreter for more
than a few milliseconds, so that other requests are served meanwhile.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from itertools import accumulate

import msgspec

from penstock import limits
from penstock.engine.checks import check_text
from penstock.errors import Invalid

LARGE = 131_072
"""Characters beyond which texts are checked in a thread."""
PIECE = 65_536
LONGEST_NUMBER = 400
"""Characters of a number that decide its magnitude, apart from its exponent."""

_TO_SQUARE = bytes.maketrans(b"{}", b"[]")
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_REMOVALS = 8
_STEPS = {ord("["): 1, ord("]"): -1}
_TO_ZEROS = bytes.maketrans(b"123456789E", b"000000000e")
_MANY_DIGITS, _LARGE_EXPONENT = b"0" * 100, b"0e000"
_NUMBER = re.compile(r"(?<![0-9.])([0-9]++)((?:\.[0-9]++)?)((?:[eE][+-]?[0-9]++)?)")
_OF_NUMBERS = "0123456789.eE+-"


async def check_large(size: int, check: Callable[[], None]) -> None:
    """Run checks of texts with so many characters: in a thread when they would take long."""
    if size <= LARGE:
        check()
    else:
        await asyncio.to_thread(check)


def check_json(field: str, text: str) -> None:
    """Refuse a JSON text that is nested too deeply or holds a number that is not finite as a double.

    A text that is not JSON at all passes, unless a parser would exceed its recursion limit on it.
    """
    check_text(field, text)
    deep = text.count("[") + text.count("{") > limits.JSON_DEPTH
    # In a short text this is cheaper than to look at its pieces.
    large = len(text) > PIECE or _may_be_large(text)
    if not deep and not large:
        return
    depth, numbers = _Depth(), _Numbers()
    for piece in _outside_of_strings(text):
        if deep and depth.exceeded(piece):
            raise Invalid(f"{field} must not be nested more than {limits.JSON_DEPTH} levels deep", field=field)
        if large:
            numbers.look(piece)
    if numbers.too_large and _is_json(text):
        raise Invalid(f"{field} must not contain a number beyond {limits.LARGEST_NUMBER:.1e}", field=field)


def _outside_of_strings(text: str) -> Iterator[str]:
    """What the text has outside of its strings, piece by piece."""
    start, inside = 0, False
    while start < len(text):
        piece = text[start : start + PIECE]
        if (len(piece) - len(piece.rstrip("\\"))) % 2:
            piece = text[start : start + PIECE + 1]  # an escape is not torn apart
        start += len(piece)
        # Without escapes, every second part between quotation marks is outside of strings.
        parts = piece.replace("\\\\", "").replace('\\"', "").split('"')
        yield "".join(parts[inside::2])
        inside ^= len(parts) % 2 == 0


class _Depth:
    def __init__(self) -> None:
        self._now = 0

    def exceeded(self, piece: str) -> bool:
        brackets = piece.encode().translate(_TO_SQUARE, _NOT_BRACKETS)
        before, self._now = self._now, self._now + 2 * brackets.count(b"[") - len(brackets)
        if before + brackets.count(b"[") <= limits.JSON_DEPTH:
            return False
        # Most arrays and objects hold no others: removing empty pairs is faster than counting them.
        rest = brackets
        for _ in range(_REMOVALS):
            rest = rest.replace(b"[]", b"")
        if before + rest.count(b"[") + _REMOVALS <= limits.JSON_DEPTH:
            return False
        return max(accumulate(map(_STEPS.__getitem__, brackets), initial=before)) > limits.JSON_DEPTH


class _Numbers:
    def __init__(self) -> None:
        self.too_large = False
        self._open = ""
        """A number at the end of a piece that may go on in the next one."""

    def look(self, piece: str) -> None:
        piece = self._open + piece
        if not self.too_large and _may_be_large(piece):
            self.too_large = any(_is_too_large(*number) for number in set(_NUMBER.findall(piece)))
        self._open = piece[len(piece.rstrip(_OF_NUMBERS)) :]
        if len(self._open) > 2 * LONGEST_NUMBER:
            # What is left out are digits after the point: of an integer this long it is known that it is too large.
            self._open = self._open[:LONGEST_NUMBER] + self._open[-LONGEST_NUMBER:]


def _may_be_large(text: str) -> bool:
    """Whether there may be a number outside the range of a double: with many digits, or with an exponent of three."""
    digits = text.encode().translate(_TO_ZEROS, b"+")
    return _MANY_DIGITS in digits or _LARGE_EXPONENT in digits


def _is_too_large(integer: str, fraction: str, exponent: str) -> bool:
    if len(integer) > LONGEST_NUMBER:
        return True
    return bool(exponent or len(integer) > 300) and (
        float(f"{integer}{fraction[:LONGEST_NUMBER]}{exponent}") > limits.LARGEST_NUMBER
    )


def _is_json(text: str) -> bool:
    try:
        msgspec.json.decode(text, type=msgspec.Raw)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True

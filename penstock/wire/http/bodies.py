"""Reading JSON bodies and queries into msgspec types, with errors that name the field."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, TypeVar
from urllib.parse import unquote

import msgspec

from penstock import limits
from penstock.engine.checks import check_moment
from penstock.errors import Invalid
from penstock.wire.http.allowed import allowed_values, known_fields, listed

Shape = TypeVar("Shape")

LARGE_BODY = 262_144
REMEMBERED_BYTES = 512

_MOMENTS: dict[Any, bool] = {}
"""By the type of a body: whether there can be a moment in it."""
_TO_ZEROS = bytes.maketrans(b"123456789", b"000000000")
_LONG_NUMBER = b"0" * 19

_AT = re.compile(r"^(?P<text>.*?)(?: - at `(?:key in )?\$(?P<path>.*)`)?$", re.DOTALL)
_NAMED = re.compile(r"^Object (?:contains unknown|missing required) field `(?P<name>.*)`$", re.DOTALL)


def read_body(decoder: msgspec.json.Decoder[Shape], body: bytes | bytearray) -> Shape:
    try:
        value = decoder.decode(body)
        return checked(value) if _may_be_out_of_range(decoder, body, value) else value
    except msgspec.ValidationError as error:
        raise invalid(error, decoder.type) from None
    except RecursionError:
        raise Invalid("the JSON is nested too deeply", field="body") from None
    except UnicodeDecodeError:
        raise Invalid("the body is not valid UTF-8", field="body") from None
    except ValueError as error:
        raise Invalid(f"the body is not valid JSON: {error}", field="body") from None


def _may_be_out_of_range(decoder: msgspec.json.Decoder[Shape], body: bytes | bytearray, value: Shape) -> bool:
    """Whether a body can hold a number or a moment that no store takes: most cannot, and need no second look."""
    if _has_moments(decoder.type) and _holds_moment(value):
        return True
    # A regular expression would take ten times as long, which counts in a body of many megabytes.
    return _LONG_NUMBER in body.translate(_TO_ZEROS)


def _has_moments(shape: Any) -> bool:
    known = _MOMENTS.get(shape)
    if known is None:
        known = _MOMENTS[shape] = "DateTimeType(" in repr(msgspec.inspect.type_info(shape))
    return known


def _holds_moment(value: object) -> bool:
    if isinstance(value, msgspec.Struct):
        for name in _moment_fields(type(value)):
            item = getattr(value, name)
            if item is not None and _holds_moment(item):
                return True
        return False
    if isinstance(value, list):
        return any(map(_holds_moment, value))
    if isinstance(value, dict):
        return any(map(_holds_moment, value.values()))
    return isinstance(value, datetime)


@lru_cache
def _moment_fields(shape: type[msgspec.Struct]) -> tuple[str, ...]:
    """The fields in which there can be a moment."""
    found = msgspec.inspect.type_info(shape)
    assert isinstance(found, msgspec.inspect.StructType)
    return tuple(field.name for field in found.fields if "DateTimeType(" in repr(field.type))


def checked(value: Shape, field: str = "") -> Shape:
    """Refuse numbers beyond 64 bits and moments at the ends of the calendar, wherever in a request they stand."""
    if isinstance(value, int):
        if not -limits.ID[1] <= value <= limits.ID[1]:
            raise Invalid(f"{field or 'body'}: the number is too large", field=field or "body")
    elif isinstance(value, datetime):
        check_moment(field, value if value.tzinfo else value.replace(tzinfo=UTC))
    elif isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            checked(getattr(value, name), f"{field}.{name}" if field else name)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            checked(item, f"{field}[{index}]")
    elif isinstance(value, dict):
        for name, item in value.items():
            checked(item, _short(f"{field}.{name}"))
    return value


def check_parts(body: bytes | bytearray, most: int) -> None:
    """Refuse a large JSON document of more parts than any request has, before each of them becomes an object.

    Counts strings, and the separators outside of them. Escaped quotes are taken out first, so that a message that
    is JSON itself counts as one string.
    """
    if len(body) <= LARGE_BODY:
        return
    # The beginning alone tells most of them, in less time.
    for part in (body[:LARGE_BODY], body):
        if not _has_few_parts(bytes(part), most):
            raise Invalid("the body has too many parts", field="body")


def _has_few_parts(body: bytes, most: int) -> bool:
    plain = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    if plain.count(b'"') > 2 * most:
        return False
    outside = b"".join(plain.split(b'"')[::2])
    return sum(map(outside.count, (b",", b"{", b"["))) <= most


def read_query(shape: type[Shape], query: bytes) -> Shape:
    """Parameters of a query string. Workers that poll send the same few over and over."""
    if len(query) > REMEMBERED_BYTES:
        return _read_query(shape, query)
    known: Shape = _remembered_query(shape, query)
    return known


def _read_query(shape: type[Shape], query: bytes) -> Shape:
    try:
        return checked(msgspec.convert(parse_query(query), shape, strict=False))
    except msgspec.ValidationError as error:
        raise invalid(error, shape) from None


_remembered_query: Callable[..., Any] = lru_cache(512)(_read_query)


def json_text(field: str, raw: msgspec.Raw) -> str:
    try:
        return bytes(raw).decode()
    except UnicodeDecodeError:
        raise Invalid(f"{field} is not valid UTF-8", field=field) from None


def invalid(error: msgspec.ValidationError, shape: Any) -> Invalid:
    """msgspec's complaint with the field it is about: `$[3].delay` is our `[3].delay`, and with what is allowed."""
    parts = _AT.match(str(error))
    assert parts is not None
    text, path = parts["text"], parts["path"] or ""
    named = _NAMED.match(text)
    if named is not None:
        field = _short(f"{path}.{named['name']}")
        if text.startswith("Object missing"):
            return Invalid(f"{field} is required", field=field)
        known = ", ".join(known_fields(shape, path)) or "none"
        return Invalid(f'unknown field "{_short(named["name"])}"; known: {known}', field=field)
    field = _short(path)
    if text.startswith("Invalid enum value") and (values := allowed_values(shape, path)):
        return Invalid(f"{field} must be {listed(values)}", field=field)
    return Invalid(f"{field}: {text[:1].lower()}{text[1:]}", field=field)


def _short(path: str) -> str:
    """A name of the caller's own making may be as long as the body."""
    return path.removeprefix(".")[:200] or "body"


def parse_query(query: bytes) -> dict[str, str]:
    """A name given twice is refused: whichever was meant, the other would be ignored."""
    values: dict[str, str] = {}
    for part in query.decode("latin-1").split("&"):
        if part:
            name, _, value = part.partition("=")
            name, value = _plain(name), _plain(value)
            if "\0" in name or "\0" in value:
                raise Invalid(f"{_short(name)} contains the character U+0000", field=_short(name))
            if name in values:
                raise Invalid(f"{name} is given twice", field=name)
            values[name] = value
    return values


def _plain(text: str) -> str:
    try:
        return unquote(text.replace("+", " "), errors="strict")
    except UnicodeDecodeError:
        raise Invalid("the query is not valid UTF-8", field="query") from None

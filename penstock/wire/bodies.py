"""Reading JSON bodies and queries into msgspec types, with errors that name the field."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TypeVar

import msgspec

from penstock.errors import Invalid
from penstock.wire.http import parse_query

Shape = TypeVar("Shape")

_AT = re.compile(r"^(?P<text>.*?)(?: - at `(?:key in )?\$(?P<path>.*)`)?$", re.DOTALL)
_NAMED = re.compile(r"^Object (?:contains unknown|missing required) field `(?P<name>.*)`$", re.DOTALL)


def read_body(decoder: msgspec.json.Decoder[Shape], body: bytes | bytearray) -> Shape:
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        raise invalid(error) from None
    except RecursionError:
        raise Invalid("the JSON is nested too deeply", field="body") from None
    except UnicodeDecodeError:
        raise Invalid("the body is not valid UTF-8", field="body") from None
    except ValueError as error:
        raise Invalid(f"the body is not valid JSON: {error}", field="body") from None


@lru_cache(512)
def read_query(shape: type[Shape], query: bytes) -> Shape:
    """The same few queries come over and over, from every worker that polls."""
    try:
        return msgspec.convert(parse_query(query), shape, strict=False)
    except msgspec.ValidationError as error:
        raise invalid(error) from None


def json_text(field: str, raw: msgspec.Raw) -> str:
    try:
        return bytes(raw).decode()
    except UnicodeDecodeError:
        raise Invalid(f"{field} is not valid UTF-8", field=field) from None


def invalid(error: msgspec.ValidationError) -> Invalid:
    """msgspec's complaint with the field it is about: `$[3].delay` is our `[3].delay`."""
    parts = _AT.match(str(error))
    assert parts is not None
    text, path = parts["text"], parts["path"] or ""
    named = _NAMED.match(text)
    if named is not None:
        field = _short(f"{path}.{named['name']}")
        missing = text.startswith("Object missing")
        return Invalid(f"{field} is required" if missing else f"{field} is not a field of this", field=field)
    field = _short(path)
    return Invalid(f"{field}: {text[:1].lower()}{text[1:]}", field=field)


def _short(path: str) -> str:
    """A name of the caller's own making may be as long as the body."""
    return path.removeprefix(".")[:200] or "body"

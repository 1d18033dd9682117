"""What the calls of all namespaces share: requests with JSON, and answers as types."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec

from penstock.client.exchange import Request
from penstock.client.reading import Unreadable
from penstock.errors import Invalid, Unavailable

Result = TypeVar("Result")

PATIENCE_S = 10.0
"""A request that waits at the server is given this much longer to be answered."""


class Answered(msgspec.Struct, frozen=True, kw_only=True):
    """What the server answers. A newer server may send more fields; they are ignored."""


def get(path: str, query: Mapping[str, Any] | None = None, *, wait: float = 0.0) -> Request:
    if wait:
        return Request("GET", path, parameters(query or {}), timeout_s=wait + PATIENCE_S)
    return Request("GET", path, parameters(query or {}))


def delete(path: str, query: Mapping[str, Any] | None = None, body: Any = None) -> Request:
    return Request("DELETE", path, parameters(query or {}), None if body is None else to_json(body))


def post(path: str, body: Any = None, query: Mapping[str, Any] | None = None, *, repeatable: bool = True) -> Request:
    content = None if body is None else to_json(body)
    return Request("POST", path, parameters(query or {}), content, repeatable)


def put(path: str, body: Any) -> Request:
    return Request("PUT", path, body=to_json(body))


def patch(path: str, body: Any) -> Request:
    return Request("PATCH", path, body=to_json(body))


def to_json(value: Any) -> bytes:
    """Moments, UUIDs, dataclasses and the like may stand in payloads and results; they travel as text and objects."""
    return msgspec.json.encode(value)


def given(**fields: Any) -> dict[str, Any]:
    """The fields that are not None: what is left out is as the server has it by default."""
    return {name: value for name, value in fields.items() if value is not None}


def parameters(query: Mapping[str, Any]) -> dict[str, str]:
    return {name: _parameter(value) for name, value in query.items() if value is not None}


def _parameter(value: Any) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value).lower() if isinstance(value, bool) else str(value)


def segment(name: str | int) -> str:
    """A name as a part of a path."""
    if name == "":
        raise Invalid("a name must not be empty")
    if name in (".", ".."):
        # HTTP clients resolve these segments, so the request would reach another path.
        raise Invalid(f'the name "{name}" cannot be part of a URL')
    return quote(str(name), safe="")


def moment_text(field: str, moment: datetime | str) -> str:
    """ISO 8601. Text without an offset is in UTC, as for the server; a datetime must have a time zone."""
    if isinstance(moment, str):
        try:
            # Written anew, because ISO 8601 knows more forms than the server reads: a date alone, for example.
            return datetime.fromisoformat(moment).isoformat()
        except ValueError:
            raise Invalid(f"{field} must be an ISO 8601 time such as 2026-01-31T09:00:00Z", field=field) from None
    if not isinstance(moment, datetime):
        raise Invalid(f"{field} must be a datetime or ISO 8601 text, not {type(moment).__name__}", field=field)
    if moment.tzinfo is None:
        raise Invalid(f"{field} must have a time zone", field=field)
    return moment.isoformat()


def read_as(kind: type[Result]) -> Callable[[Any], Result]:
    """A function that reads an answer as this type."""

    def read(found: Any) -> Result:
        try:
            return msgspec.convert(found, kind)
        except msgspec.ValidationError as error:
            raise Unavailable(f"the answer of the server cannot be read: {error}") from error

    return read


def read_each(kind: type[Result]) -> Callable[[Any], list[Result]]:
    """The same for a list, of which an item may have a value that Python cannot read."""
    read = read_as(kind)
    return lambda found: [read(readable(each)) for each in found]


def readable(found: Any) -> Any:
    """None in place of a value that cannot be read, and in `unreadable` why."""
    if not isinstance(found, dict):
        return found
    reasons = [f"{name}: {value.reason}" for name, value in found.items() if isinstance(value, Unreadable)]
    if not reasons:
        return found
    plain = {name: None if isinstance(value, Unreadable) else value for name, value in found.items()}
    return plain | {"unreadable": "; ".join(reasons)}


def nothing(found: Any) -> None:
    return None

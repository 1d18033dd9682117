"""The Query protocol, outwards: XML, or on request its own kind of JSON."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from penstock.wire.aws.errors import AwsError
from penstock.wire.aws.json_protocol import encode
from penstock.wire.aws.shapes import ListPlan, MapPlan, Named, Plan, Scalar, StructPlan, plan
from penstock.wire.http.messages import JSON, Response

XML = b"text/xml"

_SPECIAL = re.compile('[&<>"\r\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]')
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "\r": "&#xD;"}


def escape(text: str) -> str:
    """A carriage return written as it is would reach the reader as a line feed."""
    # XML has no way to write the other control characters; no door but the native one lets them in.
    return _SPECIAL.sub(lambda found: _ENTITIES.get(found[0], "\ufffd"), text)


def answer(action: str, result: Struct | None, request_id: str, namespace: str) -> Response:
    inner = "" if result is None else _element(f"{action}Result", "".join(_struct(plan(type(result)), result)))
    text = (
        f'<?xml version="1.0"?><{action}Response xmlns="{namespace}">{inner}'
        f"<ResponseMetadata><RequestId>{request_id}</RequestId></ResponseMetadata></{action}Response>"
    )
    return Response(200, text.encode(), XML, _headers(request_id))


def fault(error: AwsError, request_id: str, namespace: str, *, detail: bool = False) -> Response:
    if error.kind == "UnknownOperationException":
        return Response(error.status, b"<UnknownOperationException/>", XML, _headers(request_id))
    more = "<Detail/>" if detail else ""
    text = (
        f'<?xml version="1.0"?><ErrorResponse xmlns="{namespace}"><Error><Type>{error.fault}</Type>'
        f"<Code>{escape(error.code)}</Code><Message>{escape(error.message)}</Message>{more}</Error>"
        f"<RequestId>{request_id}</RequestId></ErrorResponse>"
    )
    return Response(error.status, text.encode(), XML, _headers(request_id))


def json_answer(action: str, result: Struct | None, request_id: str) -> Response:
    """What a GET that accepts JSON gets: the tree of the XML, spelled in JSON."""
    response: dict[str, Any] = {}
    if result is not None:
        response[f"{action}Result"] = _json_struct(plan(type(result)), result)
    response["ResponseMetadata"] = {"RequestId": request_id}
    return Response(200, encode({f"{action}Response": response}), JSON, _headers(request_id))


def json_fault(error: AwsError, request_id: str) -> Response:
    if error.kind == "UnknownOperationException":
        return Response(error.status, b"<UnknownOperationException/>", XML, _headers(request_id))
    told = {"Type": error.fault, "Code": error.code, "Message": error.message}
    return Response(error.status, encode({"Error": told, "RequestId": request_id}), JSON, _headers(request_id))


def _headers(request_id: str) -> tuple[tuple[bytes, bytes], ...]:
    return ((b"x-amzn-requestid", request_id.encode()),)


def _element(name: str, inner: str) -> str:
    return f"<{name}>{inner}</{name}>" if inner else f"<{name}/>"


def _struct(shape: StructPlan, value: Struct) -> Iterator[str]:
    for field in shape.fields:
        inner = getattr(value, field.attribute)
        if inner is not None:
            yield from _member(field.plan, field.name, inner)


def _member(shape: Plan, name: str, value: Any) -> Iterator[str]:
    if isinstance(shape, Scalar | StructPlan):
        yield _element(name, _inner(shape, value))
        return
    items = "".join(_items(shape, value))
    yield items if shape.names.flat else _element(name, items)


def _items(shape: ListPlan | MapPlan, value: Any) -> Iterator[str]:
    names = shape.names
    if isinstance(shape, ListPlan):
        for item in value:
            yield _element(names.item, _inner(shape.item, item))
    else:
        for key, item in value.items():
            inner = _element(names.key, escape(key)) + _element(names.value, _inner(shape.value, item))
            yield _element(names.item, inner)


def _inner(shape: Plan, value: Any) -> str:
    if isinstance(shape, StructPlan):
        return "".join(_struct(shape, value))
    if isinstance(shape, Scalar):
        return escape(_text(value))
    return "".join(_items(shape, value))


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return b64encode(value).decode() if isinstance(value, bytes) else str(value)


def _json_struct(shape: StructPlan, value: Struct) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for field in shape.fields:
        inner = getattr(value, field.attribute)
        if inner is not None:
            found[_json_name(field.plan, field.name)] = _json(field.plan, inner)
    return found


def _json_name(shape: Plan, name: str) -> str:
    return shape.names.json or name if isinstance(shape, ListPlan | MapPlan) else name


def _json(shape: Plan, value: Any) -> Any:
    if isinstance(shape, StructPlan):
        return _json_struct(shape, value)
    if isinstance(shape, ListPlan):
        return [_json(shape.item, item) for item in value]
    if isinstance(shape, MapPlan):
        return [_json_entry(shape.names, key, _json(shape.value, item)) for key, item in value.items()]
    return value


def _json_entry(names: Named, key: str, value: Any) -> dict[str, Any]:
    return {names.key: key, names.value: value}

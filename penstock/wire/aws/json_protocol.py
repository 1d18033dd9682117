"""The JSON 1.0 protocol: bodies in, answers and errors out."""

from __future__ import annotations

import re
from typing import TypeVar

import msgspec
from msgspec import Struct

from penstock.errors import Invalid
from penstock.wire.aws.errors import AwsError, malformed
from penstock.wire.http.bodies import check_parts
from penstock.wire.http.messages import Response

Shape = TypeVar("Shape", bound=Struct)

MAX_PARTS = 20_000
"""Strings and members of one request; a batch of ten messages with ten attributes each has about 1 000."""
JSON_1_0 = b"application/x-amz-json-1.0"

encode = msgspec.json.Encoder().encode

_COMPLAINT = re.compile(r"Expected `(?P<want>[\w |]+?)(?: \| null)?`, got `(?P<got>\w+)`")
_NOT_EXPECTED = {
    "array": "Start of list found where not expected",
    "object": "Start of structure or map found where not expected.",
}
_CALLED = {"str": "a String", "int": "an Integer", "bool": "a Boolean", "bytes": "a ByteBuffer"}
_VALUES = {"int": "NUMBER_VALUE", "float": "NUMBER_VALUE", "bool": "TRUE_VALUE", "str": "STRING_VALUE"}


def read(decoder: msgspec.json.Decoder[Shape], body: bytes | bytearray) -> Shape:
    try:
        check_parts(body, MAX_PARTS)
        return decoder.decode(body or b"{}")
    except msgspec.ValidationError as error:
        raise serialization_fault(error) from None
    except Invalid as error:
        raise malformed(f"The request is too complex: {error.message}.") from None
    except (ValueError, RecursionError):
        raise malformed("The request body is not valid JSON.") from None


def serialization_fault(error: msgspec.ValidationError) -> AwsError:
    found = _COMPLAINT.match(str(error))
    if found is None:
        return malformed(str(error).split(" - at ")[0])
    got, want = found["got"], found["want"]
    if want in _CALLED and got in _VALUES:
        return malformed(f"{_VALUES[got]} can not be converted to {_CALLED[want]}")
    return malformed(_NOT_EXPECTED.get(got, f"Unexpected {got}."))


def answer(result: Struct | None, request_id: str) -> Response:
    body = b"" if result is None else encode(result)
    return Response(200, body, JSON_1_0, ((b"x-amzn-requestid", request_id.encode()),))


def fault(error: AwsError, request_id: str) -> Response:
    body = encode({"__type": f"{error.space}#{error.kind}", "message": error.message})
    query_error = f"{error.code};{error.fault}"
    headers = ((b"x-amzn-requestid", request_id.encode()), (b"x-amzn-query-error", query_error.encode()))
    return Response(error.status, body, JSON_1_0, headers)

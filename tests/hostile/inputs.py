"""Requests that nobody would send on purpose, drawn from the OpenAPI document and from the service models of AWS."""

from __future__ import annotations

import base64
import json
import string
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any
from urllib.parse import quote, urlencode

import botocore.session
from botocore.model import ListShape, MapShape, OperationModel, Shape, StructureShape

NAMES = ["q", "orders", "orders.fifo", "mail-1", "t", "t.fifo", "s"]
NASTY: list[Any] = [
    None, True, False, 0, -1, 1, 2**31, 2**63 - 1, 2**63, -(2**63) - 1, 2**64, 10**30, 10**400, 0.5, -0.0, 1e-320,
    1e308,
    "", " ", "\0", "a\0b", "\ud7ff", "\ufffe", "\x7f", "²", "٣", "é" * 100, "a" * 300, "x" * 70_000, "%00", "%",
    "../..",
    "9" * 4301, "-" * 50, "null", "NaN", "1e400", "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59Z", "0000-00-00",
    "2026-02-30T00:00:00Z", "arn:aws:sqs:us-east-1:000000000000:q", "arn:aws:sns:us-east-1:000000000000:t",
    "arn:aws:sns:::", ":" * 10, "http://127.0.0.1:1/", "http://[::1", "every 5 minutes", "* * * * *", "*/0 * * * *",
    "#.#.#.*", "{", "[" * 2000, '{"a":' * 500 + "1" + "}" * 500, '{"a":[{"anything-but":["b"]}]}', [], [[]], {},
    {"": ""},
    ["a"] * 100, {"a" * 300: "b"}, {"a": {"b": {"c": None}}},
]  # fmt: skip
KINDS: Mapping[str, list[Any]] = {
    "integer": [0, 1, 2, 5, 10, 60, 1000],
    "number": [0, 0.5, 1, 30],
    "boolean": [True, False],
    "string": [*NAMES, "text", "a.b.c", "2026-11-17T10:00:00Z", "every day at 9", "All", "Number"],
}


@dataclass(frozen=True)
class Sent:
    """One request: what goes over the wire, and how to repeat it."""

    method: str
    path: str
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def bytes(self) -> bytes:
        lines = [f"{self.method} {self.path} HTTP/1.1", "Host: 127.0.0.1"]
        lines += [f"{name}: {value}" for name, value in self.headers]
        if self.body or self.method in ("POST", "PUT", "PATCH"):
            lines.append(f"Content-Length: {len(self.body)}")
        return "\r\n".join([*lines, "", ""]).encode("latin-1") + self.body

    def __str__(self) -> str:
        return f"{self.method} {self.path[:300]} {dict(self.headers)} {self.body[:600]!r}"


Door = Callable[[Random], Sent]


def _value(random: Random, name: str, usual: Callable[[], Any], odd: float = 0.15) -> Any:
    if "wait" in name.lower():  # a long poll is slow by design
        return random.choice([0, 0, 0, -1, "x", 10**30])
    return random.choice(NASTY) if random.random() < odd else usual()


def _scrambled(random: Random, body: bytes) -> bytes:
    """Mostly the body as it is; sometimes cut short, or with wrong bytes in it."""
    if not body or random.random() > 0.05:
        return body
    if random.random() < 0.5:
        return body[: random.randrange(len(body))]
    place = random.randrange(len(body))
    return body[:place] + random.randbytes(3) + body[place + 1 :]


def _segment(random: Random, name: str) -> str:
    usual: list[Any] = ["1", "2", *NAMES] if "id" in name else NAMES
    return quote(str(_value(random, name, lambda: random.choice(usual), 0.2))[:2000], safe="") or "x"


# From the OpenAPI document


def json_door(document: Mapping[str, Any], owns: Callable[[str], bool]) -> Door:
    schemas = document["components"]["schemas"]
    operations = [
        (method.upper(), path, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if owns(path)
    ]

    def make(random: Random) -> Sent:
        method, path, operation = random.choice(operations)
        query = []
        for parameter in operation["parameters"]:
            name = parameter["name"]
            if parameter["in"] == "path":
                path = path.replace(f"{{{name}}}", _segment(random, name))
            elif random.random() < 0.5:
                query.append((name, _query_text(_from_schema(random, name, parameter["schema"], schemas))))
        body = b""
        if "requestBody" in operation:
            [content] = operation["requestBody"]["content"].values()
            body = _json(_from_schema(random, "body", content["schema"], schemas))
        target = f"{path}?{urlencode(query, errors='replace')}"[:8000] if query else path[:8000]
        return Sent(method, target, (("Authorization", "Bearer x"),), _scrambled(random, body))

    return make


def _query_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)[:3000]


def _json(value: Any) -> bytes:
    return json.dumps(value).encode("utf-8", "surrogatepass")


def _from_schema(
    random: Random, name: str, schema: Mapping[str, Any], schemas: Mapping[str, Any], depth: int = 0
) -> Any:
    if "$ref" in schema:
        return _from_schema(random, name, schemas[schema["$ref"].rpartition("/")[2]], schemas, depth + 1)
    if "anyOf" in schema:
        return _from_schema(random, name, random.choice(schema["anyOf"]), schemas, depth + 1)
    if "enum" in schema:
        return _value(random, name, lambda: random.choice(schema["enum"]), 0.05)

    def usual() -> Any:
        kind = schema.get("type")
        if kind == "object":
            fields = schema.get("properties", {})
            required = schema.get("required", ())
            return {
                field: _from_schema(random, field, inner, schemas, depth + 1)
                for field, inner in fields.items()
                if depth < 6 and random.random() < (0.97 if field in required else 0.3)
            }
        if kind == "array":
            return [_from_schema(random, name, schema["items"], schemas, depth + 1) for _ in range(random.randrange(4))]
        return random.choice(KINDS.get(str(kind), [*NAMES, 1, {"a": [1]}, "text"]))

    return _value(random, name, usual, 0.03 if schema.get("type") in ("object", "array") else 0.12)


# From the models of AWS


def aws_door(service: str, target: str) -> Door:
    model = botocore.session.get_session().get_service_model(service)
    operations = [model.operation_model(name) for name in model.operation_names]
    credential = f"AWS4-HMAC-SHA256 Credential=AKID/20260101/us-east-1/{service}/aws4_request"

    def make(random: Random) -> Sent:
        operation = random.choice(operations)
        given = _given(random, operation)
        headers = [("Authorization", credential)]
        path = random.choice(["/", "/", f"/000000000000/{_segment(random, 'name')}"])
        if random.random() < 0.5:
            headers += [("X-Amz-Target", f"{target}.{operation.name}"), ("Content-Type", "application/x-amz-json-1.0")]
            return Sent("POST", path, tuple(headers), _scrambled(random, _json(given)))
        form = urlencode({"Action": operation.name, **flat(given)}, errors="replace")
        if random.random() < 0.2 and len(form) < 7000:
            return Sent("GET", f"{path}?{form}", tuple(headers), b"")
        headers.append(("Content-Type", "application/x-www-form-urlencoded"))
        return Sent("POST", path, tuple(headers), _scrambled(random, form.encode()))

    return make


def _given(random: Random, operation: OperationModel) -> Any:
    return {} if operation.input_shape is None else _from_shape(random, "input", operation.input_shape)


def _from_shape(random: Random, name: str, shape: Shape, depth: int = 0) -> Any:
    def usual() -> Any:
        if isinstance(shape, StructureShape):
            return {
                member: _from_shape(random, member, inner, depth + 1)
                for member, inner in shape.members.items()
                if depth < 6 and random.random() < (0.97 if member in shape.required_members else 0.3)
            }
        if isinstance(shape, ListShape):
            return [_from_shape(random, name, shape.member, depth + 1) for _ in range(random.randrange(4))]
        if isinstance(shape, MapShape):
            return {str(_scalar(random, "key")): _from_shape(random, name, shape.value, depth + 1) for _ in range(2)}
        return _scalar(random, name, shape.type_name)

    return _value(random, name, usual, 0.03 if depth == 0 else 0.12)


def _scalar(random: Random, name: str, kind: str = "string") -> Any:
    if kind == "blob":
        return base64.b64encode(random.randbytes(5)).decode()
    if "Arn" in name:
        service = random.choice(["sqs", "sns", "sns"])
        return f"arn:aws:{service}:us-east-1:000000000000:{random.choice(NAMES)}"
    if "Url" in name:
        return f"http://127.0.0.1/000000000000/{random.choice(NAMES)}"
    if name == "key":
        return random.choice(
            ["VisibilityTimeout", "RedrivePolicy", "Policy", "FilterPolicy", "DelaySeconds", "a", "Token"]
        )
    if name.endswith("Id"):
        return "".join(random.choices(string.ascii_letters, k=4))
    return random.choice(KINDS.get(kind, KINDS["string"]))


def flat(value: Any, name: str = "") -> dict[str, str]:
    """Parameters of the Query protocol, in the form that either service may take them."""
    if isinstance(value, dict):
        found: dict[str, str] = {}
        for key, inner in value.items():
            found |= flat(inner, f"{name}.{key}" if name else str(key))
        return found
    if isinstance(value, list):
        found = {}
        for number, inner in enumerate(value, 1):
            for form in (f"{name}.{number}", f"{name}.member.{number}", f"{name.removesuffix('s')}.{number}"):
                found |= flat(inner, form)
        return found
    return {name: str(value)} if name else {}

"""The OpenAPI document, arranged for a reader."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    kind: str
    required: bool
    text: str


@dataclass(frozen=True, slots=True)
class Entry:
    method: str
    path: str
    anchor: str
    summary: str
    scope: str
    """Of a token that may do this; `signature` where a signed request does instead, empty for everyone."""
    query: list[Field]
    body: list[Field]
    answers: list[tuple[str, str, list[Field]]]
    """Status, what it is, and its fields."""


def sections(document: Mapping[str, Any]) -> dict[str, list[Entry]]:
    schemas: Mapping[str, Any] = document["components"]["schemas"]
    found: dict[str, list[Entry]] = {}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            found.setdefault(operation["tags"][0], []).append(_entry(method.upper(), path, operation, schemas))
    return found


def _entry(method: str, path: str, operation: Mapping[str, Any], schemas: Mapping[str, Any]) -> Entry:
    query = [parameter for parameter in operation["parameters"] if parameter["in"] == "query"]
    security = operation["security"]
    # The page says once what every error looks like.
    fault = operation["responses"]["default"]["content"]
    return Entry(
        method=method,
        path=path,
        anchor=operation["operationId"],
        summary=operation["summary"],
        scope=_proof(security[0]) if security else "",
        query=[_field(item["name"], item["schema"], item["required"], schemas) for item in query],
        body=_content_fields(operation.get("requestBody"), schemas),
        answers=[
            (status, answer["description"], [] if answer.get("content") == fault else _content_fields(answer, schemas))
            for status, answer in operation["responses"].items()
            if status != "default"
        ],
    )


def _proof(security: Mapping[str, Sequence[str]]) -> str:
    """What a caller must bring: the scope of a token, or a signature."""
    [(scheme, scopes)] = security.items()
    return scopes[0] if scopes else scheme


def _content_fields(holder: Mapping[str, Any] | None, schemas: Mapping[str, Any]) -> list[Field]:
    for content in (holder or {}).get("content", {}).values():
        return _fields(content["schema"], schemas)
    return []


def _fields(schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> list[Field]:
    """The fields of an object; of an array, those of its items; of a choice, those of the first."""
    if "$ref" in schema:
        return _fields(schemas[_name(schema)], schemas)
    if "anyOf" in schema:
        return _fields(schema["anyOf"][0], schemas)
    if schema.get("type") == "array":
        return _fields(schema["items"], schemas)
    required = schema.get("required", ())
    return [_field(name, inner, name in required, schemas) for name, inner in schema.get("properties", {}).items()]


def _field(name: str, schema: Mapping[str, Any], required: bool, schemas: Mapping[str, Any]) -> Field:
    inner = schema["anyOf"][0] if "anyOf" in schema else schema
    text: str = inner.get("description", "")
    if "minimum" in inner:
        above = f"to {inner['maximum']}" if "maximum" in inner else "or more"
        text = f"{text} {inner['minimum']} {above}.".strip()
    if schema.get("default") not in (None, [], ""):
        text = f"{text} Default {str(schema['default']).lower()}.".strip()
    return Field(name, _kind(schema, schemas), required, text)


def _kind(schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        return _name(schema)
    if "anyOf" in schema:
        return " | ".join(dict.fromkeys(_kind(choice, schemas) for choice in schema["anyOf"]))
    if "enum" in schema:
        return " | ".join(f'"{choice}"' for choice in schema["enum"])
    if schema.get("type") == "array":
        return f"array of {_kind(schema['items'], schemas)}"
    if schema.get("format") == "date-time":
        return "moment"
    return str(schema.get("type", "any"))


def _name(schema: Mapping[str, Any]) -> str:
    return str(schema["$ref"]).rpartition("/")[2]

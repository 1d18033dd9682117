"""The OpenAPI document, made from the operations the JSON doors serve and the types they parse them with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import msgspec

from penstock.errors import Forbidden, Invalid, PenstockError, Unauthorized
from penstock.model import Scope
from penstock.wire.http.faults import FAULTS, Fault
from penstock.wire.http.router import SMALL_BODY, Handler, Route
from penstock.wire.http.router import Fault as PutFault

_REFERENCE = "#/components/schemas/{name}"
SIGNATURE = {
    "type": "apiKey",
    "in": "header",
    "name": "penstock-signature",
    "description": "An Ed25519 signature, with the headers penstock-timestamp and penstock-nonce.",
}
FAULT = {"application/json": {"schema": {"$ref": _REFERENCE.format(name="Fault")}}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One method on one path: what the router serves and the document shows."""

    method: str
    path: str
    handler: Handler
    summary: str
    tag: str
    answers: Mapping[int, Any]
    """By status, the type of the answer; a tuple of types is a choice, None has no body."""
    query: type | None = None
    body: Any = None
    body_required: bool = True
    scope: Scope | None = None
    """What a token needs; None serves everyone."""
    judges_token: bool = False
    """The handler looks at the Authorization header itself."""
    fault: type = Fault
    """The shape of an error. A door with a shape of its own words what HTTP refuses, too."""
    faults: Mapping[int, str] | None = None
    """By status, what may go wrong at a door that has codes of its own; `errors` is not looked at."""
    signed: bool = False
    """The handler asks for a signature instead of a token: see docs/private.md."""
    errors: tuple[type[PenstockError], ...] = ()
    """What may go wrong beside what the scope, the body and the query say already."""
    safe: bool = True
    body_bytes: int = SMALL_BODY
    media: str = "application/json"
    id_prefix: str = ""
    """Tells operations apart that differ only in the version of the path."""

    def route(self, fault: PutFault) -> Route:
        return Route(
            self.method,
            self.path,
            self.handler,
            fault=fault,
            body_bytes=self.body_bytes,
            open=self.scope is None or self.judges_token,
            safe=self.safe,
            words_refusals=self.fault is not Fault,
        )


def document(operations: Sequence[Operation], *, title: str, version: str) -> dict[str, Any]:
    types = [Fault, *_types(operations)]
    references, components = msgspec.json.schema_components(types, ref_template=_REFERENCE)
    schemas = {_key(kind): schema for kind, schema in zip(types, references, strict=True)}
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _describe(operation, schemas, components)
    return {
        "openapi": "3.1.0",
        "info": {"title": title, "version": version},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}, "signature": SIGNATURE},
        },
    }


def _types(operations: Iterable[Operation]) -> list[Any]:
    named = [kind for each in operations for kind in (each.body, each.query, each.fault, *each.answers.values())]
    single = [kind for given in named for kind in (given if isinstance(given, tuple) else (given,))]
    return list({_key(kind): kind for kind in single if kind is not None}.values())


def _key(kind: Any) -> str:
    return repr(kind)


def _schema(kind: Any, schemas: Mapping[str, Any]) -> Any:
    if isinstance(kind, tuple):
        return {"anyOf": [_schema(choice, schemas) for choice in kind]}
    if kind is None:
        return {"type": "null"}
    return schemas[_key(kind)]


def _describe(operation: Operation, schemas: Mapping[str, Any], components: Mapping[str, Any]) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": _operation_id(operation),
        "summary": operation.summary,
        "tags": [operation.tag],
        "parameters": [*_path_parameters(operation.path), *_query_parameters(operation, schemas, components)],
        "responses": {str(status): _answer(operation, status, schemas) for status in operation.answers}
        | {str(status): answer for status, answer in _refusals(operation).items() if status not in operation.answers}
        | {"default": {"description": "The request was refused.", "content": _fault_content(operation)}},
        "security": _security(operation),
    }
    if operation.body is not None:
        content = {"application/json": {"schema": _schema(operation.body, schemas)}}
        described["requestBody"] = {"required": operation.body_required, "content": content}
    return described


def _security(operation: Operation) -> list[dict[str, list[str]]]:
    if operation.signed:
        return [{"signature": []}]
    return [{"token": [str(operation.scope)]}] if operation.scope is not None else []


def _operation_id(operation: Operation) -> str:
    words = [word.strip("{}").replace(".", "_") for word in operation.path.split("/") if word not in ("", "v1")]
    return operation.id_prefix + "_".join([operation.method.lower(), *words])


def _path_parameters(path: str) -> list[dict[str, Any]]:
    names = [segment[1:-1] for segment in path.split("/") if segment.startswith("{")]
    return [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names]


def _query_parameters(
    operation: Operation, schemas: Mapping[str, Any], components: Mapping[str, Any]
) -> list[dict[str, Any]]:
    if operation.query is None:
        return []
    name = _schema(operation.query, schemas)["$ref"].rpartition("/")[2]
    fields: dict[str, Any] = components[name]["properties"]
    return [{"name": name, "in": "query", "required": False, "schema": schema} for name, schema in fields.items()]


def _answer(operation: Operation, status: int, schemas: Mapping[str, Any]) -> dict[str, Any]:
    answer: dict[str, Any] = {"description": HTTPStatus(status).phrase}
    kind = operation.answers[status]
    if kind is not None:
        answer["content"] = {operation.media: {"schema": _schema(kind, schemas)}}
    return answer


def _refusals(operation: Operation) -> dict[int, dict[str, Any]]:
    """By status, the errors a caller should expect, named by the codes that are answered."""
    named: dict[int, list[str]] = {}
    if operation.faults is not None:
        named[401] = [f"Unauthorized: {Unauthorized.__doc__}"]
        named |= {status: [text] for status, text in operation.faults.items()}
    else:
        for kind in _errors(operation):
            named.setdefault(FAULTS[kind], []).append(f"{kind.__name__}: {kind.__doc__}")
    content = _fault_content(operation)
    return {status: {"description": " ".join(texts), "content": content} for status, texts in sorted(named.items())}


def _fault_content(operation: Operation) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": _REFERENCE.format(name=operation.fault.__name__)}}}


def _errors(operation: Operation) -> Iterator[type[PenstockError]]:
    if operation.body is not None or operation.query is not None:
        yield Invalid
    if operation.scope is not None:
        yield Unauthorized
        yield Forbidden
    yield from operation.errors

"""The document agrees with the server, route by route and field by field."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from penstock.wire import rest_types as shapes
from tests.wire.conftest import Live

METHODS = {"get", "post", "patch", "delete", "put"}


@pytest.fixture
def document(server: Live) -> dict[str, Any]:
    return server.rest.document


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield method, path, operation


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if "$ref" in value:
            yield value["$ref"]
        for inner in value.values():
            yield from references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from references(inner)


async def test_the_document_is_served_to_everyone(server: Live, document: dict[str, Any]) -> None:
    async with httpx.AsyncClient(base_url=server.url, trust_env=False) as nobody:
        answer = await nobody.get("/v1/openapi.json")

    assert answer.json() == document
    assert document["openapi"] == "3.1.0"
    assert document["info"]["title"] == "Penstock"


async def test_the_document_has_the_shape_openapi_asks_for(document: dict[str, Any]) -> None:
    identifiers = []
    for method, path, operation in operations(document):
        identifiers.append(operation["operationId"])
        assert method in METHODS
        assert path.startswith("/")
        assert operation["summary"]
        assert operation["responses"]
        assert all("description" in answer for answer in operation["responses"].values())
        in_path = {part[1:-1] for part in path.split("/") if part.startswith("{")}
        assert {item["name"] for item in operation["parameters"] if item["in"] == "path"} == in_path
        assert all("schema" in item for item in operation["parameters"])
    assert len(identifiers) == len(set(identifiers))


async def test_every_reference_leads_somewhere(document: dict[str, Any]) -> None:
    for reference in references(document):
        assert reference.removeprefix("#/components/schemas/") in document["components"]["schemas"]


async def test_every_route_is_documented(server: Live, document: dict[str, Any]) -> None:
    served = {(route.method.lower(), route.path) for route in server.rest.routes()}

    assert served == {(method, path) for method, path, _ in operations(document)}


async def test_every_documented_path_answers(client: httpx.AsyncClient, document: dict[str, Any]) -> None:
    for method, path, operation in operations(document):
        real = path.format(name="none", id="1", task_id="1", routing_key="a", pattern="a", consumer="c", batch_id="1")
        answer = await client.request(method, real, content=b"{}" if "requestBody" in operation else b"")

        known = {status for status in operation["responses"] if status != "default"}
        # This store has no streams, nor what Spark makes of them.
        missing = 501 if path.startswith(("/v1/streams", "/v1/pipelines", "/v1/insights")) else 404
        assert answer.status_code in {*map(int, known), 400, 404, missing}, (method, path, answer.text)
        if answer.status_code >= 400:
            assert set(answer.json()) <= {"error", "code", "field", "errors"}
            assert answer.json()["code"] != "NotFound"


async def test_what_is_open_needs_no_header_and_the_rest_does(server: Live, document: dict[str, Any]) -> None:
    async with httpx.AsyncClient(base_url=server.url, trust_env=False) as nobody:
        for method, path, operation in operations(document):
            real = path.format(
                name="none", id="1", task_id="1", routing_key="a", pattern="a", consumer="c", batch_id="1"
            )
            answer = await nobody.request(method, real)
            assert (answer.status_code == 403) == bool(operation["security"]), (method, path)


async def test_the_schemas_are_those_of_the_types_that_parse(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]

    assert set(schemas["NewMessage"]["properties"]) == set(shapes.NewMessage.__struct_fields__)
    assert schemas["NewMessage"]["additionalProperties"] is False
    assert schemas["NewQueue"]["required"] == ["name"]
    assert schemas["NewQueue"]["properties"]["delay"]["maximum"] == 43_200
    query = document["paths"]["/v1/queues/{name}/messages"]["get"]["parameters"]
    assert {item["name"] for item in query if item["in"] == "query"} == set(shapes.ReceiveQuery.__struct_fields__)

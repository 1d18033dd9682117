"""The document agrees with the server, route by route and field by field."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import httpx
import pytest

from penstock.config import Settings
from penstock.engine import Engine
from penstock.server.doors import doors
from penstock.store.sqlite.store import SqliteStore
from penstock.wire import openapi
from penstock.wire.http.faults import FAULTS
from penstock.wire.http.messages import Request, Response
from penstock.wire.http.router import Route
from penstock.wire.jobs import types as jobs_types
from penstock.wire.rest import types as shapes
from tests.plain import PLAIN
from tests.wire.conftest import Live, running

METHODS = {"get", "post", "patch", "delete", "put"}
NO_JSON = {
    ("post", "/"),
    ("get", "/"),
    ("post", "/{account}/{name}"),
    ("get", "/{account}/{name}"),
    ("get", "/{certificate}"),
}
"""What Amazon's protocols speak at."""
REAL = {
    "name": "none", "id": "1", "task_id": "1", "routing_key": "a", "pattern": "a", "consumer": "c", "batch_id": "1",
    "queue": "none",
    "receipt": "x",
}  # fmt: skip


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


def is_of_jobs(path: str) -> bool:
    return path.startswith(("/jobs", "/queues", "/dashboard", "/v1/job"))


async def test_the_document_is_served_to_everyone(server: Live, document: dict[str, Any]) -> None:
    async with httpx.AsyncClient(base_url=server.url, trust_env=False, verify=PLAIN) as nobody:
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


def undocumented(routes: list[Route], document: dict[str, Any]) -> set[tuple[str, str]]:
    served = {(route.method.lower(), route.path) for route in routes}
    documented = {(method, path) for method, path, _ in operations(document)}
    assert documented <= served
    return served - documented - NO_JSON


@pytest.mark.parametrize("simple", [True, False])
async def test_every_route_of_the_server_is_documented(simple: bool) -> None:
    """Of the server as it is put together: a door that is added there and not to the document is found out."""
    routes = doors(Engine(SqliteStore(None)), Settings(simple=simple)).protocol.shared.router.routes
    [route] = [route for route in routes if route.path == "/v1/openapi.json"]
    answer = route.handler(Request("GET", route.path, b"", [], True))

    assert isinstance(answer, Response)
    assert undocumented(routes, json.loads(answer.body)) == set()


async def test_the_simple_protocol_documents_its_own_errors() -> None:
    async with running(simple=True) as live:
        document = live.rest.document

    sending = document["paths"]["/send"]["post"]["responses"]
    schemas = {answer["content"]["application/json"]["schema"]["$ref"] for answer in sending.values()}
    assert {"200", "400", "401", "403", "409", "413", "503", "default"} == sending.keys()
    assert schemas == {"#/components/schemas/SendResponse", "#/components/schemas/SimpleFault"}
    assert all(reference.rpartition("/")[2] in document["components"]["schemas"] for reference in references(document))


async def test_a_route_that_is_not_documented_is_named(server: Live, document: dict[str, Any]) -> None:
    [known] = [route for route in server.rest.routes() if route.path == "/livez"]
    secret = Route("POST", "/v1/secrets", known.handler, fault=known.fault)
    served = [Route(method.upper(), path, known.handler, fault=known.fault) for method, path, _ in operations(document)]

    assert undocumented([*served, secret], document) == {("post", "/v1/secrets")}


async def test_every_documented_path_answers(client: httpx.AsyncClient, document: dict[str, Any]) -> None:
    for method, path, operation in operations(document):
        real = path.format(**REAL)
        answer = await client.request(method, real, content=b"{}" if "requestBody" in operation else b"")

        known = {status for status in operation["responses"] if status != "default"}
        # This store has no streams, nor what Spark makes of them.
        missing = 501 if path.startswith(("/v1/streams", "/v1/pipelines", "/v1/insights", "/v1/private")) else 404
        others = set() if is_of_jobs(path) else {400, 404, missing}
        # Signed requests: a test of the document cannot sign.
        others |= {403} if path.startswith("/v1/private/") else set()
        assert answer.status_code in {*map(int, known), *others}, (method, path, answer.text)
        if answer.status_code >= 400:
            assert set(answer.json()) <= {"error", "code", "field", "errors"}
            assert answer.json()["code"] != "NotFound"


async def test_what_is_open_needs_no_header_and_the_rest_does(server: Live, document: dict[str, Any]) -> None:
    async with httpx.AsyncClient(base_url=server.url, trust_env=False, verify=PLAIN) as nobody:
        for method, path, operation in operations(document):
            answer = await nobody.request(method, path.format(**REAL))
            refused = 401 if "401" in operation["responses"] else 403
            if path != "/v1/private/links/{id}":  # which refuses an unknown id as if it asked for a signature
                assert (answer.status_code == refused) == bool(operation["security"]), (method, path)
            assert {"token": 401, "signature": 403}.get(
                next(iter([*operation["security"], {"": []}][0])), refused
            ) == refused


async def test_the_schemas_are_those_of_the_types_that_parse(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]

    assert set(schemas["NewMessage"]["properties"]) == set(shapes.NewMessage.__struct_fields__)
    assert schemas["NewMessage"]["additionalProperties"] is False
    assert schemas["NewQueue"]["required"] == ["name"]
    assert schemas["NewQueue"]["properties"]["delay"]["maximum"] == 43_200
    query = document["paths"]["/v1/queues/{name}/messages"]["get"]["parameters"]
    assert {item["name"] for item in query if item["in"] == "query"} == set(shapes.ReceiveQuery.__struct_fields__)


async def test_no_two_schemas_share_a_name(document: dict[str, Any]) -> None:
    """Else both would be called after the modules they are in."""
    assert [name for name in document["components"]["schemas"] if "." in name] == []


# Errors


def test_the_errors_to_expect_come_from_what_an_operation_says(server: Live, document: dict[str, Any]) -> None:
    responses = document["paths"]["/jobs/{id}/ack"]["post"]["responses"]

    assert list(responses) == ["200", "400", "401", "403", "404", "409", "413", "429", "default"]
    assert responses["404"]["description"] == "JobNotFound: The job does not exist."
    assert responses["409"]["content"]["application/json"]["schema"] == {"$ref": "#/components/schemas/Fault"}


async def test_every_error_that_is_named_has_the_status_it_is_answered_with(document: dict[str, Any]) -> None:
    statuses = {kind.__name__: str(status) for kind, status in FAULTS.items()} | {"Unauthorized": "401"}
    for _, _, operation in operations(document):
        for status, answer in operation["responses"].items():
            if answer.get("content") == openapi.FAULT and status != "default":
                assert statuses[answer["description"].partition(":")[0]] == status


# Jobs

QUEUE = f"queue-{uuid4().hex[:12]}"
"""Tests share a database."""


def misfits(value: Any, schema: dict[str, Any], schemas: dict[str, Any]) -> Iterator[str]:
    """Where a value is not what its schema says. Knows what of JSON Schema the document uses for answers."""
    if "$ref" in schema:
        yield from misfits(value, schemas[schema["$ref"].rpartition("/")[2]], schemas)
    elif "anyOf" in schema:
        if all(any(misfits(value, choice, schemas)) for choice in schema["anyOf"]):
            yield f"{value!r} is none of {schema['anyOf']}"
    elif "enum" in schema:
        if value not in schema["enum"]:
            yield f"{value!r} is not one of {schema['enum']}"
    elif "type" in schema:
        kinds: dict[str, Any] = {
            "object": dict, "array": list, "string": str, "integer": int, "number": (int, float), "boolean": bool,
            "null": type(None),
        }  # fmt: skip
        if not isinstance(value, kinds[schema["type"]]):
            yield f"{value!r} is no {schema['type']}"
        elif schema["type"] == "array":
            for item in value:
                yield from misfits(item, schema.get("items", {}), schemas)
        elif "properties" in schema:
            yield from (f"{name} is missing" for name in schema.get("required", ()) if name not in value)
            yield from (f"{name} is not said" for name in value if name not in schema["properties"])
            for name in value.keys() & schema["properties"].keys():
                yield from misfits(value[name], schema["properties"][name], schemas)


class Checked:
    """Calls the routes of jobs, and holds every answer against the document."""

    def __init__(self, client: httpx.AsyncClient, document: dict[str, Any]) -> None:
        self._client, self._document = client, document
        self.called: set[tuple[str, str]] = set()

    async def call(self, method: str, path: str, body: Any = None, query: str = "", **names: str) -> Any:
        answer = await self._client.request(method, path.format(**names) + query, json=body)
        operation = self._document["paths"][path][method.lower()]
        self.called.add((method, path))
        schema = operation["responses"][str(answer.status_code)]["content"]["application/json"]["schema"]
        assert list(misfits(answer.json(), schema, self._document["components"]["schemas"])) == [], (method, path)
        return answer.json()

    async def lease(self, **more: Any) -> Any:
        return await self.call("POST", "/queues/{queue}/lease", {"worker_id": "ada", **more}, queue=QUEUE)


async def test_every_answer_about_jobs_is_what_the_document_says(live: Live) -> None:
    async with live.client() as client:
        checked = Checked(client, live.rest.document)
        call, lease = checked.call, checked.lease
        job = (await call("POST", "/jobs", {"queue_name": QUEUE, "payload": {"to": "ada"}}))["job_id"]
        [other, third] = (
            await call("POST", "/jobs/batch", {"jobs": [{"queue_name": QUEUE, "payload": n} for n in range(2)]})
        )["job_ids"]
        token = (await lease())["lease_token"]
        await call("POST", "/jobs/{id}/heartbeat", {"lease_token": token, "progress": 1, "note": "half"}, id=job)
        await call("POST", "/jobs/{id}/ack", {"lease_token": token, "result": [1]}, id=job)
        await call("POST", "/jobs/{id}/ack", {"lease_token": token}, id=job)
        [leased] = await lease(max=1)
        told = {"lease_token": leased["lease_token"], "error": "no", "retry": False}
        await call("POST", "/jobs/{id}/nack", told, id=other)
        await call("POST", "/jobs/{id}/cancel", id=third)
        assert await lease() is None
        for path in ("/jobs/{id}", "/jobs/{id}/detail", "/jobs/{id}/attempts"):
            for each in (job, other, third, "unknown"):
                await call("GET", path, id=each)
        await call("GET", "/jobs", query=f"?queue_name={QUEUE}&limit=2")
        await call("GET", "/jobs", query="?status=lost")
        await call("PUT", "/queues/{queue}/limits", {"rate": 2.5}, queue=QUEUE)
        await call("GET", "/queues/{queue}/limits", queue=QUEUE)
        await call("GET", "/dashboard/queues")
        await call("POST", "/queues/{queue}/dead/requeue", queue=QUEUE)
        await call("POST", "/queues/{queue}/dead/purge", {"limit": 1}, queue=QUEUE)
        await call("GET", "/health")
        await call("GET", "/ready")

    mine = {
        (m.upper(), path) for m, path, _ in operations(live.rest.document) if is_of_jobs(path) and "/v1" not in path
    }
    assert checked.called == mine | {("GET", "/health"), ("GET", "/ready")}


async def test_the_schemas_of_jobs_are_those_of_the_types_that_parse(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]

    assert set(schemas["NewJob"]["properties"]) == set(jobs_types.NewJob.__struct_fields__)
    assert schemas["NewJob"]["required"] == ["payload"]
    assert schemas["NewJob"]["properties"]["priority"]["maximum"] == 32_767
    assert document["paths"]["/jobs"]["post"]["security"] == [{"token": ["send"]}]
    assert document["paths"]["/queues/{queue}/dead/purge"]["post"]["requestBody"]["required"] is False
    query = document["paths"]["/jobs"]["get"]["parameters"]
    assert {item["name"] for item in query} == set(jobs_types.JobsQuery.__struct_fields__)

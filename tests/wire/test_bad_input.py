"""Bad input: a 4xx in JSON that names the field, and nothing changed. Hypothesis looks for the exception."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock import limits
from penstock.model import DEFAULT_TENANT, Send
from tests.effort import examples
from tests.wire.conftest import Live

MESSAGES = "/v1/queues/q/messages"
many = settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

bad_names = (
    st.text(min_size=1, max_size=90)
    .filter(lambda name: limits.QUEUE_NAME.fullmatch(name) is None and name not in (".", ".."))
    .filter(lambda name: max(name) < "\ud800" or max(name) > "\udfff")
)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3)
)


def outside(bounds: tuple[int, int]) -> st.SearchStrategy[int]:
    return st.integers(max_value=bounds[0] - 1) | st.integers(min_value=bounds[1] + 1)


def not_an_integer(*, null: bool = False) -> st.SearchStrategy[Any]:
    """With `null`, None has no meaning for the field either."""
    return values.filter(lambda value: type(value) is not int and (null or value is not None))


class World:
    """A queue with three messages, one of them in flight, and how to tell that nothing has happened to it."""

    def __init__(self, live: Live, client: httpx.AsyncClient, receipt: str) -> None:
        self.client = client
        self.receipt = receipt
        self._engine = live.engine

    async def state(self) -> Any:
        queues = await self._engine.queues.list(DEFAULT_TENANT)
        counts = [await self._engine.queues.counts(DEFAULT_TENANT, queue.name) for queue in queues]
        return queues, counts, await self._engine.messages.peek(DEFAULT_TENANT, "q", 10)

    async def refuses(self, method: str, path: str, field: str | None = None, **more: Any) -> dict[str, Any]:
        """The request is answered with a 4xx that names the field, and everything is as it was."""
        before = await self.state()
        answer = await self.client.request(method, path, **more)
        assert 400 <= answer.status_code < 500, (answer.status_code, answer.text)
        assert answer.headers["content-type"] == "application/json"
        body: dict[str, Any] = answer.json()
        assert body["error"]
        assert body["code"]
        if field is not None:
            assert body["field"] == field, body
        assert await self.state() == before
        return body


@pytest.fixture
async def world(server: Live, client: httpx.AsyncClient) -> World:
    await server.engine.queues.create(DEFAULT_TENANT, "q", {})
    for number in range(3):
        await server.engine.messages.send(Send(tenant=DEFAULT_TENANT, queue="q", body=str(number)))
    [taken] = (await client.get(MESSAGES, params={"vt": 600})).json()
    return World(server, client, taken["receipt"])


PATHS = [
    ("GET", "/v1/queues/{}", None),
    ("PATCH", "/v1/queues/{}", {"delay": 1}),
    ("DELETE", "/v1/queues/{}", None),
    ("POST", "/v1/queues/{}/purge", None),
    ("GET", "/v1/queues/{}/sources", None),
    ("GET", "/v1/queues/{}/redrive", None),
    ("POST", "/v1/queues/{}/redrive", {}),
    ("DELETE", "/v1/queues/{}/redrive/1", None),
    ("POST", "/v1/queues/{}/messages", {"message": 1}),
    ("GET", "/v1/queues/{}/messages", None),
    ("GET", "/v1/queues/{}/messages?peek=true", None),
    ("DELETE", "/v1/queues/{}/messages", {"ids": [1]}),
    ("DELETE", "/v1/queues/{}/messages/1", None),
    ("PATCH", "/v1/queues/{}/messages/1", {"vt": 0}),
    ("POST", "/v1/queues/{}/messages/1/archive", None),
]


@pytest.mark.parametrize(("method", "path", "body"), PATHS)
async def test_an_unknown_queue(world: World, method: str, path: str, body: Any) -> None:
    answer = await world.refuses(method, path.format("unknown"), "name", json=body)

    assert answer["code"] == "QueueNotFound"


@pytest.mark.parametrize(("method", "path", "body"), PATHS)
async def test_a_bad_name_in_the_path(world: World, method: str, path: str, body: Any) -> None:
    for name in ("a b", "a/b", "ä", "x" * 81, ".fifo", "a.b", "a%", "\x00", "q.fifo.fifo", "q\n"):
        await world.refuses(method, path.format(quote(name, safe="")), "name", json=body)


@many
@given(name=bad_names)
async def test_any_bad_name(world: World, name: str) -> None:
    await world.refuses("POST", "/v1/queues", "name", json={"name": name})
    await world.refuses("GET", f"/v1/queues/{quote(name, safe='')}/messages", "name")


@many
@given(value=values.filter(lambda value: not isinstance(value, str)))
async def test_a_name_of_another_type(world: World, value: Any) -> None:
    await world.refuses("POST", "/v1/queues", "name", json={"name": value})


SETTINGS = {
    "visibility_timeout": limits.VISIBILITY_TIMEOUT_S,
    "delay": limits.DELAY_S,
    "retention": limits.RETENTION_S,
    "receive_wait": limits.RECEIVE_WAIT_S,
    "max_message_bytes": limits.MESSAGE_BYTES,
    "max_length": limits.MAX_LENGTH,
    "max_receives": limits.MAX_RECEIVES,
    "dedup_window": limits.DEDUP_WINDOW_S,
}


@pytest.mark.parametrize("field", SETTINGS)
@many
@given(data=st.data())
async def test_a_setting_out_of_bounds_or_of_another_type(world: World, field: str, data: st.DataObject) -> None:
    value = data.draw(outside(SETTINGS[field]) | not_an_integer())

    await world.refuses("POST", "/v1/queues", field, json={"name": "new", field: value})
    await world.refuses("PATCH", "/v1/queues/q", field, json={field: value})


@pytest.mark.parametrize(
    ("given_settings", "field"),
    [
        ({"dedup_scope": "world"}, "dedup_scope"),
        ({"throughput_limit": 1}, "throughput_limit"),
        ({"lifo": "yes"}, "lifo"),
        ({"tags": {"a": 1}}, "tags[...]"),
        ({"tags": "a"}, "tags"),
        ({"dead_letter_queue": "none", "max_receives": 1}, "dead_letter_queue"),
        ({"dead_letter_queue": "q"}, "max_receives"),
        ({"dead_letter_queue": "a b", "max_receives": 1}, "dead_letter_queue"),
        ({"content_dedup": True}, "content_dedup"),
        ({"labels": {}}, "labels"),
        ({"visibility_timeout_s": 1}, "visibility_timeout_s"),
    ],
)
async def test_settings_that_make_no_sense(world: World, given_settings: dict[str, Any], field: str) -> None:
    await world.refuses("POST", "/v1/queues", field, json={"name": "new", **given_settings})
    await world.refuses("PATCH", "/v1/queues/q", field, json=given_settings)


@many
@given(name=st.text(min_size=1, max_size=20), value=values)
async def test_unknown_fields(world: World, name: str, value: Any) -> None:
    unknown = f"x{name}"
    encoded = json.dumps({unknown: value})[1:-1]
    for method, path, rest in (
        ("POST", "/v1/queues", '"name":"new"'),
        ("PATCH", "/v1/queues/q", '"delay":1'),
        ("POST", MESSAGES, '"message":1'),
        ("DELETE", MESSAGES, '"ids":[1]'),
        ("PATCH", f"{MESSAGES}/1", '"vt":1'),
        ("POST", "/v1/queues/q/redrive", '"rate":1'),
    ):
        answer = await world.refuses(method, path, content=f"{{{rest},{encoded}}}".encode())
        assert answer["field"] in (unknown, "body"), answer


@many
@given(name=st.from_regex(r"[a-z_]{1,10}", fullmatch=True))
async def test_unknown_query_parameters(world: World, name: str) -> None:
    unknown = f"x_{name}"
    for method, path, body in PATHS:
        mark = "&" if "?" in path else "?"
        await world.refuses(method, f"{path.format('q')}{mark}{unknown}=1", unknown, json=body)
    await world.refuses("GET", f"/v1/queues?{unknown}=1", unknown)
    await world.refuses("GET", f"{MESSAGES}?max=1&max=2", "max")


MESSAGE_FIELDS = {
    "delay": limits.DELAY_S,
    "priority": limits.PRIORITY,
    "dedup_window": limits.DEDUP_WINDOW_S,
    "retention": limits.RETENTION_S,
}


@pytest.mark.parametrize("field", MESSAGE_FIELDS)
@many
@given(data=st.data())
async def test_a_message_field_out_of_bounds_or_of_another_type(world: World, field: str, data: st.DataObject) -> None:
    value = data.draw(outside(MESSAGE_FIELDS[field]) | not_an_integer())

    await world.refuses("POST", MESSAGES, field, json={"message": 1, field: value})
    await world.refuses("POST", MESSAGES, f"[0].{field}", json=[{"message": 1, field: value}])


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"group_id": ""}, "group_id"),
        ({"group_id": "a b"}, "group_id"),
        ({"dedup_id": "x" * 129}, "dedup_id"),
        ({"dedup_id": 5}, "dedup_id"),
        ({"headers": []}, "headers"),
        ({"headers": "x"}, "headers"),
        ({"attributes": []}, "attributes"),
        ({"attributes": {"a": {"type": "Text", "value": ""}}}, "attributes.a.type"),
        ({"attributes": {"a": {"type": "Number", "value": "٣"}}}, "attributes.a.value"),
        ({"attributes": {"a": {"type": "Binary", "value": "*"}}}, "attributes.a.value"),
        ({"attributes": {"a b": {"type": "String", "value": ""}}}, "attributes"),
        ({"attributes": {"a": {"type": "String"}}}, "attributes[...].value"),
        ({"attributes": {"a": {"type": "String", "value": "", "x": 1}}}, "attributes[...].x"),
        ({"message": "a\0b"}, "message"),
        ({"message": "x" * 1_048_577}, None),
    ],
)
async def test_messages_that_make_no_sense(world: World, more: dict[str, Any], field: str | None) -> None:
    await world.refuses("POST", MESSAGES, field, json={"message": 1, **more})


@pytest.mark.parametrize("body", [b"", b"{", b"nonsense", b'{"', b"\xff\xfe", b"nul", b"0x1"])
async def test_invalid_json(world: World, body: bytes) -> None:
    for method, path in (("POST", "/v1/queues"), ("POST", MESSAGES), ("DELETE", MESSAGES), ("PATCH", "/v1/queues/q")):
        await world.refuses(method, path, "body", content=body)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b'{"message":"\xff"}', "message"),
        (b'{"message":["\xff"]}', "message"),
        (b'{"message":1,"headers":{"a":"\xff"}}', "headers"),
        (b'{"message":"\\ud800"}', "body"),
        (b'{"message":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "body"),
        (b'{"message":}', "body"),
        (b'{"message":1}x', "body"),
        (b"[" * 100_000, "[0]"),
        (b"{}", "message"),
        (b"[]", "body"),
        (b"[{}]", "[0].message"),
        (b'[{"message":1},2]', "[1]"),
        (b"5", "body"),
        (b"[" + b",".join([b'{"message":1}'] * 1001) + b"]", "body"),
    ],
)
async def test_message_bodies_that_are_not_messages(world: World, body: bytes, field: str) -> None:
    await world.refuses("POST", MESSAGES, field, content=body)


@many
@given(body=st.binary(max_size=200))
async def test_any_bytes_for_a_body(world: World, body: bytes) -> None:
    for method, path in (("POST", "/v1/queues"), ("POST", MESSAGES), ("DELETE", MESSAGES), ("PATCH", f"{MESSAGES}/1")):
        await world.refuses(method, path, content=body)


QUERIES = {
    "max": limits.RECEIVE_LIMIT,
    "vt": limits.VISIBILITY_TIMEOUT_S,
    "wait": limits.RECEIVE_WAIT_S,
    "max_receives": limits.MAX_RECEIVES,
}


@pytest.mark.parametrize("field", QUERIES)
@many
@given(data=st.data())
async def test_a_query_out_of_bounds_or_of_another_type(world: World, field: str, data: st.DataObject) -> None:
    text = data.draw(
        outside(QUERIES[field]).map(str) | st.sampled_from(["", "x", "1x", "1.5", "1e400", "--1", "0x1", "٣", "%FF"])
    )

    await world.refuses("GET", f"{MESSAGES}?{field}={text}", "query" if text == "%FF" else field)


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("peek=maybe", "peek"),
        ("shuffle=2", "shuffle"),
        ("fifo=x", "fifo"),
        ("dead_letter_queue=q", "max_receives"),
        ("dead_letter_queue=none&max_receives=1", "dead_letter_queue"),
        ("dead_letter_queue=a%20b&max_receives=1", "dead_letter_queue"),
    ],
)
async def test_queries_that_make_no_sense(world: World, query: str, field: str) -> None:
    await world.refuses("GET", f"{MESSAGES}?{query}", field)


@pytest.mark.parametrize("limit", ["0", "1001", "-1", "x"])
async def test_a_page_of_queues_out_of_bounds(world: World, limit: str) -> None:
    await world.refuses("GET", f"/v1/queues?limit={limit}", "limit")


@pytest.mark.parametrize("field", ["prefix", "after"])
async def test_a_page_of_queues_with_a_nul(world: World, field: str) -> None:
    await world.refuses("GET", f"/v1/queues?{field}=%00", field)


@many
@given(text=st.text(min_size=1, max_size=30).filter(lambda text: not text.isdigit() and text not in (".", "..")))
async def test_an_id_that_is_none(world: World, text: str) -> None:
    path = f"{MESSAGES}/{quote(text, safe='')}"

    await world.refuses("DELETE", path, "id")
    await world.refuses("PATCH", path, "id", json={"vt": 1})
    await world.refuses("POST", f"{path}/archive", "id")


@pytest.mark.parametrize("number", [2**63, 2**64, 10**30, "²", "٣"])
async def test_an_id_beyond_all_ids(world: World, number: Any) -> None:
    await world.refuses("DELETE", f"{MESSAGES}/{quote(str(number))}", "id")
    await world.refuses("DELETE", "/v1/queues/q/redrive/" + quote(str(number)), "task_id")
    if isinstance(number, int):
        await world.refuses("DELETE", MESSAGES, "ids[0]", json={"ids": [number]})


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "ids"),
        ({"ids": []}, "ids"),
        ({"ids": "1"}, "ids"),
        ({"ids": [1, "2"]}, "ids[1]"),
        ({"ids": [-1]}, "ids[0]"),
        ({"ids": list(range(1, 1002))}, "ids"),
        ({"receipts": [1]}, "receipts[0]"),
        ({"receipts": ["nonsense"]}, "receipts[0]"),
    ],
)
async def test_deletes_that_make_no_sense(world: World, body: Any, field: str) -> None:
    await world.refuses("DELETE", MESSAGES, field, json=body)


@many
@given(value=outside((-43_200, 43_200)) | not_an_integer(null=True))
async def test_a_change_of_visibility_out_of_bounds_or_of_another_type(world: World, value: Any) -> None:
    await world.refuses("PATCH", f"{MESSAGES}/{world.receipt}", "vt", json={"vt": value})


@many
@given(receipt=st.text(max_size=40))
async def test_a_receipt_that_is_none(world: World, receipt: str) -> None:
    await world.refuses("PATCH", f"{MESSAGES}/1", "receipt", json={"vt": 1, "receipt": receipt})
    await world.refuses("DELETE", f"{MESSAGES}/1?receipt={quote(receipt, safe='')}", "receipt")


@pytest.mark.parametrize("path", ["/v1/queues", "/v1/queues/q", MESSAGES, f"{MESSAGES}/1", "/livez", "/metrics"])
@pytest.mark.parametrize("method", ["PUT", "TRACE", "PROPFIND"])
async def test_a_wrong_method(world: World, method: str, path: str) -> None:
    answer = await world.refuses(method, path, "method")

    assert answer["code"] == "MethodNotAllowed"


@pytest.mark.parametrize("path", ["/v1", "/v1/", "/v1/nothing", "/v1/queues/q/nothing", "/v1/queues/", "/livez/x"])
async def test_a_wrong_path(world: World, path: str) -> None:
    await world.refuses("GET", path)


async def test_a_body_that_is_too_large(world: World) -> None:
    answer = await world.refuses("POST", "/v1/queues", "body", content=b"x" * 300_000)
    assert answer["code"] == "BodyTooLarge"
    await world.refuses("POST", MESSAGES, "body", content=b"x" * 17_000_000)


@many
@given(value=values)
async def test_any_json_is_either_understood_or_refused(world: World, value: Any) -> None:
    """The free search: whatever the body, never a 5xx, and a refusal changes nothing."""
    for method, path in (
        ("POST", MESSAGES),
        ("DELETE", MESSAGES),
        ("PATCH", f"{MESSAGES}/1"),
        ("PATCH", "/v1/queues/q"),
        ("POST", "/v1/queues"),
    ):
        before = await world.state()
        answer = await world.client.request(method, path, json=value)
        assert answer.status_code < 500
        if answer.status_code >= 400:
            assert answer.json()["field"]
            assert await world.state() == before

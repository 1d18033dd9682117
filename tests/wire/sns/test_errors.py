"""What SNS says no to: one table, sent in both protocols, and one over the whole error tree."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import botocore.session
import httpx
import pytest

from penstock import errors
from penstock.auth import Mode
from penstock.model import DEFAULT_TENANT, Scope
from penstock.wire.sns import errors as sns_errors
from tests.plain import PLAIN
from tests.wire.conftest import Live, running
from tests.wire.notifications import Raw, refusal
from tests.wire.sns.refusals import ROWS, publish

STATUSES = dict([*sns_errors.KINDS.values(), *sns_errors.COMMON.values()])


@pytest.fixture
async def raw(server: Live) -> AsyncIterator[Raw]:
    engine = server.engine
    await engine.topics.create(DEFAULT_TENANT, "known")
    await engine.topics.create(DEFAULT_TENANT, "known.fifo")
    async with httpx.AsyncClient(base_url=server.url, trust_env=False, verify=PLAIN) as http:
        raw = Raw(http)
        given = {"Name": "shop", "Platform": "GCM", "Attributes": {"PlatformCredential": "x"}}
        assert (await raw.json("CreatePlatformApplication", given)).status_code == 200
        yield raw


def test_the_table_is_long_and_every_row_is_another() -> None:
    assert len({json.dumps(row[:2], default=repr) for row in ROWS}) == len(ROWS) >= 100


@pytest.mark.parametrize(
    ("action", "given", "code", "message"), ROWS, ids=[f"{number}-{row[0]}" for number, row in enumerate(ROWS)]
)
async def test_refusals_read_as_those_of_amazon(raw: Raw, action: str, given: Any, code: str, message: str) -> None:
    for protocol in ("json", "query"):
        answer = await raw.send(protocol, action, given)

        assert refusal(protocol, answer) == (code, message, STATUSES[code])


async def test_what_is_refused_changes_nothing(raw: Raw, server: Live) -> None:
    async def state() -> Any:
        topics = await server.engine.topics.list(DEFAULT_TENANT)
        subscriptions = await server.engine.topics.subscriptions(DEFAULT_TENANT)
        return topics, subscriptions, await server.engine.outbox.list(DEFAULT_TENANT)

    before = await state()
    for action, given, _, _ in ROWS:
        await raw.json(action, given)

    assert await state() == before


def test_every_kind_has_the_code_and_the_status_of_the_service_model() -> None:
    model = botocore.session.get_session().get_service_model("sns")
    shapes = {shape.name: shape.metadata.get("error", {}) for shape in model.error_shapes}

    for kind, (code, status) in sns_errors.KINDS.items():
        assert code == shapes[kind].get("code", kind)
        assert status == shapes[kind].get("httpStatusCode", 400)


def _tree(root: type[errors.PenstockError]) -> list[type[errors.PenstockError]]:
    return [root, *(found for child in root.__subclasses__() for found in _tree(child))]


@pytest.mark.parametrize("kind", _tree(errors.PenstockError))
def test_every_error_of_the_engine_has_a_code(kind: type[errors.PenstockError]) -> None:
    put = sns_errors.to_aws_error(kind())

    assert put.code in STATUSES
    assert put.message


async def test_a_token_that_may_only_read_publishes_nothing() -> None:
    async with running(Mode.TOKEN) as live:
        await live.engine.topics.create(DEFAULT_TENANT, "known")
        _, text = await live.engine.tenants.create_token(DEFAULT_TENANT, "reader", frozenset({Scope.READ}))
        async with httpx.AsyncClient(base_url=live.url, trust_env=False, verify=PLAIN) as http:
            head = {"authorization": f"Bearer {text}"}
            listed = await Raw(http).json("ListTopics", {}, **head)
            refused = await Raw(http).json("Publish", publish(), **head)

    assert listed.status_code == 200
    assert refusal("json", refused) == (
        "AuthorizationError", "The caller is not authorized to perform this operation on this resource", 403,
    )  # fmt: skip

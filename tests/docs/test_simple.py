"""The page about the simple protocol: its examples run in their order, and its tables are those of the code."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.auth import Authenticator, Mode
from penstock.clock import FakeClock
from penstock.config import ini
from penstock.engine import Engine
from penstock.store.sqlite.store import SqliteStore
from penstock.wire.simple import types as simple_types
from penstock.wire.simple.door import SimpleDoor
from penstock.wire.simple.faults import FAULTS
from tests.docs.pages import page, plain, rows, section
from tests.docs.test_jobs import Session, without_ids
from tests.docs.test_pages import examples
from tests.system.serving import Running, serving

PAGE = "docs/simple.md"


@pytest.fixture
def server() -> Iterator[Running]:
    with serving("--memory") as found:
        yield found


@pytest.fixture
def door() -> SimpleDoor:
    engine = Engine(SqliteStore(None), FakeClock())
    tenants = engine.tenants
    return SimpleDoor(engine, Authenticator(Mode.OPEN, engine.clock, tenants.find_tokens, tenants.saw_token))


def without_moments(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            name: "a moment" if name.endswith("_timestamp") else without_moments(found) for name, found in value.items()
        }
    return [without_moments(found) for found in value] if isinstance(value, list) else value


def test_the_examples_answer_as_printed(server: Running, tmp_path: Path) -> None:
    session = Session(server, tmp_path)
    for command, documented in examples(page(PAGE)):
        printed = session.run(command)
        if documented:
            expected, found = (without_moments(without_ids(json.loads(text))) for text in (documented, printed))
            assert expected == found, (command, printed)


def test_every_route_has_an_example(door: SimpleDoor) -> None:
    text = " ".join(command for command, _ in examples(page(PAGE)))

    assert [each.path for each in door.operations if f"9324{each.path}" not in text] == []


def test_the_table_of_routes_is_the_doors(door: SimpleDoor) -> None:
    documented = [(row[0], plain(row[1]), row[2]) for row in rows(section(page(PAGE), "## Routes"))]

    assert sorted(documented) == sorted((each.method, each.path, each.scope or "") for each in door.operations)


@pytest.mark.parametrize(
    ("heading", "shape"),
    [
        ("## Send", simple_types.SendRequest),
        ("## Receive", simple_types.ReceiveRequest),
        ("## Delete", simple_types.ChangeVisibilityRequest),
    ],
    ids=["send", "receive", "delete"],
)
def test_every_field_of_a_request_is_documented(heading: str, shape: Any) -> None:
    assert [plain(row[0]) for row in rows(section(page(PAGE), heading))] == list(shape.__struct_fields__)


def test_every_key_of_the_configuration_is_documented() -> None:
    documented = [(plain(row[0]), plain(row[1]), row[2]) for row in rows(section(page(PAGE), "## Configuration"))]

    assert documented == [(known.section, key, known.default) for key, known in ini.KEYS.items()]


def test_the_codes_of_the_error_table_are_documented() -> None:
    documented = {(plain(row[0]), int(row[1])) for row in rows(section(page(PAGE), "## Errors"))}
    elsewhere = {"Conflict", "RateLimited", "Unsupported"}

    assert {(code, status) for status, code in FAULTS.values() if code not in elsewhere} <= documented

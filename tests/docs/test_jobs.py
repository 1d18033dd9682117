"""The page about jobs: its examples run in their order, and its tables are those of the code."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest

from penstock.auth import Authenticator, Mode
from penstock.clock import FakeClock
from penstock.engine import Engine
from penstock.model.jobs import JobStatus
from penstock.store.sqlite.store import SqliteStore
from penstock.wire.jobs import types as jobs_types
from penstock.wire.jobs.door import OPENQUEUE_PATHS, JobsDoor
from tests.docs.pages import DOCUMENTED_ADDRESS, blocks, page, plain, rows, section
from tests.docs.test_pages import alike, examples, shown
from tests.system.serving import Running, environment, serving

PAGE = "docs/jobs.md"


@pytest.fixture
def server() -> Iterator[Running]:
    with serving("--memory") as found:
        yield found


class Session:
    """Runs printed lines one after another, and keeps the variables they set."""

    def __init__(self, server: Running, folder: Path) -> None:
        self._url = server.url
        self._variables = environment({"HOME": str(folder)})

    def run(self, command: str) -> str:
        if assigned := re.fullmatch(r"(?:export )?(\w+)=(?:'(.*)'|\$\((.*)\))", command.strip(), re.DOTALL):
            name, text, inner = assigned.groups()
            self._variables[name] = text if inner is None else self._call(inner).strip()
            return ""
        return self._call(command)

    def _call(self, command: str) -> str:
        command = command.replace(DOCUMENTED_ADDRESS, self._url)
        done = subprocess.run(["sh", "-ec", command], env=self._variables, capture_output=True, text=True, timeout=30)
        assert done.returncode == 0, (command, done.stderr)
        return done.stdout


def without_ids(value: Any) -> Any:
    """Ids and lease tokens differ from run to run; that they are UUIDs does not."""
    if isinstance(value, dict):
        return {name: without_ids(found) for name, found in value.items()}
    if isinstance(value, list):
        return [without_ids(found) for found in value]
    try:
        UUID(value)
    except (ValueError, AttributeError, TypeError):
        return value
    return "a UUID"


def test_the_examples_answer_as_printed(server: Running, tmp_path: Path) -> None:
    session = Session(server, tmp_path)
    for command, documented in examples(page(PAGE)):
        printed = session.run(command)
        if documented:
            assert alike(without_ids(json.loads(documented)), without_ids(json.loads(printed))), (command, printed)


def test_the_sql_runs(migrated_database: str) -> None:
    found = blocks(page(PAGE))
    [position] = [number for number, (language, _) in enumerate(found) if language == "sql"]
    with psycopg.connect(migrated_database, autocommit=True) as connection:
        assert shown(connection, found[position][1]) == found[position + 1][1]


def test_the_table_of_routes_is_the_doors() -> None:
    engine = Engine(SqliteStore(None), FakeClock())
    tenants = engine.tenants
    door = JobsDoor(engine, Authenticator(Mode.OPEN, engine.clock, tenants.find_tokens, tenants.saw_token))
    found = rows(section(page(PAGE), "## Routes"))
    documented = [(row[0], plain(row[1]), row[2]) for row in found if len(row) == 4]
    stands_for = {plain(row[0]): plain(row[1]) for row in found if len(row) == 2}

    assert stands_for == {path: own for own, path in OPENQUEUE_PATHS.items()}
    own = [each for each in door.operations if each.tag != "OpenQueue"]
    assert sorted(documented) == sorted((each.method, each.path, each.scope or "") for each in own)


@pytest.mark.parametrize(
    ("heading", "shape"), [("## Enqueue", jobs_types.NewJob), ("## Lease", jobs_types.LeaseJobs)], ids=["job", "lease"]
)
def test_every_field_of_a_request_is_documented(heading: str, shape: Any) -> None:
    assert {plain(row[0]) for row in rows(section(page(PAGE), heading))} == set(shape.__struct_fields__)


def test_every_status_is_documented() -> None:
    documented = {plain(row[0]) for row in rows(section(page(PAGE), "## States"))} | {"failed"}

    assert documented == {status.value for status in JobStatus}

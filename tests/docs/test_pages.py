"""The documentation is correct: its tables match the code, and its examples run."""

from __future__ import annotations

import ast
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import botocore.session
import psycopg
import pytest

from penstock import config, errors, limits
from penstock.cli import command_line, manual
from penstock.engine.metrics import Gauge, Histogram, Metrics
from penstock.engine.topics.filters.conditions import OPERATORS
from penstock.wire.http.faults import FAULTS
from penstock.wire.openapi import FAULT
from penstock.wire.rest import stream_types as rest_stream_types
from penstock.wire.rest import types as rest_types
from penstock.wire.rest.door import OWNS
from tests.docs.pages import COMMAND, DOCUMENTED_ADDRESS, ROOT, blocks, eventually, page, plain, quoted, rows, section
from tests.system.serving import Running, environment, serving

# The reference


def test_every_setting_is_documented() -> None:
    assert config.markdown() in page("docs/reference.md")


def options(command: Any) -> set[str]:
    shown = [found for found in command.params if not getattr(found, "hidden", False)]
    return {name for found in shown for name in (*found.opts, *found.secondary_opts) if name.startswith("--")}


EVERY_COMMAND = dict(manual.commands(command_line()))
ON_SERVERS = manual.on_servers()
COMMANDS = {name: found for name, found in EVERY_COMMAND.items() if name not in ON_SERVERS}
"""Those that docs/reference.md describes; docs/cli.md has a generated description of the others."""


def test_the_commands_on_servers_are_documented_as_they_are() -> None:
    assert manual.markdown() in page("docs/cli.md")


def test_the_shared_options_of_commands_are_documented() -> None:
    [command] = [found for name, found in EVERY_COMMAND.items() if name == "penstock queue list"]
    text = section(page("docs/cli.md"), "## Which server") + section(page("docs/cli.md"), "## Output")

    assert set(re.findall(r"`(--[\w-]+)", text)) >= options(command) - {"--help"}


def test_every_command_is_documented() -> None:
    headings = re.findall(r"^### `(penstock [\w ]+)`$", page("docs/reference.md"), re.MULTILINE)

    assert sorted(headings) == sorted(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_documented(name: str) -> None:
    text = section(page("docs/reference.md"), f"### `{name}`")
    documented = {option for row in rows(text) for option in quoted(row[0]) if option.startswith("--")}

    assert documented == options(COMMANDS[name]) - {"--help"}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_default_is_documented(name: str) -> None:
    """Rows of one option; those of several options point to the page that describes them."""
    table = [row for row in rows(section(page("docs/reference.md"), f"### `{name}`")) if row[0].count("`") == 2]
    documented = {quoted(row[0])[0]: plain(row[1]) for row in table}
    actual = {param.opts[0]: param.default for param in COMMANDS[name].params if param.opts[0] in documented}

    wrong = {
        option: (documented[option], default)
        for option, default in actual.items()
        if documented[option] != ("off" if default is False else str(default)) and default not in (None, "", ())
    }
    assert wrong == {}
    empty = {option for option, text in documented.items() if not text}
    assert empty <= {"--host", "--port"}


def test_every_error_is_documented() -> None:
    documented = [
        (plain(row[0]), plain(row[1]), int(row[2]), row[3])
        for row in rows(section(page("docs/reference.md"), "## Errors"))
        if len(row) == 4
    ]

    assert documented == [
        (kind.__name__, code, FAULTS[kind], kind.__doc__) for code, kind in sorted(errors.BY_CODE.items())
    ]


def refusals() -> set[tuple[str, int]]:
    """Code and status of every refusal that the wire makes."""
    found = set()
    for path in (ROOT / "penstock" / "wire").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Refusal":
                status, code = node.args[:2]
                assert isinstance(status, ast.Constant), path
                assert isinstance(code, ast.Constant), path
                found.add((str(code.value), int(str(status.value))))
    return found


def test_every_refusal_is_documented() -> None:
    documented = [
        (plain(row[0]), int(row[1])) for row in rows(section(page("docs/reference.md"), "## Errors")) if len(row) == 3
    ]

    assert sorted(documented) == sorted(refusals())


def test_every_limit_is_documented() -> None:
    bounds = {name: value for name, value in vars(limits).items() if name.isupper() and isinstance(value, tuple)}
    documented = {row[0]: (row[1], row[2]) for row in rows(section(page("docs/reference.md"), "## Limits"))}

    assert documented == {
        name.lower().removesuffix("_s").replace("_", " "): tuple(map(_bound, value)) for name, value in bounds.items()
    }


def _bound(value: int | datetime) -> str:
    return str(value.date() if isinstance(value, datetime) else value)


def test_every_metric_is_documented() -> None:
    documented = {
        plain(row[0]): (row[1], quoted(row[2])) for row in rows(section(page("docs/operations.md"), "## Metrics"))
    }

    assert documented == {
        f"{metric.name}_total" if kind == "counter" else metric.name: (kind, list(metric.labels))
        for metric, kind in ((metric, _kind(metric)) for metric in Metrics())
    }


def _kind(metric: object) -> str:
    return "histogram" if isinstance(metric, Histogram) else "gauge" if isinstance(metric, Gauge) else "counter"


# REST


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with serving("--memory") as found:
        yield found


@pytest.fixture
def fresh_server() -> Iterator[Running]:
    """For examples with ids: the first id is 1."""
    with serving("--memory") as found:
        yield found


class Shell:
    """Runs printed commands against a server; curl writes the status of each response to standard error."""

    def __init__(self, server: Running, folder: Path) -> None:
        if shutil.which("curl") is None:
            pytest.skip("curl is not installed")
        (folder / ".curlrc").write_text('write-out = "%{stderr}%{http_code}"\n')
        self._environment = environment({"CURL_HOME": str(folder), "HOME": str(folder)})
        self._url = server.url

    def run(self, command: str) -> tuple[str, str]:
        """The output, and the statuses."""
        if assigned := re.fullmatch(r"export (\w+)='(.*)'", command.strip()):
            self._environment[assigned[1]] = assigned[2]
            return "", ""
        command = command.replace(DOCUMENTED_ADDRESS, self._url)
        done = subprocess.run(["sh", "-ec", command], env=self._environment, capture_output=True, text=True, timeout=30)
        assert done.returncode == 0, (command, done.stderr)
        return done.stdout, done.stderr


VARYING = {"moved", "newest_msg_age_sec", "oldest_msg_age_sec"}
VARYING |= {"batch_id", "depth", "events_per_second", "lag", "last_tick_id", "oldest_age", "pending"}
"""Fields that depend on timing. Times vary too, and are recognised by their format."""


def alike(documented: Any, answered: Any) -> bool:
    """Whether two documents are equal, apart from fields that depend on timing."""
    if isinstance(documented, dict) and isinstance(answered, dict):
        return documented.keys() == answered.keys() and all(
            name in VARYING or alike(value, answered[name]) for name, value in documented.items()
        )
    if isinstance(documented, list) and isinstance(answered, list):
        return len(documented) == len(answered) and all(map(alike, documented, answered))
    return bool(documented == answered) or (_is_moment(documented) and _is_moment(answered))


def _is_moment(value: object) -> bool:
    try:
        return isinstance(value, str) and value.endswith("Z") and datetime.fromisoformat(value) is not None
    except ValueError:
        return False


def examples(text: str) -> Iterator[tuple[str, str]]:
    """Each command of the console blocks, and the output printed below it."""
    for language, content in blocks(text):
        if language == "console":
            for part in COMMAND.split(content)[1:]:
                lines = part.splitlines()
                # An open quote continues the command on the next line.
                length = next(n for n in range(1, len(lines) + 1) if "\n".join(lines[:n]).count("'") % 2 == 0)
                yield "\n".join(lines[:length]), " ".join(lines[length:])


def routes() -> dict[tuple[str, str], tuple[str, set[str]]]:
    """Scope and statuses of every documented route."""
    return {
        (row[0], plain(row[1])): (row[2], set(row[3].split(", ")))
        for row in rows(section(page("docs/rest.md"), "## Routes"))
    }


def route_of(command: str) -> tuple[str, str]:
    """The documented route that a curl line calls."""
    address = re.search(rf"{DOCUMENTED_ADDRESS}[^\s']*", command)
    assert address is not None, command
    method = re.search(r"-X (\w+)", command)
    verb = method[1] if method else "POST" if " -d " in command else "GET"
    segments = urlsplit(address[0]).path.split("/")
    for known, path in routes():
        pattern = path.split("/")
        same = len(pattern) == len(segments) and all(
            left == right or left.startswith("{") for left, right in zip(pattern, segments, strict=True)
        )
        if known == verb and same:
            return known, path
    raise AssertionError(f"{verb} {address[0]} is not a documented route")


def test_the_table_of_routes_is_the_servers(server: Running) -> None:
    with server.client() as client:
        paths = client.get("/v1/openapi.json").json()["paths"]
    served = {
        (method.upper(), path): (
            operation["security"][0]["token"][0] if operation["security"] else "",
            {status for status, answer in operation["responses"].items() if answer.get("content") != FAULT},
        )
        for path, operations in paths.items()
        if path.split("/")[1] in OWNS and not path.startswith(("/v1/private/", "/v1/job"))
        for method, operation in operations.items()
    }

    assert routes() == served


def run_examples(text: str, shell: Shell) -> set[tuple[str, str]]:
    """Run the console blocks, compare their output, and return the routes they call."""
    shown = set()
    batch = "1"
    for command, documented in examples(text):
        # The batch id depends on the number of earlier ticks without events.
        printed, status = shell.run(re.sub(r"/batches/\d+/", f"/batches/{batch}/", command))
        if found := re.match(r'{"batch_id":(\d+)', printed):
            batch = found[1]
        if not command.startswith("curl"):
            continue
        route = route_of(command)
        shown.add(route)
        if " -w " not in command:
            # Examples of errors print one; others have a status of their route.
            assert status in routes()[route][1] or '"code"' in documented, (command, status, printed)
        if documented.startswith(("{", "[")):
            assert alike(json.loads(documented), json.loads(printed)), (command, printed)
        else:
            assert documented == printed.strip(), command
    return shown


ON_POSTGRESQL = {"## Streams": "/v1/streams", "## Pipelines": "/v1/pipelines", "## Insights": "/v1/insights"}
"""Parts of the REST API that require PostgreSQL: headings and path prefixes."""


def test_the_examples_of_the_rest_api_answer_as_printed(fresh_server: Running, tmp_path: Path) -> None:
    text = page("docs/rest.md")
    for heading in ON_POSTGRESQL:
        text = text.replace(section(page("docs/rest.md"), heading), "")

    shown = run_examples(text, Shell(fresh_server, tmp_path))

    assert shown == {route for route in routes() if not route[1].startswith(tuple(ON_POSTGRESQL.values()))}


@pytest.mark.parametrize("heading", ON_POSTGRESQL)
def test_the_examples_of_what_needs_postgresql_answer_as_printed(
    migrated_database: str, tmp_path: Path, heading: str
) -> None:
    with serving("--database-url", migrated_database) as server:
        shell = Shell(server, tmp_path)
        shell.run("export AUTH='Authorization: Bearer me'")

        shown = run_examples(section(page("docs/rest.md"), heading), shell)

    assert shown == {route for route in routes() if route[1].startswith(ON_POSTGRESQL[heading])}


@pytest.mark.parametrize(
    ("heading", "shape"),
    [
        ("## Create a queue", rest_types.Settings),
        ("## Send", rest_types.NewMessage),
        ("## Receive", rest_types.ReceiveQuery),
    ],
)
def test_every_field_of_a_request_is_documented(heading: str, shape: Any) -> None:
    documented = {plain(row[0]) for row in rows(section(page("docs/rest.md"), heading))}

    assert documented == set(shape.__struct_fields__)


def test_every_field_of_a_stream_and_an_event_is_documented() -> None:
    documented = {name for row in rows(section(page("docs/rest.md"), "## Streams")) for name in quoted(row[0])}

    assert documented == set(rest_stream_types.NewStream.__struct_fields__) | set(
        rest_stream_types.NewEvent.__struct_fields__
    )


def test_the_lines_of_the_readme_work_as_printed(server: Running, tmp_path: Path) -> None:
    [lines] = [content for language, content in blocks(page("README.md")) if "curl" in content]

    printed, statuses = Shell(server, tmp_path).run(lines)

    assert re.findall(r"\d{3}", statuses) == ["201", "201", "200", "204"]
    assert '"message":"Hello, world"' in printed


def test_the_stream_of_a_first_run_is_made_as_printed(migrated_database: str, tmp_path: Path) -> None:
    [lines] = [content for language, content in blocks(page("docs/pipelines.md")) if "curl" in content]

    with serving("--database-url", migrated_database) as server:
        calls = [line for line in lines.splitlines() if line.startswith("curl")]
        _, statuses = Shell(server, tmp_path).run("\n".join(calls))

    assert re.findall(r"\d{3}", statuses) == ["201", "201"]


# SQS


def test_the_table_of_actions_is_the_service_models() -> None:
    documented = [name for row in rows(section(page("docs/sqs.md"), "## Actions")) for name in quoted(row[1])]
    operations = botocore.session.get_session().get_service_model("sqs").operation_names

    assert sorted(documented) == sorted(operations)


def test_the_example_of_sqs_runs(server: Running) -> None:
    [script] = [content for language, content in blocks(page("docs/sqs.md")) if language == "python"]
    script = script.replace(DOCUMENTED_ADDRESS, server.url)

    done = subprocess.run(
        [sys.executable, "-c", script], env=environment({}), capture_output=True, text=True, timeout=60
    )

    assert (done.stdout, done.returncode) == ("one espresso\n", 0), done.stderr


# SNS


def test_the_table_of_actions_of_sns_is_the_service_models() -> None:
    documented = [name for row in rows(section(page("docs/sns.md"), "## Actions")) for name in quoted(row[1])]
    operations = botocore.session.get_session().get_service_model("sns").operation_names

    assert sorted(documented) == sorted(operations)


def test_the_example_of_sns_runs(server: Running) -> None:
    [script] = [content for language, content in blocks(page("docs/sns.md")) if language == "python"]
    script = script.replace(DOCUMENTED_ADDRESS, server.url)

    done = subprocess.run(
        [sys.executable, "-c", script], env=environment({}), capture_output=True, text=True, timeout=60
    )

    assert (done.stdout, done.returncode) == ("one double espresso\n", 0), done.stderr


def test_the_lines_about_the_outbox_work_as_printed(server: Running, tmp_path: Path) -> None:
    shell = Shell(server, tmp_path)

    statuses = [shell.run(command)[1] for command, _ in examples(page("docs/sns.md"))]

    assert statuses == ["200", "204", "200"]


def test_every_condition_of_a_filter_policy_is_documented() -> None:
    documented = " ".join(row[0] for row in rows(section(page("docs/sns.md"), "## Filter policies")))

    assert all(f'"{operator}"' in documented for operator in OPERATORS)


# SQL


def shown(connection: psycopg.Connection[Any], script: str) -> str:
    """The rows of all results, one per line; or the error."""
    lines: list[str] = []
    try:
        cursor: psycopg.Cursor[Any] | None = connection.execute(script.encode())
        while cursor is not None:
            if cursor.description:
                lines += [" | ".join(_cell(value) for value in row) for row in cursor.fetchall()]
            cursor = cursor if cursor.nextset() else None
    except psycopg.Error as error:
        return f"ERROR {error.sqlstate}: {error.diag.message_primary}\n"
    return "".join(f"{line}\n" for line in lines)


def _cell(value: object) -> str:
    """As psql shows it."""
    if isinstance(value, list):
        return "{" + ",".join(map(_cell, value)) + "}"
    if isinstance(value, bool):
        return "t" if value else "f"
    return "" if value is None else str(value)


@pytest.fixture
def migrated(migrated_database: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(migrated_database, autocommit=True) as connection:
        yield connection


@pytest.mark.parametrize("name", ["docs/sql.md", "docs/streams.md"])
def test_the_examples_of_the_sql_api_answer_as_printed(migrated: psycopg.Connection[Any], name: str) -> None:
    found = blocks(page(name))
    migrated.execute("drop role if exists shop")
    try:
        for number, (language, script) in enumerate(found):
            if language == "sql":
                answered = shown(migrated, script)
                follower = found[number + 1] if number + 1 < len(found) else ("", "")
                assert answered == (follower[1] if follower[0] == "text" else ""), script
    finally:
        migrated.execute("reset role")
        migrated.execute("drop role if exists shop")


def test_the_sql_of_the_readme_runs(migrated: psycopg.Connection[Any]) -> None:
    [script] = [content for language, content in blocks(page("README.md")) if language == "sql"]
    migrated.execute("create table invoices (customer text, amount numeric)")
    migrated.execute("select penstock.create_queue('invoices')")

    assert shown(migrated, script) == "1\n"


def test_the_roles_are_those_of_the_database(migrated: psycopg.Connection[Any]) -> None:
    granted = {}
    for role in ("penstock_reader", "penstock_writer", "penstock_admin"):
        found = migrated.execute(
            "select distinct proname from pg_proc where pronamespace = 'penstock'::regnamespace"
            " and has_function_privilege(%s, oid, 'execute')",
            [role],
        )
        granted[role] = {name for (name,) in found.fetchall()}
    documented: dict[str, set[str]] = {}
    below: set[str] = set()
    for row in rows(section(page("docs/sql.md"), "## Roles")):
        below = documented[plain(row[0])] = below | set(quoted(row[1]))

    assert documented == granted


def test_the_roles_of_streams_are_those_of_the_database(migrated: psycopg.Connection[Any]) -> None:
    # Helpers of change triggers are granted with them.
    sources = [path.read_text() for path in (ROOT / "penstock/store/postgres/sql/pgque").glob("triggers/2[7-9]0_*.sql")]
    helpers = {name for text in sources for name in re.findall(r"function pgque\.(\w+)\(", text) if "triga" not in name}
    granted: dict[str, set[str]] = {}
    for role in ("pgque_reader", "pgque_writer"):
        found = migrated.execute(
            "select distinct proname from pg_proc where pronamespace = 'pgque'::regnamespace"
            " and has_function_privilege(%s, oid, 'execute')",
            [role],
        )
        granted[role] = {name for (name,) in found.fetchall()} - helpers
    documented: dict[str, set[str]] = {}
    below: set[str] = set()
    for row in rows(section(page("docs/streams.md"), "## Roles")):
        below = documented[plain(row[0])] = below | set(quoted(row[1]))
    del documented["pgque_admin"]

    assert documented == granted


# Examples


def test_the_transactional_send_leaves_one_message(migrated: psycopg.Connection[Any]) -> None:
    answered = shown(migrated, page("examples/transactional_send.sql"))

    assert answered.splitlines()[-1] == "invoices | 1"
    assert shown(migrated, "select body from penstock.receive('invoices', max_messages => 10)") == '{"invoice": 1}\n'


def test_the_worker_handles_and_deletes(server: Running) -> None:
    worker = subprocess.Popen(
        [sys.executable, ROOT / "examples" / "worker.py", "letters"],
        env=environment({"PENSTOCK_URL": server.url}),
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        with server.client() as client:
            eventually(lambda: client.get("/v1/queues/letters").status_code == 200)
            assert client.post("/v1/queues/letters/messages", json={"message": {"to": "ada"}}).status_code == 201
            assert worker.stdout is not None
            assert worker.stdout.readline() == "handled {'to': 'ada'}\n"
            eventually(lambda: client.get("/v1/queues/letters").json()["queue_length"] == 0)
    finally:
        worker.terminate()
        worker.communicate(timeout=20)


def test_every_example_is_run() -> None:
    assert {path.name for path in (ROOT / "examples").iterdir() if path.is_file()} == {
        "transactional_send.sql",
        "jobs_worker.py",
        "worker.py",
        # By tests/client/test_examples.py.
        "django_shop.py",
        "fastapi_shop.py",
        # By tests/spark/processes/test_demo.py and tests/spark/processes/test_cluster.py.
        "pipeline_demo.py",
        "pipeline_demo.sql",
        "spark_archive.py",
    }


# Guarantees


def test_every_guarantee_names_tests_that_exist() -> None:
    guarantees = [row for row in rows(page("docs/guarantees.md")) if row[0].isdigit()]
    assert [int(row[0]) for row in guarantees] == list(range(1, len(guarantees) + 1))
    for _, text, tests in guarantees:
        assert quoted(tests), text
        assert [name for name in quoted(tests) if name not in _tests_of(name.partition("::")[0])] == []


def _tests_of(path: str) -> set[str]:
    found = set()
    for node in ast.parse(page(path)).body:
        members = node.body if isinstance(node, ast.ClassDef) else [node]
        place = f"{path}::{node.name}" if isinstance(node, ast.ClassDef) else path
        found |= {f"{place}::{one.name}" for one in members if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)}
    return found

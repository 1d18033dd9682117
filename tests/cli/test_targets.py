"""Which server or database a command works on."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from penstock.cli import context_file
from penstock.testing.server import MemoryServer
from tests.cli.commands import penstock

READING = (
    ("queue", "list"), ("queue", "peek", "q"), ("queue", "purge", "q"), ("job", "list"), ("schedule", "list"),
    ("token", "list"), ("tenant", "list"), ("audit",), ("status",), ("check",), ("topic", "list"),
    ("subscription", "list"), ("delivery", "list"), ("stream", "list"), ("pipeline", "list"),
)  # fmt: skip


@pytest.mark.parametrize("command", READING, ids=" ".join)
def test_only_commands_that_create_something_create_a_database(command: tuple[str, ...], tmp_path: Path) -> None:
    path = tmp_path / "mistyped.db"

    done = penstock(*command, "--sqlite", str(path))

    assert (done.code, done.out) == (4, "")
    assert done.err == f"penstock: SQLite file {path} does not exist\n"
    assert not path.exists()


@pytest.mark.parametrize(
    "command",
    [("queue", "list"), ("stream", "uninstall", "--force"), ("upgrade", "--dry-run"),
     ("pipeline", "run", "archive", "--messages"), ("backup", "new")],
    ids=" ".join,
)  # fmt: skip
def test_no_postgresql_is_created_in_a_directory_that_holds_something_else(
    command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.txt").write_text("mine")

    done = penstock(*command, "--data", str(tmp_path))

    assert (done.code, done.out) == (4, "")
    assert done.err.startswith(f"penstock: there is no embedded PostgreSQL in {tmp_path}; ")
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_migrate_shows_the_plan_for_an_embedded_postgresql_that_does_not_exist(
    fresh_database: str, tmp_path: Path
) -> None:
    planned = penstock("migrate", "--dry-run", "--data", str(tmp_path))

    assert list(tmp_path.iterdir()) == []
    assert planned == penstock("migrate", "--dry-run", "--database-url", fresh_database)
    assert planned.out.startswith("would apply 0001_")


def test_a_database_that_is_not_up_to_date_is_not_migrated_by_a_listing(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    with sqlite3.connect(path) as connection:
        connection.execute("create table mine (id integer)")

    done = penstock("queue", "list", "--sqlite", str(path))

    assert done.code == 1
    assert "run: penstock migrate" in done.err
    with sqlite3.connect(path) as connection:
        assert connection.execute("select name from sqlite_master").fetchall() == [("mine",)]


def test_migrate_shows_the_plan_for_a_sqlite_file_first(tmp_path: Path) -> None:
    store = ("--sqlite", str(tmp_path / "q.db"))

    planned = penstock("migrate", "--dry-run", *store).out.splitlines()
    assert planned[0].startswith("would apply 0001_")
    assert not (tmp_path / "q.db").exists()
    assert [line.replace("applied", "would apply") for line in penstock("migrate", *store).out.splitlines()] == planned
    assert penstock("migrate", "--dry-run", *store).out == "the schema is up to date\n"
    assert penstock("queue", "list", *store).code == 0


def test_a_server_is_named_by_an_option_a_variable_or_a_context(
    memory_server: MemoryServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    tenant = memory_server.new_tenant()
    listing = ("queue", "list", "--json")
    penstock("queue", "create", "mine", "--url", tenant.url, "--token", tenant.token)

    def sees() -> list[str]:
        done = penstock(*listing)
        assert done.code == 0, done
        return [found["queue"] for found in json.loads(done.out)]

    added = penstock("context", "add", "here", tenant.url, "--token", "-", stdin=f"{tenant.token}\n")
    assert (added.code, added.out) == (0, "")
    assert sees() == ["mine"]
    assert context_file.path().stat().st_mode & 0o077 == 0
    assert tenant.token not in penstock("context", "list").out

    monkeypatch.setenv("PENSTOCK_URL", "http://127.0.0.1:1")
    refused = penstock(*listing)
    assert (refused.code, "did not answer" in refused.err) == (1, True)
    assert [row["queue"] for row in json.loads(penstock(*listing, "--context", "here").out)] == ["mine"]
    monkeypatch.setenv("PENSTOCK_URL", tenant.url)
    monkeypatch.setenv("PENSTOCK_TOKEN", tenant.token)
    assert sees() == ["mine"]

    penstock("context", "add", "there", "http://127.0.0.1:1")
    assert penstock("context", "use", "there").code == 0
    rows = json.loads(penstock("context", "list", "--json").out)
    assert [(row["name"], row["current"]) for row in rows] == [("here", False), ("there", True)]
    assert penstock("context", "drop", "there").code == 0
    assert json.loads(penstock("context", "use", "here", "--json").out) == {"current": "here"}
    assert penstock("context", "use", "there").code == 4
    assert penstock("context", "drop", "there").code == 4


@pytest.mark.parametrize(
    "options",
    [
        ("--url", "http://127.0.0.1:1", "--sqlite", "q.db"),
        ("--url", "http://127.0.0.1:1", "--context", "here"),
        ("--context", "here", "--sqlite", "q.db"),
        ("--url", "http://127.0.0.1:1", "--tenant", "acme"),
        ("--url", "localhost:9324"),
    ],
    ids=" ".join,
)
def test_contradictory_options_are_a_usage_error(options: tuple[str, ...]) -> None:
    done = penstock("queue", "list", *options)
    assert (done.code, done.out) == (2, "")


def test_a_database_is_opened_for_one_tenant(tmp_path: Path) -> None:
    store = ("--sqlite", str(tmp_path / "q.db"))
    penstock("tenant", "create", "acme", *store)
    penstock("queue", "create", "theirs", "--tenant", "acme", *store)

    assert "theirs" in penstock("queue", "list", "--tenant", "acme", *store).out
    assert penstock("queue", "list", *store).err == "There are no queues.\n"
    assert penstock("queue", "list", "--tenant", "nobody", *store).code == 4


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script_for_the_shell(shell: str) -> None:
    done = penstock("completion", shell)
    assert done.code == 0
    assert "_PENSTOCK_COMPLETE" in done.out


def test_a_token_that_no_header_can_carry_is_a_usage_error() -> None:
    for token in ("tök", "a\nb"):
        done = penstock("queue", "list", "--url", "http://127.0.0.1:1", "--token", token)
        assert (done.code, done.err) == (2, "penstock: the token has characters that no token has\n")


def test_unknown_commands_and_options_are_usage_errors() -> None:
    assert penstock("queue", "lst").code == 2
    assert penstock("queue", "list", "--no-such-option").code == 2
    assert list(json.loads(penstock("version", "--json").out)) == ["version"]

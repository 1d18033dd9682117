"""The command line, run as a process."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from penstock.cli import command_line
from penstock.cli.table import COMMANDS as COMMAND_TABLE
from penstock.config.settings import KNOWN
from penstock.store.postgres.embedded.server import EmbeddedPostgres
from tests.system.serving import environment, penstock

COMMANDS = list(command_line().commands)

SLOW_IMPORTS = {
    "asyncio",
    "asyncpg",
    "httpx",
    "msgspec",
    "psycopg",
    "pyarrow",
    "pydantic",
    "pyspark",
    "rich",
    "starlette",
    "uvicorn",
}

LOADED = """
import sys
from penstock.cli import app
app(sys.argv[1:], standalone_mode=False)
print(*sys.modules, file=sys.stderr)
"""


def test_help_lists_the_commands() -> None:
    done = penstock("--help")
    assert done.returncode == 0
    for command in COMMANDS:
        assert f"\n  {command} " in done.stdout


def test_the_list_of_commands_is_complete_and_has_one_line_for_each() -> None:
    for name, (_, text) in COMMAND_TABLE.items():
        built = command_line().commands[name]
        assert built.name == name
        assert built.help
        assert len(f"  subscription  {text}") <= 80
        assert text.endswith(".")


HELP = [
    *(["--help"], ["serve", "--help"], ["queue", "--help"], ["queue", "list", "--help"], ["stream", "--help"]),
    ["pipeline", "run", "archive", "--help"],
]


@pytest.mark.parametrize("arguments", HELP, ids=" ".join)
def test_help_imports_neither_the_server_nor_slow_packages(arguments: list[str]) -> None:
    """`penstock --help` takes less than 0.3 s; imports are what it spends its time on."""
    done = subprocess.run(
        [sys.executable, "-c", LOADED, *arguments], env=environment(), capture_output=True, text=True, timeout=60
    )
    loaded = set(done.stderr.split())

    assert "Usage:" in done.stdout
    assert SLOW_IMPORTS & loaded == set()
    assert {
        name for name in loaded if name.startswith(("penstock.server", "penstock.engine", "penstock.store"))
    } == set()
    commands = {name for name in loaded if name.startswith("penstock.cli.commands.")}
    assert len(commands) == (arguments[0] in ("queue", "stream")), "only the commands that are asked for are imported"
    assert len(loaded) < 240


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command: str) -> None:
    done = penstock(command, "--help")
    assert done.returncode == 0
    assert "Usage" in done.stdout
    assert "<bool>" not in done.stdout


def test_the_flags_of_serve_are_those_of_the_settings() -> None:
    serve = command_line().commands["serve"]
    flags = {option.opts[0] for option in serve.params} - {"--config", "--host", "--port"}

    assert flags == {found.flag for found in KNOWN.values() if found.flag}


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("penstock que", ["queue"]),
        ("penstock queue re", ["receive", "redrive"]),
        ("penstock check --stu", ["--stuck-after"]),
    ],
)
def test_a_shell_completes_commands_and_options(line: str, offered: list[str]) -> None:
    asked = {"_PENSTOCK_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}

    done = penstock(more=asked)

    assert (done.stdout.split(), done.stderr) == (offered, "")


def test_a_terminal_that_knows_few_characters_shows_escapes(tmp_path: Path) -> None:
    store = ["--sqlite", str(tmp_path / "q.db")]
    penstock("queue", "create", "orders", *store)
    penstock("queue", "send", "orders", "grüße 🎉", *store)

    command = [sys.executable, "-m", "penstock", "queue", "peek", "orders", "--columns", "message", *store]
    few = environment({"PYTHONIOENCODING": "latin-1"})
    done = subprocess.run(command, env=few, capture_output=True, timeout=60)

    assert (done.returncode, done.stdout, done.stderr) == (0, b"message\ngr\xfc\xdfe \\U0001f389\n", b"")


@pytest.mark.parametrize("whole", [[], ["--whole"]], ids=["lines", "whole"])
def test_input_that_is_no_text_is_refused(whole: list[str], tmp_path: Path) -> None:
    store = ["--sqlite", str(tmp_path / "q.db")]
    penstock("queue", "create", "orders", *store)

    command = [sys.executable, "-m", "penstock", "queue", "send", "orders", "-", *whole, *store]
    done = subprocess.run(command, env=environment(), input=b"\xff\xfe\x00", capture_output=True, timeout=60)

    assert (done.returncode, done.stdout, done.stderr) == (2, b"", b"penstock: standard input is not UTF-8 text\n")


@pytest.mark.parametrize("word", ["version", "--version"])
def test_version(word: str) -> None:
    done = penstock(word)
    assert done.returncode == 0
    assert done.stdout.startswith("penstock ")


@pytest.mark.parametrize(
    ("arguments", "more", "says"),
    [
        (["serve", "--memory", "--workers", "2"], {}, "require PostgreSQL"),
        (["serve", "--memory", "--sqlite", "x.db"], {}, "exclude each other"),
        (["serve", "--memory", "--address", "nowhere"], {}, "--address must be like"),
        (["serve", "--memory", "--port", "99999"], {}, "must be like"),
        (["serve", "--memory", "--host", "0.0.0.0"], {"PENSTOCK_AUTH": "open"}, "refusing"),
        (["serve", "--memory", "--host", "192.0.2.1", "--port", "0"], {}, "cannot listen on 192.0.2.1:0"),
        (["serve", "--memory", "--host", "no.such.host.invalid", "--port", "0"], {}, "cannot listen on no.such"),
        (["serve", "--memory"], {"OTLP_SAMPLE_RATE": "2"}, "OTLP_SAMPLE_RATE must be a number from 0 to 1"),
        (
            ["serve", "--memory"],
            {"OTLP_PROTOCOL": "grpc"},
            "OTLP_PROTOCOL must be http/protobuf: traces are exported over HTTP, to port 4318",
        ),
        (
            ["serve", "--memory"],
            {"OTLP_ENABLED": "1", "OTLP_ENDPOINT": "http://collector:4317"},
            "OTLP_ENDPOINT has the port 4317, at which receivers expect gRPC: use 4318",
        ),
        (["serve", "--memory"], {"QUEUE_LINGER_MS": "x"}, "QUEUE_LINGER_MS must be a whole number"),
        (["serve", "--memory", "--log-level", "loud"], {}, "--log-level must be one of"),
        (["serve", "--sqlite", "no/such/directory/q.db", "--port", "0"], {}, "cannot open SQLite file"),
        (
            ["serve", "--sqlite", ".", "--port", "0"],
            {},
            "cannot open SQLite file .: SQLite: unable to open database file",
        ),
        (["serve", "--data", "file", "--port", "0"], {}, "file: Not a directory; choose another directory by --data"),
        (
            ["serve", "--memory", "--ready-file", ".", "--port", "0"],
            {},
            "the ready file . exists, and is not a regular",
        ),
        (
            ["serve", "--database-url", "postgresql://u:a/b@h/d"],
            {},
            "a password with special characters: write / as %2F, @ as",
        ),
        (["serve", "--config", "absent.toml"], {}, "cannot read absent.toml"),
        (["token", "list"], {"PENSTOCK_MEMORY": "1"}, "only inside the server process"),
        (["token", "create", "--sqlite", "q.db", "--tenant", "nobody"], {}, "tenant 'nobody' does not exist"),
        (["token", "create", "--sqlite", "q.db", "--expires", "never"], {}, "not a duration"),
        (["token", "revoke", "99", "--sqlite", "q.db"], {}, "does not exist"),
        (["token", "rotate", "99", "--sqlite", "q.db"], {}, "does not exist"),
    ],
)
def test_an_error_is_a_clear_line_and_no_traceback(
    arguments: list[str], more: dict[str, str], says: str, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    done = penstock(*arguments, cwd=tmp_path, more=more)
    assert done.returncode != 0
    assert done.stdout == ""
    [line] = done.stderr.splitlines()
    assert line.startswith("penstock: ")
    assert says in line


@pytest.mark.parametrize("arguments", [["serve", "--port", "0"], ["token", "list"], ["migrate"]])
def test_a_database_that_is_away_is_named_without_its_password(arguments: list[str], tmp_path: Path) -> None:
    url = "postgresql://someone:hunter2@127.0.0.1:1/queues"
    done = penstock(*arguments, cwd=tmp_path, more={"DATABASE_URL": url})
    assert done.returncode != 0
    assert "PostgreSQL at postgresql://someone:***@127.0.0.1:1/queues: [Errno 111] Connect" in done.stderr
    assert "hunter2" not in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_the_life_of_a_token(tmp_path: Path) -> None:
    store = ("--sqlite", tmp_path / "q.db")
    assert "acme" in penstock("tenant", "create", "acme", *store).stdout
    tenants = json.loads(penstock("tenant", "list", "--json", *store).stdout)
    assert {found["name"] for found in tenants} == {"default", "acme"}

    made = penstock(
        *("token", "create", "--tenant", "acme", "--scope", "send", "--scope", "read"),
        *("--queues", "orders-*", "--expires", "1h30m", "--name", "billing", *store),
    )
    text = made.stdout.strip()
    assert text.startswith("pst_")
    assert "\n" not in text

    [listed] = json.loads(penstock("token", "list", "--json", *store).stdout)
    assert listed["tenant"] == "acme"
    assert listed["scopes"] == ["read", "send"]
    assert (listed["queues"], listed["name"], listed["prefix"]) == ("orders-*", "billing", text[:12])
    assert listed["kind"] == "token"
    assert listed["expires_at"] is not None
    table = penstock("token", "list", *store).stdout
    assert "billing" in table
    assert text not in table
    assert penstock("token", "list", "--tenant", "default", *store).stderr.strip() == "There are no tokens."

    new = json.loads(penstock("token", "rotate", str(listed["id"]), "--json", *store).stdout)
    assert new["token"] != text
    assert new["scopes"] == ["read", "send"]
    assert "revoked" in penstock("token", "revoke", str(new["id"]), *store).stderr
    after = json.loads(penstock("token", "list", "--json", *store).stdout)
    assert all(found["revoked_at"] for found in after)


def test_the_life_of_an_access_key(tmp_path: Path) -> None:
    store = ("--sqlite", tmp_path / "q.db")
    penstock("tenant", "create", "acme", *store)
    made = penstock("token", "create", "--aws", "--tenant", "acme", "--scope", "send", "--queues", "orders-*", *store)
    found = re.fullmatch(
        r"AWS_ACCESS_KEY_ID=(PSAK[A-Z0-9]{16})\nAWS_SECRET_ACCESS_KEY=([A-Za-z0-9+/]{40})\n", made.stdout
    )
    assert found is not None, made.stdout
    key_id, secret = found.groups()
    assert "not shown again" in made.stderr

    listing = penstock("token", "list", "--json", *store).stdout
    [listed] = json.loads(listing)
    assert (listed["kind"], listed["prefix"]) == ("aws", key_id)
    assert (listed["tenant"], listed["scopes"], listed["queues"]) == ("acme", ["send"], "orders-*")
    assert secret not in listing + penstock("token", "list", *store).stdout

    rotated = penstock("token", "rotate", str(listed["id"]), "--overlap", "1h", "--json", *store).stdout
    new = json.loads(rotated)
    assert re.fullmatch(r"PSAK[A-Z0-9]{16}", new["access_key_id"])
    assert new["access_key_id"] != key_id
    assert len(new["secret_access_key"]) == 40
    assert (new["kind"], new["scopes"], new["queues"], new["revoked_at"]) == ("aws", ["send"], "orders-*", None)
    assert secret not in rotated
    penstock("token", "revoke", str(new["id"]), *store)
    revoked = penstock("token", "list", "--json", *store).stdout
    assert all(found["revoked_at"] for found in json.loads(revoked))
    assert new["secret_access_key"] not in revoked


def test_settings_and_where_they_come_from(tmp_path: Path) -> None:
    (tmp_path / "penstock.toml").write_text("linger_ms = 3\nworkers = 2\n")
    more = {"PENSTOCK_WORKERS": "4", "DATABASE_URL": "postgresql://u:hunter2@h/d"}
    done = penstock("config", "--json", cwd=tmp_path, more=more)
    rows = {row["setting"]: (row["value"], row["from"]) for row in json.loads(done.stdout)}
    assert rows["linger_ms"] == ("3", "file")
    assert rows["workers"] == ("4", "environment")
    assert rows["batching"] == ("true", "default")
    assert rows["database_url"] == ("postgresql://u:***@h/d", "environment")
    assert "| `workers` | `PENSTOCK_WORKERS` |" in penstock("config", "--markdown").stdout


def test_a_listing_creates_nothing_where_there_is_nothing(tmp_path: Path) -> None:
    for place in (("--sqlite", tmp_path / "mistyped.db"), ("--data", tmp_path / "mistyped")):
        done = penstock("queue", "list", *place)
        assert (done.returncode, done.stdout) == (4, "")
        assert "mistyped" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_migrate_says_what_it_does(fresh_database: str) -> None:
    more = {"DATABASE_URL": fresh_database}
    planned = penstock("migrate", "--dry-run", more=more)
    assert planned.returncode == 0, planned.stderr
    assert "would apply" in planned.stdout
    done = penstock("migrate", more=more)
    assert done.stdout.splitlines() == [line.replace("would apply", "applied") for line in planned.stdout.splitlines()]
    assert penstock("migrate", more=more).stdout.strip() == "the schema is up to date"
    assert penstock("migrate", "--dry-run", more=more).stdout.strip() == "the schema is up to date"


def test_the_url_of_the_database_is_for_other_programs(tmp_path: Path) -> None:
    server = EmbeddedPostgres(tmp_path / "data")
    store = ("sql", "url", "--data", str(tmp_path / "data"))
    assert "has not been started" in penstock(*store).stderr

    server.start()
    try:
        with psycopg.connect(penstock(*store).stdout.strip()) as connection:
            assert connection.execute("select 1").fetchall() == [(1,)]
    finally:
        server.stop()

    mine = "postgresql://ada:secret@127.0.0.1/mine"
    assert penstock("sql", "url", "--database-url", mine).stdout.strip() == mine
    refused = penstock("sql", "url", "--sqlite", str(tmp_path / "file.db"))
    assert (refused.returncode, refused.stderr) == (
        1,
        "penstock: only PostgreSQL has a database URL; this store is SQLite\n",
    )

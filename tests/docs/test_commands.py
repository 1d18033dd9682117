"""The guides name commands, options and SQL functions that exist, and the SQL of the migration guides runs."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import psycopg
import pytest

from tests.docs.pages import COMMAND, DOCS, ROOT, blocks, page, quoted
from tests.docs.test_pages import EVERY_COMMAND, options

GUIDES = [ROOT / "README.md", *(DOCS / f"{name}.md" for name in ("index", "tutorial", "concepts", "mcp"))]
GUIDES += sorted((DOCS / "migrate").glob("*.md"))
SQL_FUNCTION = re.compile(r"\b((?:penstock|pgque)\.[a-z_]+)(?=\()")


def commands(text: str) -> list[str]:
    """Commands of `penstock` in blocks for the shell, and those in the text that have options or arguments."""
    found = [line for language, block in blocks(text) if language in ("sh", "console") for line in block.splitlines()]
    lines = [re.split(r"\s#", COMMAND.sub("", line))[0] for line in found]
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    lines += [code for code in quoted(prose) if " " in code]
    return [line[line.index("penstock ") :] for line in lines if re.search(r"(?:^|\$\()penstock \w", line)]


def problem(line: str) -> str | None:
    """What is wrong with a command: an unknown name or an unknown option."""
    words = [word for word in shlex.split(re.sub(r"[)|&;].*$", "", line), posix=True) if word]
    if words[-1] == "…" or words[1:2] == []:
        return None
    fitting = [name for name in EVERY_COMMAND if words[: len(name.split())] == name.split()]
    if not fitting:
        groups = {" ".join(name.split()[: len(words)]) for name in EVERY_COMMAND}
        return None if " ".join(words) in groups else f"unknown command: {line}"
    known = options(EVERY_COMMAND[max(fitting, key=len)])
    unknown = [word for word in words if word.startswith("--") and word.partition("=")[0] not in known]
    return f"unknown option {unknown}: {line}" if unknown else None


@pytest.mark.parametrize("path", GUIDES, ids=lambda path: path.stem)
def test_commands_and_options_exist(path: Path) -> None:
    found = [problem(line) for line in commands(path.read_text(encoding="utf-8"))]

    assert [one for one in found if one is not None] == []


@pytest.mark.parametrize("line", ["penstock queues list", "penstock queue list --colums name"])
def test_a_mistake_in_a_command_is_found(line: str) -> None:
    assert problem(line) is not None


def test_the_sql_of_the_guides_exists_and_runs(migrated_database: str) -> None:
    named = {name for path in GUIDES for name in SQL_FUNCTION.findall(path.read_text(encoding="utf-8"))}
    [script] = [content for language, content in blocks(page("docs/migrate/oban.md")) if language == "sql"]

    with psycopg.connect(migrated_database, autocommit=True) as connection:
        known = connection.execute(
            "select pronamespace::regnamespace::text || '.' || proname from pg_proc"
            " where pronamespace in ('penstock'::regnamespace, 'pgque'::regnamespace)"
        )
        assert named - {name for (name,) in known.fetchall()} == set()
        connection.execute(
            "create table oban_jobs (queue text, worker text, args jsonb, priority integer, max_attempts integer,"
            " attempt integer, scheduled_at timestamp, state text);"
            " insert into oban_jobs values"
            " ('media', 'Thumbnail', '{\"id\": 1}', 2, 20, 3, now() + interval '1 day', 'retryable'),"
            " ('media', 'Thumbnail', '{\"id\": 2}', 0, 20, 0, now(), 'completed')"
        )
        assert len(connection.execute(script.encode()).fetchall()) == 1
        [[payload, priority, retries]] = connection.execute(
            "select payload, priority, max_retries from penstock.jobs"
        ).fetchall()

    assert (priority, retries) == (-2, 16)
    assert "Thumbnail" in str(payload)

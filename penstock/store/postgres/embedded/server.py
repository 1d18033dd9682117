"""A PostgreSQL of our own, in a directory: started with us, stopped with us, started again when it dies.

The directory holds the cluster (`postgresql/`), the superuser's password, the log, and two locks. The server
listens on a Unix socket only and asks for the password. It is durable like any PostgreSQL: we turn nothing off.

The process that starts the server owns it and stops it. A second supervisor of the same directory attaches: it uses
the server and leaves it running. When the owner is killed, the kernel signals PostgreSQL to stop.
"""

from __future__ import annotations

import atexit
import fcntl
import hashlib
import os
import secrets
import shutil
import socket
import stat
import tarfile
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import IO, NamedTuple
from urllib.parse import quote

from penstock.errors import Conflict, NotFound, Unavailable
from penstock.store.postgres.embedded.binaries import (
    Account,
    Installation,
    can_pass,
    choose_account,
    find_installation,
    installed_at,
    reachable,
)
from penstock.store.postgres.embedded.process import Process, complete, launched
from penstock.store.postgres.embedded.upgrading import has_checksums, move

NAME = "penstock"
"""Of the superuser and of the database."""

PORT = 5432
"""Only names the socket's file: nothing listens on TCP."""

SOCKET_PATH_BYTES = 103
"""The longest path of a socket that every supported kernel takes."""

HAS_PROC = Path("/proc/self/cwd").exists()

RECOVERY_SECONDS = 600.0
"""Longest wait for a server that is alive but still replaying its log."""

SETTINGS: Mapping[str, str] = MappingProxyType(
    {
        "listen_addresses": "",
        "unix_socket_permissions": "0700",
        "cluster_name": NAME,
        "timezone": "UTC",
        # Not "$user" first: that is the schema penstock, where tables of users would collide with ours.
        "search_path": "public",
        "log_timezone": "UTC",
        "max_connections": "200",
        "shared_buffers": "128MB",
        "max_wal_size": "1GB",
        # These programs know only PostgreSQL's own compression, and that costs more than a whole receive per page.
        "wal_compression": "off",
        "autovacuum_naptime": "10s",
        "jit": "off",
        # Statements and details carry payloads, which have no place in a log.
        "log_min_error_statement": "panic",
        "log_error_verbosity": "terse",
    }
)


def default_directory() -> Path:
    """`$PENSTOCK_DATA`; else the machine's place for root, the user's place for others."""
    if chosen := os.environ.get("PENSTOCK_DATA"):
        return Path(chosen)
    if os.geteuid() == 0:
        return Path("/var/lib/penstock")
    if home := os.environ.get("XDG_DATA_HOME"):
        return Path(home) / NAME
    return Path.home() / ".local" / "share" / NAME


class Postmaster(NamedTuple):
    pid: int
    status: str
    """`starting`, `ready` or `stopping`."""


class EmbeddedPostgres:
    def __init__(self, directory: Path, *, user: str | None = None, settings: Mapping[str, str] | None = None) -> None:
        """`user` is the account to run as when we are root; `settings` are PostgreSQL's, and override ours."""
        self._directory = directory.absolute()
        self._data = self._directory / "postgresql"
        self._user = user
        self._settings = {**SETTINGS, **(settings or {})}
        self._guard = threading.RLock()
        self._owned: Process | None = None
        self._owner_lock: int | None = None

    @property
    def dsn(self) -> str:
        """For asyncpg, psycopg and everything on libpq. Known once the server has been started."""
        try:
            password = self._password_file.read_text()
        except FileNotFoundError:
            raise Unavailable(
                f"The embedded PostgreSQL in {self._directory} has not been started yet; "
                "--data or PENSTOCK_DATA names another directory"
            ) from None
        return f"postgresql://{NAME}:{password}@/{NAME}?host={quote(str(self._socket_directory), safe='/')}&port={PORT}"

    def start(self) -> None:
        """Return when the server accepts connections; creates the cluster on first use."""
        with self._guard, self._alone():
            if not self.alive() or self._is_going():
                self._await_exit()
                account = choose_account(self._user, self._data)
                installation = self._installation(account)
                self._prepare(installation, account)
                self._run(installation, account)
            self._await_ready()

    def stop(self) -> None:
        """Shut down in good order, when the server is ours to stop; committed data is on disk either way."""
        with self._guard:
            if self._owned is not None:
                self._owned.end()
                self._owned = None
                atexit.unregister(self.stop)
                if self._socket_directory != self._data:
                    with suppress(OSError):
                        self._socket_directory.rmdir()
            if self._owner_lock is not None:
                os.close(self._owner_lock)
                self._owner_lock = None

    @property
    def cluster(self) -> Path:
        """The directory of PostgreSQL's own files."""
        return self._data

    def restore(self, archive: IO[bytes]) -> None:
        """Unpack a copy of a cluster, a compressed tar archive; the next start recovers it and sets a password."""
        with self._guard, self._alone():
            if self._data.exists():
                raise Conflict(f"{self._directory} holds data already; choose another directory by --data")
            account = choose_account(self._user, self._data)
            unfinished = self._directory / "postgresql.new"
            if unfinished.exists():
                shutil.rmtree(unfinished)
            unfinished.mkdir(mode=0o700)
            try:
                with tarfile.open(fileobj=archive, mode="r|gz") as packed:
                    packed.extractall(unfinished, filter="data")
            except BaseException:
                # It may have filled the disk.
                shutil.rmtree(unfinished)
                raise
            for lock in unfinished.glob(".s.PGSQL.*"):
                # Of the original's socket, which lies in its cluster: PostgreSQL does not start while its owner lives.
                lock.unlink()
            for path in (unfinished, *unfinished.rglob("*")):
                path.chmod(0o700 if path.is_dir() else 0o600)
                os.chown(path, account.uid, account.gid)
            self._password_file.unlink(missing_ok=True)
            unfinished.rename(self._data)
            _sync_directory(self._directory)

    def versions(self) -> tuple[int, int]:
        """The major versions of the data, and of the newest programs."""
        try:
            return int((self._data / "PG_VERSION").read_text()), find_installation().version
        except FileNotFoundError:
            raise NotFound(f"{self._directory} holds no data") from None

    def upgrade(self, old_programs: Path | None = None) -> Path | None:
        """Move the data to the newest PostgreSQL with pg_upgrade; the directory with the old data, or None.

        `old_programs` holds `bin` of the old PostgreSQL, when the package has it no more.
        """
        with self._guard, self._alone():
            before, after = self.versions()
            if before == after:
                return None
            if self.alive():
                raise Conflict(f"a server uses {self._directory}; stop it first")
            account = choose_account(self._user, self._data)
            old = find_installation(before) if old_programs is None else installed_at(old_programs)
            if old.version != before:
                raise Unavailable(
                    f"{self._directory} holds the data of PostgreSQL {before}, whose programs are not in this package: "
                    "name the directory that has them in bin by --old-programs"
                )
            new = reachable(find_installation(), account)
            unfinished = self._make_cluster(new, account, like=self._data, old=old)
            self._single_user(new, account, unfinished, self._password_file.read_text())
            move(reachable(old, account), new, account, self._directory, self._password_file.read_text())
            kept = self._directory / f"postgresql.{before}"
            self._data.rename(kept)
            unfinished.rename(self._data)
            _sync_directory(self._directory)
            return kept

    def alive(self) -> bool:
        return self._postmaster() is not None

    def revive(self) -> bool:
        """Start the server again if it died; waits for its recovery. True if it had to."""
        if self.alive():
            return False
        self.start()
        return True

    # The directory

    @property
    def _password_file(self) -> Path:
        return self._directory / "password"

    @property
    def _socket_directory(self) -> Path:
        if _fits(self._data):
            return self._data
        name = f"{NAME}-{hashlib.sha256(os.fsencode(self._data)).hexdigest()[:16]}"
        for parent in (Path(tempfile.gettempdir()), Path("/tmp")):  # noqa: S108 — verified to be ours before use
            if _fits(parent / name):
                return parent / name
        raise Unavailable(f"The path {self._data} is too long for a socket, and so is the temporary directory's")

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One supervisor at a time decides what to do about this directory."""
        try:
            if not self._directory.exists() or not any(self._directory.iterdir()):
                self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._directory.chmod(0o700)
            descriptor = os.open(self._directory / "start.lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise Unavailable(
                f"The embedded PostgreSQL cannot keep its data in {self._directory}: {error.strerror}; "
                "choose another directory by --data"
            ) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _installation(self, account: Account) -> Installation:
        try:
            version = int((self._data / "PG_VERSION").read_text())
        except FileNotFoundError:
            return reachable(find_installation(), account)
        installation = find_installation(version)
        if installation.version != version:
            raise Unavailable(
                f"{self._directory} holds the data of PostgreSQL {version}, and this is PostgreSQL "
                f"{installation.version}: move the data over with pg_upgrade or pg_dump, or choose another directory"
            )
        return reachable(installation, account)

    def _prepare(self, installation: Installation, account: Account) -> None:
        if self._data.exists():
            if not self._password_file.exists():
                self._single_user(installation, account, self._data, self._new_password())
            return
        unfinished = self._make_cluster(installation, account)
        initdb = [installation.program("initdb"), "-D", _as_seen_by(account, unfinished)]
        password = self._password_file.read_text() if self._password_file.exists() else self._new_password()
        self._single_user(installation, account, unfinished, password, f"create database {NAME}")
        if self._settings.get("fsync") != "off":
            complete([*initdb, "--sync-only"], account, unfinished)
        unfinished.rename(self._data)
        _sync_directory(self._directory)

    def _make_cluster(
        self, installation: Installation, account: Account, like: Path | None = None, old: Installation | None = None
    ) -> Path:
        """A new cluster, built aside: a crash in the middle leaves nothing that looks like a cluster in use."""
        unfinished = self._directory / "postgresql.new"
        if unfinished.exists():
            shutil.rmtree(unfinished)
        unfinished.mkdir(mode=0o700)
        os.chown(unfinished, account.uid, account.gid)
        # The methods given here never serve: the file is replaced before the server first runs.
        options = ["--username", NAME, "--auth-local=peer", "--auth-host=reject", "--no-locale", "--encoding=UTF8"]
        if like is not None and old is not None:
            options.append("--data-checksums" if has_checksums(old, account, like) else "--no-data-checksums")
        initdb = [installation.program("initdb"), "-D", _as_seen_by(account, unfinished)]
        complete([*initdb, *options, "--no-sync", "--no-instructions"], account, unfinished)
        (unfinished / "pg_hba.conf").write_text("local all all scram-sha-256\nlocal replication all scram-sha-256\n")
        return unfinished

    def _new_password(self) -> str:
        password = secrets.token_hex(32)
        temporary = self._directory / "password.new"
        temporary.unlink(missing_ok=True)
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(password)
            file.flush()
            os.fsync(file.fileno())
        temporary.rename(self._password_file)
        return password

    def _single_user(
        self, installation: Installation, account: Account, data: Path, password: str, *statements: str
    ) -> None:
        """Set the password (and more) before anyone can connect, and without a driver."""
        command = [installation.program("postgres"), "--single", "-D", _as_seen_by(account, data), "postgres"]
        script = [f"alter role {NAME} password '{password}'", *statements]
        said = complete(command, account, data, "\n".join(script) + "\n")
        if "ERROR:" in said or "FATAL:" in said:
            raise Unavailable(f"The embedded PostgreSQL could not be prepared: {said.replace(password, '…')}")

    # The server

    def _run(self, installation: Installation, account: Account) -> None:
        where = _as_seen_by(account, self._data)
        sockets = where
        if self._socket_directory != self._data:
            _claim_directory(self._socket_directory, account)
            sockets = str(self._socket_directory)
        settings = {"unix_socket_directories": sockets, **self._settings}
        command = [installation.program("postgres"), "-D", where]
        command += [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        self._own()
        give_up = time.monotonic() + 30
        while True:
            self._owned = Process(launched(command, account, self._data), self._directory / "log")
            if self._comes_up(self._owned):
                atexit.register(self.stop)
                return
            self._owned.end()
            said, self._owned = self._owned.tail(), None
            # Children of a killed server take a moment to notice; until then its memory is in use.
            if "pre-existing shared memory block" not in said or time.monotonic() > give_up:
                raise Unavailable(f"The embedded PostgreSQL did not start: {said}")
            time.sleep(0.1)

    def _comes_up(self, process: Process) -> bool:
        """Whether the new process accepts connections; recovery after a crash may take it minutes."""
        give_up = time.monotonic() + RECOVERY_SECONDS
        while process.running() and time.monotonic() < give_up:
            if self._postmaster() == (process.pid, "ready"):
                return True
            time.sleep(0.01)
        return False

    def _await_ready(self) -> None:
        give_up = time.monotonic() + RECOVERY_SECONDS
        while (postmaster := self._postmaster()) is None or postmaster.status != "ready":
            if postmaster is None or time.monotonic() > give_up:
                raise Unavailable("The embedded PostgreSQL stopped while it was starting")
            time.sleep(0.01)

    def _postmaster(self) -> Postmaster | None:
        """The living server of this directory, by its own pid file."""
        try:
            lines = (self._data / "postmaster.pid").read_text().splitlines()
            pid = int(lines[0])
        except (FileNotFoundError, IndexError, ValueError):
            return None
        if not self._serves_here(pid):
            return None
        return Postmaster(pid, lines[7].strip() if len(lines) > 7 else "starting")

    def _serves_here(self, pid: int) -> bool:
        # A pid is soon used again, most of all in containers: the server is the one that works in our directory.
        try:
            if HAS_PROC:
                return os.path.samefile(f"/proc/{pid}/cwd", self._data)
            os.kill(pid, 0)
            with socket.socket(socket.AF_UNIX) as probe:
                probe.connect(str(self._socket_directory / f".s.PGSQL.{PORT}"))
        except OSError:
            return False
        return True

    def _is_going(self) -> bool:
        """Whether the server there is on its way out: stopping, or about to because its owner died."""
        if self._owned is None and not self._owner_lives():
            give_up = time.monotonic() + 1
            while (postmaster := self._postmaster()) and postmaster.status != "stopping":
                if time.monotonic() > give_up:
                    return False  # started by hand; it stays
                time.sleep(0.02)
        postmaster = self._postmaster()
        return postmaster is None or postmaster.status == "stopping"

    def _await_exit(self) -> None:
        give_up = time.monotonic() + RECOVERY_SECONDS
        while self.alive():
            if time.monotonic() > give_up:
                raise Unavailable("The embedded PostgreSQL has been stopping for too long")
            time.sleep(0.02)
        if self._owned is not None:
            self._owned.end()
            self._owned = None
        # PostgreSQL would take a stranger that now has the old server's pid for a living server. It tells by the
        # shared memory, not by this file, whether children of the old one still live.
        (self._data / "postmaster.pid").unlink(missing_ok=True)

    # Ownership: a lock that the kernel drops when its holder dies

    def _own(self) -> None:
        if self._owner_lock is None:
            descriptor = os.open(self._directory / "owner.lock", os.O_RDWR | os.O_CREAT, 0o600)
            with suppress(BlockingIOError):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._owner_lock = descriptor

    def _owner_lives(self) -> bool:
        descriptor = os.open(self._directory / "owner.lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False


def _as_seen_by(account: Account, data: Path) -> str:
    """A path to the cluster that works for the account that runs PostgreSQL.

    Directories above may be closed to it, root's home for one. The launcher enters the cluster while it is
    still root, and PostgreSQL never leaves it: so its working directory is a name that needs no passage.
    """
    if account.uid == os.geteuid() or not HAS_PROC or can_pass(data.parent, account):
        return str(data)
    return "/proc/self/cwd"


def _fits(directory: Path) -> bool:
    return len(os.fsencode(directory / f".s.PGSQL.{PORT}")) <= SOCKET_PATH_BYTES


def _claim_directory(directory: Path, account: Account) -> None:
    """Make a private directory in a public place, or make sure that the one there is such."""
    with suppress(FileExistsError):
        directory.mkdir(mode=0o700)
        os.chown(directory, account.uid, account.gid)
    status = directory.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != account.uid or status.st_mode & 0o077:
        raise Unavailable(f"{directory} belongs to someone else: remove it, or choose a shorter data directory")


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

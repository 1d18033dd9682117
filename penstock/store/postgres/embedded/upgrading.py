"""Moving a cluster to another major version of PostgreSQL, with pg_upgrade.

It keeps transaction ids, and with them the positions of streams. It copies, so the old cluster stays as it is.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from penstock.store.postgres.embedded.binaries import Account, Installation
from penstock.store.postgres.embedded.process import complete

OLD, NEW, USER = "postgresql", "postgresql.new", "penstock"
HERE = "/proc/self/cwd"


def has_checksums(installation: Installation, account: Account, data: Path) -> bool:
    """Both clusters must have page checksums, or neither."""
    said = complete([installation.program("pg_controldata"), "-D", "."], account, data)
    return "Data page checksum version:           0" not in said


def move(old: Installation, new: Installation, account: Account, directory: Path, password: str) -> None:
    """Copy the data from `postgresql` to the empty cluster `postgresql.new` in this directory."""
    # The path of a socket is short; and PostgreSQL's account may not be able to enter our directory.
    sockets = Path(tempfile.mkdtemp(prefix="penstock-upgrade-"))
    os.chown(sockets, account.uid, account.gid)
    mode = directory.stat().st_mode
    directory.chmod(mode | 0o011)
    # Directories above may be closed to the account, so every path begins at the working directory. PostgreSQL works in
    # its cluster: from there the same path must lead to the cluster itself.
    links = (directory / NEW / OLD, f"../{OLD}"), (directory / OLD / OLD, ".")
    command = [
        new.program("pg_upgrade"), "--old-bindir", str(old.root / "bin"), "--new-bindir", str(new.root / "bin"),
        "--old-datadir", f"{HERE}/{OLD}", "--new-datadir", HERE, "--username", USER, "--socketdir", str(sockets),
    ]  # fmt: skip
    try:
        for link, target in links:
            link.unlink(missing_ok=True)
            link.symlink_to(target)
        # pg_upgrade writes into the directory it runs in: the new cluster, which the account owns.
        complete(command, account, directory / NEW, password=password)
        # A script that names the old directory as it was; the caller moves it.
        (directory / NEW / "delete_old_cluster.sh").unlink(missing_ok=True)
    finally:
        for link, _ in links:
            link.unlink(missing_ok=True)
        directory.chmod(mode)
        shutil.rmtree(sockets, ignore_errors=True)

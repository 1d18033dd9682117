"""Runs the store tests on the PostgreSQL that Debian ships; root gets it installed when it is missing.

make test-debian
"""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cluster import FAST


def newest() -> Path | None:
    """The directory of the newest version's programs."""
    found = Path("/usr/lib/postgresql").glob("*/bin/postgres")
    return max((path.parent for path in found), key=lambda path: int(path.parent.name), default=None)


def install() -> None:
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    for command in (["update"], ["install", "-y", "postgresql"]):
        subprocess.run(["apt-get", "-qq", *command], env=environment, stdout=subprocess.DEVNULL, check=True)


@contextmanager
def running(programs: Path) -> Iterator[str]:
    """The DSN of a fresh server that listens on a socket only and asks for a password."""
    user = "postgres" if os.geteuid() == 0 else None  # PostgreSQL refuses to be root.
    with tempfile.TemporaryDirectory(prefix="penstock-") as name:
        folder = Path(name)
        password = secrets.token_hex(16)
        (folder / "password").write_text(password)
        if user is not None:
            subprocess.run(["chown", "-R", user, folder], check=True)

        def run(program: str, *arguments: str) -> None:
            command = [str(programs / program), *arguments]
            subprocess.run(command, user=user, cwd=folder, stdout=subprocess.DEVNULL, check=True)

        options = [f"-k {folder}", "-c listen_addresses=", *(f"-c {key}={value}" for key, value in FAST.items())]
        data = str(folder / "data")
        run("initdb", "-D", data, "-U", "penstock", "-A", "scram-sha-256", "--pwfile", str(folder / "password"), "-N")
        run("pg_ctl", "-D", data, "-w", "-l", str(folder / "log"), "-o", " ".join(options), "start")
        try:
            yield f"postgresql://penstock:{password}@/postgres?host={folder}"
        finally:
            run("pg_ctl", "-D", data, "-w", "-m", "immediate", "stop")


def main() -> int:
    if newest() is None and os.geteuid() == 0:
        install()
    programs = newest()
    if programs is None:
        print("Debian's PostgreSQL is not installed, and only root can install it")
        return 1
    print(f"PostgreSQL {programs.parent.name} of Debian")
    with running(programs) as dsn:
        command = [sys.executable, "-m", "pytest", "tests/store", "-k", "postgres or streams", *sys.argv[1:]]
        return subprocess.run(command, env=os.environ | {"PENSTOCK_TEST_DSN": dsn}).returncode


if __name__ == "__main__":
    sys.exit(main())

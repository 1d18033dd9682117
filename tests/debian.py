"""Runs the tests of our SQL on the PostgreSQL that Debian ships; root gets it installed when it is missing.

make test-debian
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def newest() -> Path | None:
    """The directory of the newest version's programs."""
    found = Path("/usr/lib/postgresql").glob("*/bin/postgres")
    return max((path.parent for path in found), key=lambda path: int(path.parent.name), default=None)


def install() -> None:
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    for command in (["update"], ["install", "-y", "postgresql"]):
        subprocess.run(["apt-get", "-qq", *command], env=environment, stdout=subprocess.DEVNULL, check=True)


def main() -> int:
    if newest() is None and os.geteuid() == 0:
        install()
    programs = newest()
    if programs is None:
        print("Debian's PostgreSQL is not installed, and only root can install it")
        return 1
    print(f"PostgreSQL {programs.parent.name} of Debian")
    command = [sys.executable, "-m", "pytest", "tests/store/streams", "tests/store/postgres_only", *sys.argv[1:]]
    return subprocess.run(command, env=os.environ | {"PENSTOCK_TEST_PROGRAMS": str(programs)}).returncode


if __name__ == "__main__":
    sys.exit(main())

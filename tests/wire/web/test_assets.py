"""The vendored libraries are what their authors published, and carry their licences."""

from __future__ import annotations

import gzip
import hashlib
from importlib.resources import files

import pytest

from penstock.web import assets


@pytest.mark.parametrize("name", assets.VENDORED)
def test_a_vendored_file_has_its_checksum(name: str) -> None:
    assert hashlib.sha256(assets.content(name)).hexdigest() == assets.VENDORED[name][1]


def test_every_vendored_file_is_listed_and_licensed() -> None:
    folder = files("penstock.web").joinpath("static", "vendor")
    names = {entry.name for entry in folder.iterdir()}

    assert {f"vendor/{name}" for name in names if name.endswith((".js", ".css"))} == set(assets.VENDORED)
    assert {"LICENSE.htmx.txt", "LICENSE.uplot.txt"} <= names


def test_scripts_stay_within_their_budget() -> None:
    scripts = [assets.content(name) for name, kind in assets.TYPES.items() if kind == "text/javascript"]

    assert sum(map(len, scripts)) <= 150_000
    assert sum(len(gzip.compress(script)) for script in scripts) <= 60_000

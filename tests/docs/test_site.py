"""The documentation as a site: it builds without a warning, has every page, and needs no network."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, ROOT
from tests.system.serving import environment

pytestmark = pytest.mark.slow

LOADED = {"img": "src", "script": "src", "link": "href", "iframe": "src", "source": "src"}
"""What a browser fetches by itself; links that people follow are not among it."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(folder)]
    # A proxy that does not exist: whatever asks the network fails.
    nowhere = {"NO_MKDOCS_2_WARNING": "1", "http_proxy": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9"}
    done = subprocess.run(command, cwd=ROOT, env=environment(nowhere), capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


class Loads(HTMLParser):
    """Collects the addresses of what a page loads."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag == "link" and values.get("rel") in {"canonical", "next", "prev"}:
            return
        if tag in LOADED and (address := values.get(LOADED[tag])):
            self.found.append(address)


def test_every_page_of_docs_is_on_the_site_and_in_its_search(site: Path) -> None:
    pages = {path.relative_to(DOCS).with_suffix(".html").as_posix() for path in DOCS.rglob("*.md")}
    index = json.loads((site / "search" / "search_index.json").read_text())

    assert {name for name in pages if not (site / name).exists()} == set()
    assert pages <= {entry["location"].partition("#")[0] or "index.html" for entry in index["docs"]}


def test_pages_load_nothing_from_elsewhere(site: Path) -> None:
    for path in site.rglob("*.html"):
        parser = Loads()
        parser.feed(path.read_text(encoding="utf-8"))
        missing = [found for found in parser.found if not found.startswith("data:") and not _is_file(site, path, found)]
        assert missing == [], path
    for path in site.rglob("*.css"):
        assert re.findall(r"url\(\s*['\"]?(?:https?:)?//", path.read_text(encoding="utf-8")) == [], path


def _is_file(site: Path, page: Path, address: str) -> bool:
    name = address.partition("#")[0].partition("?")[0]
    return (site / name.lstrip("/") if name.startswith("/") else page.parent / name).is_file()


def test_the_python_reference_has_every_public_name(site: Path) -> None:
    import penstock

    text = (site / "python-api.html").read_text(encoding="utf-8")
    found = set(re.findall(r'<h2 id="(\w+)"', text))

    assert found == {name.lower() for name in penstock.__all__ if not name.startswith("__")}

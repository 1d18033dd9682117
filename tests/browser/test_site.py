"""The documentation in a real Chromium, opened as files: pages, diagrams and search work without a server."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.browser.chromium import chromium
from tests.docs.test_site import site  # noqa: F401  # a fixture

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("chromium") is None, reason="chromium is not installed: make tools"),
]

SEARCH = """
const field = document.querySelector('[data-md-component="search-query"]');
field.focus();
field.value = 'redrive';
field.dispatchEvent(new Event('keyup', {bubbles: true}));
field.dispatchEvent(new Event('input', {bubbles: true}));
"""
FOUND = "document.querySelectorAll('.md-search-result__item').length > 0"
DRAWN = "[...document.images].every(image => image.complete && image.naturalWidth > 0)"


async def test_pages_and_search_work_from_files(site: Path) -> None:  # noqa: F811
    async with chromium() as browser:
        tab = await browser.tab()
        await tab.screen(1280, 800)

        await tab.go((site / "concepts.html").as_uri())
        await tab.until(DRAWN)
        await tab.run(SEARCH)
        await tab.until(FOUND)

        assert tab.complaints == []

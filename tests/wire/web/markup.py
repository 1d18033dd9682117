"""What a browser makes of a page: its elements and their attributes."""

from __future__ import annotations

from html.parser import HTMLParser

INERT = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>',
    "' onmouseover='alert(1)",
    "{{ 7 * 7 }}{% for x in y %}",
    "</pre></details></textarea><script>alert(1)</script>",
    "<!--",
    "javascript:alert(1)",
    "\u202e\u2066<b>",
]
"""Texts that must be shown as they are, wherever they are entered."""


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))


def dangers(text: str) -> list[str]:
    """Elements and attributes of a page that would run something, or that none of our templates has."""
    reader = _Reader()
    reader.feed(text)
    found = []
    for tag, attributes in reader.elements:
        source = attributes.get("src") or ""
        if (tag == "script" and not source.startswith("/static/")) or tag in ("b", "iframe", "style", "object"):
            found.append(tag)
        if tag == "img" and not source.startswith("/static/"):
            found.append(f"img {source}")
        for name, value in attributes.items():
            link = (value or "").strip().lower()
            if name.startswith("on") or name == "style" or (name in ("href", "src", "action") and ":" in link):
                found.append(f"{tag} {name}={value}")
    return found

"""The files that pages load: our own, and the vendored libraries with their checksums."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files

VENDORED = {
    "vendor/htmx.js": ("htmx.org 4.0.1", "a0abb04f2f45a1f89d1d4844023245537e5e6014c87b144553e0607b4cc32130"),
    "vendor/htmx-sse.js": ("htmx.org 4.0.1", "18ef2761356ec1fe0bb6d92612315b37517a7c1e9856b661c5ae81fef239d103"),
    "vendor/uplot.js": ("uplot 1.6.32", "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f"),
    "vendor/uplot.css": ("uplot 1.6.32", "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04"),
}
"""Package and version on npm, and the SHA-256 of the file, which is the minified one of that package, unchanged."""

TYPES = {
    "dashboard.js": "text/javascript",
    "penstock.css": "text/css",
    "penstock.svg": "image/svg+xml",
    **{name: "text/css" if name.endswith(".css") else "text/javascript" for name in VENDORED},
}


@cache
def content(name: str) -> bytes:
    return files("penstock.web").joinpath("static", *name.split("/")).read_bytes()


@cache
def address(name: str) -> str:
    """Where a page loads a file from. The address changes with the content, so browsers may keep the file."""
    return f"/static/{name}?v={hashlib.sha256(content(name)).hexdigest()[:12]}"

"""What a server says when it is ready."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from penstock.server.versions import version

_IMPORTED = time.monotonic()


@dataclass(frozen=True)
class Ready:
    """A server that serves."""

    url: str
    store: str
    auth: str
    workers: int = 1
    public: str | None = None
    """The URL others reach it at, when that is not its own."""
    made: Mapping[str, str] = field(default_factory=dict, repr=False)
    """An administrator's token made for this first start, and in sigv4 mode an access key, as variables."""

    @property
    def header(self) -> str:
        if self.auth == "open":
            return "Authorization: Bearer anything"
        return "Authorization: Bearer $PENSTOCK_TOKEN"


def text(ready: Ready) -> str:
    url = ready.url
    lines = [
        f"Penstock {version()} is ready at {url} after {process_age():.2f} s",
        "",
        f"  store      {ready.store}" + (f", {ready.workers} workers" if ready.workers > 1 else ""),
        f"  dashboard  {url}/",
        f"  docs       {url}/docs",
        f"  auth       {_about_auth(ready)}",
        *([f"  public     {ready.public}"] if ready.public else []),
        "",
        "  Try it, with the administrator's first token, which is shown this once:" if ready.made else "  Try it:",
        "",
        *(f"export {name}={value}" for name, value in ready.made.items()),
        *curl_lines(url, ready.header),
    ]
    return "\n".join(lines) + "\n"


def curl_lines(url: str, header: str) -> list[str]:
    """Create a queue, send, receive, delete by id. Double quotes, so that a variable in the header works."""
    head = f'-H "{header}"'
    messages = f"{url}/v1/queues/hello/messages"
    pick = """tee /dev/stderr | grep -oE '"id": ?"?[0-9]+' | tr -dc 0-9"""
    return [
        f"""curl -sS {head} {url}/v1/queues -d '{{"name": "hello"}}'""",
        f"""curl -sS {head} {messages} -d '{{"message": "Hello, world"}}'""",
        f"""id=$(curl -sS {head} "{messages}?wait=5" | {pick})""",
        f"""curl -sS {head} -X DELETE {messages}/$id""",
    ]


def _about_auth(ready: Ready) -> str:
    if ready.auth == "open":
        return "open: any Authorization header passes"
    if ready.auth == "sigv4":
        return "sigv4: make access keys with penstock token create --aws, tokens without --aws"
    return "token: make one with penstock token create"


def process_age() -> float:
    """Seconds since this process began, interpreter and imports included where the system can tell."""
    try:
        ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
        return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, AttributeError):
        return time.monotonic() - _IMPORTED

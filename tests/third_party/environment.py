"""What every client here is told, and how to wait for what it brings about."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from tests.system.serving import ROOT, environment

REGION = "us-east-1"
KEY, SECRET = "AKIAPENSTOCKTEST0000", "not-checked-while-the-door-is-open"
CACHE = ROOT / ".venv" / "clients"
"""What clients of other languages need, installed once."""

Found = TypeVar("Found")


def aws(region: str) -> dict[str, str]:
    """Environment of an AWS client that must ask nobody else about itself."""
    return {
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_DEFAULT_REGION": region,
        "AWS_REGION": region,
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "AWS_EC2_METADATA_DISABLED": "true",
        "NO_PROXY": "127.0.0.1",
        "no_proxy": "127.0.0.1",
    }


def client_environment(url: str, more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Of a client in a process of its own."""
    kept = {key: value for key, value in environment().items() if not key.startswith("AWS_")}
    return {**kept, **aws(REGION), "AWS_ENDPOINT_URL": url, **(more or {})}


def eventually(ask: Callable[[], Found | None], timeout: float = 20) -> Found:
    """The first answer that is something; each question is short or waits by itself."""
    give_up = time.monotonic() + timeout
    while not (answer := ask()):
        assert time.monotonic() < give_up, "it never came"
        time.sleep(0.02)
    return answer


@contextmanager
def only_one(path: Path) -> Iterator[None]:
    """Keep other test processes out meanwhile."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield

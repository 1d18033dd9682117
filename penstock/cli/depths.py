"""The depth of a stream, shown again and again or waited for, by `penstock stream` and `pgque`."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from penstock.cli.options import seconds
from penstock.cli.output import Output, counted
from penstock.errors import PenstockError

BARS = "▁▂▃▄▅▆▇█"
SHOWN = 60
POLL_S = 0.2


def watch(out: Output, read: Callable[[], Mapping[str, Any]], every: str, count: int) -> None:
    """Print what is read, with the last depths as a sparkline; `count` 0 means no end."""
    pause, seen = seconds(every), list[int]()
    while True:
        found = read()
        seen.append(int(found["depth"]))
        if out.as_json:
            print(json.dumps(out.picked(found)), flush=True)
        else:
            print(f"{seen[-1]:>10}  {sparkline(seen[-SHOWN:])}", flush=True)
        if count and len(seen) >= count:
            return
        time.sleep(pause)


def sparkline(values: Sequence[int]) -> str:
    most = max(values) or 1
    return "".join(BARS[value * (len(BARS) - 1) // most] for value in values)


def wait_until_empty(what: str, read: Callable[[], int], timeout: str) -> None:
    end = time.monotonic() + seconds(timeout)
    while left := read():
        if time.monotonic() >= end:
            raise PenstockError(f"{what} still has {counted(left, 'event')} after {timeout}")
        time.sleep(POLL_S)

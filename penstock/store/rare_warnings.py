"""Warnings that a busy queue would repeat with every request: each is logged once a minute at most."""

from __future__ import annotations

import logging
from time import monotonic

log = logging.getLogger(__name__)

EVERY_S = 60.0
MOST = 1000
"""Texts that are remembered."""

_quiet_until: dict[str, float] = {}


def warn(text: str) -> None:
    now = monotonic()
    if _quiet_until.get(text, 0.0) > now:
        return
    if len(_quiet_until) >= MOST:
        _quiet_until.clear()
    _quiet_until[text] = now + EVERY_S
    log.warning(text)

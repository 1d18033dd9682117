"""How many random examples a test draws: an eighth of its number in `make test`, all of it in `make test-slow`."""

from __future__ import annotations

from hypothesis import settings

ALL = 100
QUICK = "quick"
THOROUGH = "thorough"

settings.register_profile(THOROUGH, max_examples=ALL)
settings.register_profile(QUICK, max_examples=ALL // 8)


def examples(most: int) -> int:
    profile = settings.default
    assert profile is not None
    return most * profile.max_examples // ALL

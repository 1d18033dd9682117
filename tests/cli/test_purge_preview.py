"""What `penstock stream purge --older-than … --dry-run` counts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from penstock.cli.commands.streams import _dead_before
from penstock.cli.remote import Server

HOUR = 3600


class Listing:
    """A server with dead letters of these ages in hours. It lists the newest, as many as are asked for."""

    def __init__(self, *ages: float) -> None:
        now = datetime.now(UTC)
        self._died = [(now - timedelta(hours=age)).isoformat() for age in sorted(ages)]

    def get(self, path: str, limit: int = 0) -> Any:
        if path.endswith("/dead-letters"):
            return [{"died_at": died} for died in self._died[:limit]]
        return {"dead_letters": len(self._died)}


def counted(listing: Listing, hours: int) -> int:
    return _dead_before(cast(Server, listing), "orders", hours * HOUR)


def test_only_older_dead_letters_are_counted() -> None:
    listing = Listing(0.5, 1.5, 2.5)

    assert [counted(listing, hours) for hours in (0, 1, 2, 3)] == [3, 2, 1, 0]


def test_the_count_is_exact_beyond_a_page_of_the_listing() -> None:
    assert counted(Listing(0.5, *[2.5] * 1500), 1) == 1500


def test_a_count_that_is_an_upper_bound_is_called_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert counted(Listing(*[0.5] * 1200), 1) == 200
    assert "upper bound" in capsys.readouterr().err

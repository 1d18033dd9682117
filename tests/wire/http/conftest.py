"""The HTTP layer by its bytes: what it lets through, what it refuses, in which order it answers."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.wire.conftest import Live
from tests.wire.raw import Raw, connected


@pytest.fixture
async def raw(server: Live) -> AsyncIterator[Raw]:
    async with connected(server.port) as raw:
        yield raw

"""Sessions that meet: who waits, who passes, and what is left when both are done.

Every session gives up on a lock after a few seconds, so that a wait nobody planned is a failure, not a hang.
"""

from __future__ import annotations

import pytest

from tests.store.conftest import MakeQueue


@pytest.fixture
async def queue(make_queue: MakeQueue) -> str:
    return await make_queue("work")


@pytest.fixture
async def fifo(make_queue: MakeQueue) -> str:
    return await make_queue("work.fifo")

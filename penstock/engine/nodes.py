"""Nodes: which server processes run on this database."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

from penstock.clock import Clock
from penstock.model.nodes import Node
from penstock.store import Store

GONE_S = 60
"""A node that was not seen for so long has ended without saying so."""
KEPT = timedelta(days=1)


class Nodes:
    def __init__(self, store: Store, clock: Clock, address: str) -> None:
        self._store = store
        self._clock = clock
        now = clock.now()
        self._own = Node(
            name=uuid4().hex[:12],
            host=socket.gethostname(),
            process=os.getpid(),
            version="",
            address=address,
            started_at=now,
            seen_at=now,
        )

    async def seen(self, version: str) -> None:
        """This process runs, with this version of Penstock."""
        now = self._clock.now()
        self._own = replace(self._own, version=version, seen_at=now)
        await self._store.nodes.seen(self._own, now - KEPT)

    async def stopped(self) -> None:
        await self._store.nodes.stopped(self._own.name)

    async def list(self) -> Sequence[tuple[Node, bool]]:
        """Every node, and whether it still runs."""
        latest = self._clock.now() - timedelta(seconds=GONE_S)
        return [(node, node.seen_at >= latest) for node in await self._store.nodes.list()]

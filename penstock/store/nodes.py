"""Which server processes run."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from penstock.model.nodes import Node


class NodeStore(Protocol):
    async def seen(self, node: Node, forget_before: datetime) -> None:
        """This process runs. Others that were not seen since `forget_before` are forgotten."""

    async def list(self) -> Sequence[Node]:
        """By name."""

    async def stopped(self, name: str) -> None:
        """A process ends as it should."""

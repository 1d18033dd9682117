"""What a store knows of insights: the numbers that Spark writes down beside it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NoReturn, Protocol

from penstock.errors import Unsupported
from penstock.model.rollups import Place, Rollup, RollupError, RollupKind, Step
from penstock.model.tenants import TenantId


class RollupStore(Protocol):
    """None as a kind or as names means all of them. Times are of the beginnings: from `since` on, before `until`."""

    async def list_rollups(
        self,
        tenant: TenantId,
        step: Step,
        *,
        kind: RollupKind | None,
        names: Sequence[str] | None,
        since: datetime,
        until: datetime,
        after: Place | None,
        limit: int,
    ) -> Sequence[Rollup]:
        """The newest first, then by kind and name; those that follow a place, if one is given."""

    async def rollup_names(self, tenant: TenantId, since: datetime, until: datetime) -> Sequence[str]:
        """All that have a rollup or an error."""

    async def top_errors(
        self,
        tenant: TenantId,
        *,
        kind: RollupKind | None,
        names: Sequence[str] | None,
        since: datetime,
        until: datetime,
        limit: int,
    ) -> Sequence[RollupError]:
        """The most frequent first."""


async def _refuse(*_: object, **__: object) -> NoReturn:
    raise Unsupported("insights need PostgreSQL: this store has none")


class NoRollups:
    list_rollups = rollup_names = top_errors = _refuse

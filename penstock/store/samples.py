"""Where samples for charts are kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol

from penstock.model.samples import Outcome, OutcomePoint, Sample, SampledPoint, SampleKind, SampleStep
from penstock.model.tenants import TenantId


class SampleStore(Protocol):
    async def latest(self, step: SampleStep) -> datetime | None:
        """The last moment that was sampled, by any node."""

    async def add(self, step: SampleStep, starts_at: datetime, samples: Sequence[Sample]) -> None:
        """A sample that is there already stays."""

    async def series(
        self, tenant: TenantId, kind: SampleKind, name: str, step: SampleStep, since: datetime
    ) -> Sequence[SampledPoint]:
        """In order of time: the last one before `since`, if there is one, and all from then on."""

    async def waiting(self, tenant: TenantId, kind: SampleKind, at: datetime) -> Mapping[str, int]:
        """What waited at the end of the minute `at`, by name."""

    async def add_outcomes(self, step: SampleStep, starts_at: datetime, outcomes: Sequence[Outcome]) -> None:
        """Add to what other nodes counted."""

    async def outcomes(self, tenant: TenantId, step: SampleStep, since: datetime) -> Sequence[OutcomePoint]:
        """In order of time."""

    async def sweep(self, step: SampleStep, before: datetime, limit: int) -> int:
        """Remove at most `limit` samples and outcomes that are older; the number removed."""

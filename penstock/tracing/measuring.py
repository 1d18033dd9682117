"""Histograms of consumers, for programs that measure with OpenTelemetry. In any other program they cost a look-up."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

NAME = "penstock"
LATENCY, BATCH = "pgque.processing_latency_seconds", "pgque.batch.size"
_TEXTS = {
    LATENCY: ("s", "Time from the send of an event until it was handled"),
    BATCH: ("{event}", "Events that a consumer received at once"),
}


def measure(histogram: str, value: float, attributes: Mapping[str, str]) -> None:
    api = sys.modules.get("opentelemetry.metrics")
    if api is not None:
        _histograms(api.get_meter_provider())[histogram].record(value, attributes)


@lru_cache(maxsize=4)
def _histograms(provider: Any) -> dict[str, Any]:
    meter = provider.get_meter(NAME)
    return {name: meter.create_histogram(name, unit, text) for name, (unit, text) in _TEXTS.items()}

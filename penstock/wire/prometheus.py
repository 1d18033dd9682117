"""The numbers of `engine.metrics` in Prometheus's text format, of one process or of several together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from operator import add
from typing import TYPE_CHECKING

import msgspec

from penstock.auth import Principal
from penstock.engine.metrics import Counter, Gauge, Histogram, Labels, Metrics

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

Rows = dict[Labels, list[float]]
"""Per label set: the value, or the buckets and the sum of a histogram."""
Source = list[tuple[Labels, list[float]]]
Combine = Callable[[float, float], float]

CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"

_NAMES = frozenset({"tenant", "queue", "stream", "consumer", "endpoint", "pipeline"})
"""Labels that tell what somebody called something."""


@dataclass(frozen=True)
class Viewer:
    """Sees the names of one tenant, and of its queues and streams those within reach of a token."""

    tenant: str
    principal: Principal

    def sees(self, metric: Counter | Gauge | Histogram, labels: Labels) -> bool:
        for label, value in zip(metric.labels, labels, strict=True):
            match label:
                case "tenant" if value != self.tenant:
                    return False
                case "queue" | "stream" if not self.principal.reaches(value):
                    return False
                case "endpoint" | "pipeline" if self.principal.queues != "*":
                    return False
        return True


def note_pool(metrics: Metrics, numbers: Mapping[str, int]) -> None:
    metrics.pool_size.set((), numbers["size"])
    metrics.pool_idle.set((), numbers["idle"])
    metrics.pool_active.set((), numbers["active"])
    metrics.pool_timeouts.values[()] = numbers["acquire_timeouts"]


def dump(metrics: Metrics) -> bytes:
    """This process's numbers, for a neighbour to render with its own."""
    return msgspec.json.encode({metric.name: list(_rows(metric).items()) for metric in metrics})


_snapshot = msgspec.json.Decoder(dict[str, Source])


def copy(metrics: Metrics) -> dict[str, Rows]:
    """The values of this moment, which a thread can render while requests change them."""
    return {metric.name: {labels: list(row) for labels, row in _rows(metric).items()} for metric in metrics}


def render(
    metrics: Metrics,
    peers: Iterable[bytes] = (),
    *,
    names: bool = True,
    viewer: Viewer | None = None,
    tenants: Mapping[str, str] | None = None,
    values: Mapping[str, Rows] | None = None,
) -> bytes:
    """With or without the labels that name things; without them the sums remain, or the highest.

    A `viewer` sees the names in metrics that are told by tenant, and there only what is its own. `tenants` has the
    names of tenants by their ids.
    """
    # Half the price of importing the server, and only a scrape needs it.
    from prometheus_client import generate_latest

    snapshots = [_snapshot.decode(peer) for peer in peers]
    families = []
    for metric in metrics:
        own = values[metric.name] if values is not None else _rows(metric)
        sources = [list(own.items()), *(snapshot.get(metric.name, []) for snapshot in snapshots)]
        if tenants and "tenant" in metric.labels and (isinstance(metric, Histogram) or not metric.shared):
            sources = [_with_names(source, tenants) for source in sources]
        named = names
        if not names and viewer is not None and "tenant" in metric.labels:
            named = True
            sources = [[row for row in source if viewer.sees(metric, row[0])] for source in sources]
        shown = [place for place, label in enumerate(metric.labels) if named or label not in _NAMES]
        rows = _merged(metric, sources, shown)
        families.append(_family(metric, tuple(metric.labels[place] for place in shown), rows))
    return generate_latest(_Collected(families))


def _with_names(source: Source, tenants: Mapping[str, str]) -> Source:
    """What a process counts has the id of the tenant as its first label."""
    return [((tenants.get(labels[0], labels[0]), *labels[1:]), values) for labels, values in source]


class _Collected:
    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        return iter(self._families)


def _rows(metric: Counter | Gauge | Histogram) -> Rows:
    if isinstance(metric, Histogram):
        return metric.values
    return {labels: [value] for labels, value in metric.values.items()}


def _merged(metric: Counter | Gauge | Histogram, sources: list[Source], shown: list[int]) -> Rows:
    """Of all processes together, with the labels at these places."""
    shared = isinstance(metric, Counter) and metric.shared
    highest = isinstance(metric, Gauge) and metric.highest
    total: Rows = {}
    for source in sources:
        if len(shown) < len(metric.labels):
            source = list(_folded(source, shown, max if highest else add).items())
        for labels, values in source:
            _put(total, labels, values, max if shared or highest else add)
    return total


def _folded(source: Source, shown: list[int], combine: Combine) -> Rows:
    folded: Rows = {}
    for labels, values in source:
        _put(folded, tuple(labels[place] for place in shown), values, combine)
    return folded


def _put(rows: Rows, labels: Labels, values: list[float], combine: Combine) -> None:
    have = rows.get(labels)
    rows[labels] = list(map(combine, have, values)) if have is not None else list(values)


def _family(metric: Counter | Gauge | Histogram, names: Labels, rows: Rows) -> Metric:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

    if isinstance(metric, Histogram):
        histogram = HistogramMetricFamily(metric.name, metric.text, labels=names)
        for labels, row in (rows or _zero(metric)).items():
            histogram.add_metric(labels, _buckets(metric, row), row[-1])
        return histogram
    kind = GaugeMetricFamily if isinstance(metric, Gauge) else CounterMetricFamily
    family = kind(metric.name, metric.text, labels=names)
    for labels, row in (rows or _zero(metric)).items():
        family.add_metric(labels, row[0])
    return family


def _zero(metric: Counter | Gauge | Histogram) -> Rows:
    """What has no labels is shown from the start, at nought."""
    if metric.labels:
        return {}
    return {(): [0.0] * (len(metric.buckets) + 2 if isinstance(metric, Histogram) else 1)}


def _buckets(metric: Histogram, row: list[float]) -> list[tuple[str, float]]:
    buckets, total = [], 0.0
    for bound, count in zip((*map(str, metric.buckets), "+Inf"), row, strict=False):
        total += count
        buckets.append((bound, total))
    return buckets

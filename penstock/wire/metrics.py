"""The numbers of `engine.insights` in Prometheus's text format, of one process or of several together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import add
from typing import TYPE_CHECKING

import msgspec

from penstock.engine.insights import Counter, Gauge, Histogram, Insights, Labels

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

Rows = dict[Labels, list[float]]
"""Per label set: the value, or the buckets and the sum of a histogram."""
Source = list[tuple[Labels, list[float]]]
Combine = Callable[[float, float], float]

_NAMES = frozenset({"tenant", "queue", "stream", "consumer"})
"""Labels that tell what somebody called something."""


def note_pool(insights: Insights, numbers: Mapping[str, int]) -> None:
    insights.pool_size.set((), numbers["size"])
    insights.pool_idle.set((), numbers["idle"])
    insights.pool_active.set((), numbers["active"])
    insights.pool_timeouts.values[()] = numbers["acquire_timeouts"]


def dump(insights: Insights) -> bytes:
    """This process's numbers, for a neighbour to render with its own."""
    return msgspec.json.encode({metric.name: list(_rows(metric).items()) for metric in insights})


_snapshot = msgspec.json.Decoder(dict[str, Source])


def render(insights: Insights, peers: Iterable[bytes] = (), *, names: bool = True) -> bytes:
    """With or without the labels that name things; without them the sums remain, or the highest."""
    # Half the price of importing the server, and only a scrape needs it.
    from prometheus_client import generate_latest

    snapshots = [_snapshot.decode(peer) for peer in peers]
    families = []
    for metric in insights:
        shown = [place for place, label in enumerate(metric.labels) if names or label not in _NAMES]
        rows = _merged(metric, [snapshot.get(metric.name, []) for snapshot in snapshots], shown)
        families.append(_family(metric, tuple(metric.labels[place] for place in shown), rows))
    return generate_latest(_Collected(families))


class _Collected:
    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        return iter(self._families)


def _rows(metric: Counter | Gauge | Histogram) -> Rows:
    if isinstance(metric, Histogram):
        return metric.values
    return {labels: [value] for labels, value in metric.values.items()}


def _merged(metric: Counter | Gauge | Histogram, others: list[Source], shown: list[int]) -> Rows:
    """Of all processes together, with the labels at these places."""
    shared = isinstance(metric, Gauge) and metric.shared
    highest = isinstance(metric, Gauge) and metric.highest
    total: Rows = {}
    for source in (list(_rows(metric).items()), *others):
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

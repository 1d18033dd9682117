"""The numbers of `engine.insights` in Prometheus's text format, of one process or of several together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from operator import add
from typing import TYPE_CHECKING

import msgspec

from penstock.engine.insights import Counter, Gauge, Histogram, Insights, Labels

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

Rows = dict[Labels, list[float]]
"""Per label set: the value, or the buckets and the sum of a histogram."""

_SAME_EVERYWHERE = frozenset({"queue_depth", "queue_in_flight"})
"""Every process reads these from the one database: they are not to be added up."""


def note_pool(insights: Insights, numbers: Mapping[str, int]) -> None:
    insights.pool_size.set((), numbers["size"])
    insights.pool_idle.set((), numbers["idle"])
    insights.pool_active.set((), numbers["active"])
    insights.pool_timeouts.values[()] = numbers["acquire_timeouts"]


def dump(insights: Insights) -> bytes:
    """This process's numbers, for a neighbour to render with its own."""
    return msgspec.json.encode({metric.name: list(_rows(metric).items()) for metric in insights})


_snapshot = msgspec.json.Decoder(dict[str, list[tuple[Labels, list[float]]]])


def render(insights: Insights, peers: Iterable[bytes] = (), *, per_queue: bool = True) -> bytes:
    # Half the price of importing the server, and only a scrape needs it.
    from prometheus_client import generate_latest

    snapshots = [_snapshot.decode(peer) for peer in peers]
    families = [
        _family(metric, _merged(metric, [snapshot.get(metric.name, []) for snapshot in snapshots], per_queue))
        for metric in insights
    ]
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


def _merged(
    metric: Counter | Gauge | Histogram, others: list[list[tuple[Labels, list[float]]]], per_queue: bool
) -> Rows:
    hide = not per_queue and "queue" in metric.labels
    combine = max if metric.name in _SAME_EVERYWHERE else add
    total: Rows = {}
    for source in (list(_rows(metric).items()), *others):
        for labels, values in _summed(source) if hide else source:
            have = total.get(labels)
            total[labels] = list(map(combine, have, values)) if have is not None else list(values)
    return total


def _summed(source: list[tuple[Labels, list[float]]]) -> list[tuple[Labels, list[float]]]:
    return [((), [sum(column) for column in zip(*(values for _, values in source), strict=True)])] if source else []


def _family(metric: Counter | Gauge | Histogram, rows: Rows) -> Metric:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

    names = metric.labels if not rows or any(rows) else ()
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

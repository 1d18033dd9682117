"""Writes the alert rules for Prometheus and the dashboard for Grafana: `python deploy/generate.py`.

Both are made from the tables below; tests/deploy checks that every metric exists and that the files are up to date.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.engine.insights.status import STUCK_S
from penstock.engine.metrics import Counter, Gauge, Histogram, Metrics

FOLDER = Path(__file__).parent
RULES = FOLDER / "prometheus" / "rules.yaml"
DASHBOARD = FOLDER / "grafana" / "penstock.json"


@dataclass(frozen=True)
class Alert:
    """Fires when the metric, as the highest of all nodes for each value of the labels, exceeds a number."""

    name: str
    metric: str
    labels: tuple[str, ...]
    above: float
    lasts: str
    summary: str
    severity: str = "warning"
    if_any: str | None = None
    """Another metric, which must exceed 0 as well."""
    only: tuple[str, str] | None = None
    """A label that is not among the labels, and the one value that counts."""

    @property
    def expression(self) -> str:
        by = f" by ({', '.join(self.labels)})" if self.labels else ""
        also = f" and max{by} ({self.if_any}) > 0" if self.if_any is not None else ""
        only = f'{{{self.only[0]}="{self.only[1]}"}}' if self.only is not None else ""
        return f"max{by} ({self.metric}{only}) > {self.above:g}{also}"


QUEUE = ("tenant", "queue")
ALERTS = (
    Alert(
        "PenstockQueueStuck", "queue_oldest_message_seconds", QUEUE, STUCK_S, "5m",
        "The oldest message of queue {{ $labels.queue }} has waited {{ $value | humanizeDuration }}",
    ),
    Alert(
        "PenstockJobsWaiting", "job_oldest_ready_seconds", QUEUE, STUCK_S, "5m",
        "A job of queue {{ $labels.queue }} has waited {{ $value | humanizeDuration }} for a worker",
    ),
    Alert(
        "PenstockJobsDead", "job_depth", QUEUE, 0, "5m",
        "Queue {{ $labels.queue }} has {{ $value }} dead jobs: retry or purge them",
        only=("status", "dead"),
    ),
    Alert(
        "PenstockConsumerBehind", "stream_consumer_lag_seconds", ("tenant", "stream", "consumer"), STUCK_S, "5m",
        "Consumer {{ $labels.consumer }} of stream {{ $labels.stream }} is {{ $value | humanizeDuration }} behind",
        if_any="stream_consumer_pending_events",
    ),
    Alert(
        "PenstockTickerStopped", "stream_last_tick_age_seconds", ("tenant", "stream"), STUCK_S, "5m",
        "Stream {{ $labels.stream }} had no tick for {{ $value | humanizeDuration }}; is it paused?",
    ),
    Alert(
        "PenstockEndpointFailing", "queue_delivery_failing", ("tenant", "endpoint"), 0, "5m",
        "{{ $value }} deliveries to {{ $labels.endpoint }} keep failing",
    ),
    Alert(
        "PenstockPipelineFailed", "pipeline_failed", ("tenant", "pipeline"), 0, "5m",
        "The last run of pipeline {{ $labels.pipeline }} of tenant {{ $labels.tenant }} failed or is lost",
    ),
    Alert(
        "PenstockPipelineBehind", "pipeline_lag_seconds", ("tenant", "pipeline"), STUCK_S, "5m",
        "Pipeline {{ $labels.pipeline }} of tenant {{ $labels.tenant }} is {{ $value | humanizeDuration }} behind",
    ),
    Alert(
        "PenstockSchedulesLate", "schedule_lag_seconds", (), STUCK_S, "5m",
        "A schedule should have fired {{ $value | humanizeDuration }} ago", "critical",
    ),
)  # fmt: skip


def rules() -> str:
    lines = ["# Made by deploy/generate.py.", "groups:", "  - name: penstock", "    rules:"]
    for alert in ALERTS:
        lines += [
            f"      - alert: {alert.name}",
            f"        expr: {json.dumps(alert.expression)}",
            f"        for: {alert.lasts}",
            f"        labels: {{severity: {alert.severity}}}",
            f"        annotations: {{summary: {json.dumps(alert.summary)}}}",
        ]
    lines += [
        "      - alert: PenstockDown",
        '        expr: "up{job=\\"penstock\\"} == 0"',
        "        for: 1m",
        "        labels: {severity: critical}",
        '        annotations: {summary: "{{ $labels.instance }} does not answer"}',
    ]
    return "\n".join(lines) + "\n"


def dashboard() -> str:
    panels = [_panel(place, metric) for place, metric in enumerate(Metrics())]
    shown: dict[str, Any] = {
        "title": "Penstock",
        "uid": "penstock",
        "schemaVersion": 39,
        "time": {"from": "now-1h", "to": "now"},
        "refresh": "30s",
        "templating": {"list": [{"name": "datasource", "type": "datasource", "query": "prometheus"}]},
        "panels": panels,
    }
    return json.dumps(shown, indent=1) + "\n"


def _panel(place: int, metric: Counter | Gauge | Histogram) -> dict[str, Any]:
    seconds = metric.name.endswith("_seconds")
    return {
        "id": place + 1,
        "type": "timeseries",
        "title": metric.text,
        "description": metric.name,
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "gridPos": {"h": 8, "w": 12, "x": 12 * (place % 2), "y": 8 * (place // 2)},
        "fieldConfig": {"defaults": {"unit": "s" if seconds else "short"}, "overrides": []},
        "targets": [{"refId": "A", "expr": query(metric), "legendFormat": _legend(metric)}],
    }


def query(metric: Counter | Gauge | Histogram) -> str:
    """Gauges of the database are the same on every node; all others add up."""
    labels = ", ".join(metric.labels)
    if isinstance(metric, Histogram):
        buckets = ", ".join(("le", *metric.labels))
        return f"histogram_quantile(0.95, sum by ({buckets}) (rate({metric.name}_bucket[5m])))"
    if isinstance(metric, Gauge):
        return f"{'max' if metric.shared else 'sum'} by ({labels}) ({metric.name})"
    return f"{'max' if metric.shared else 'sum'} by ({labels}) (rate({metric.name}_total[5m]))"


def _legend(metric: Counter | Gauge | Histogram) -> str:
    return " ".join(f"{{{{{label}}}}}" for label in metric.labels) or metric.name


if __name__ == "__main__":
    RULES.write_text(rules(), encoding="utf-8")
    DASHBOARD.write_text(dashboard(), encoding="utf-8")

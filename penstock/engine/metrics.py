"""The numbers of a running server: counters and histograms, kept as plain integers.

A counter on the hot path costs one dictionary update. Names and labels are those the Prometheus door shows;
rendering is its business.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

Labels = tuple[str, ...]

MAX_LABELS = 2000
"""Distinct label sets kept per metric; what comes later is counted under `other`."""

FAST = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)
HTTP = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
AGE = (0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0)
WEBHOOK = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
SIZES = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0)


class Counter:
    def __init__(self, name: str, text: str, labels: Labels = (), *, shared: bool = False) -> None:
        self.name, self.text, self.labels = name, text, labels
        self.shared = shared
        """Every process reads it from the one database: not to be added up."""
        self.values: dict[Labels, float] = {}

    def add(self, labels: Labels = (), amount: float = 1) -> None:
        values = self.values
        if labels in values:
            values[labels] += amount
        else:
            labels = _bounded(values, labels)
            values[labels] = values.get(labels, 0) + amount


class Gauge(Counter):
    def __init__(
        self, name: str, text: str, labels: Labels = (), *, shared: bool = False, highest: bool = False
    ) -> None:
        super().__init__(name, text, labels, shared=shared)
        self.highest = highest
        """Where several are told as one it is the highest of them, as of ages; else their sum."""

    def set(self, labels: Labels, value: float) -> None:
        self.values[_bounded(self.values, labels)] = value

    def clear(self) -> None:
        self.values.clear()


class Histogram:
    def __init__(self, name: str, text: str, labels: Labels, buckets: tuple[float, ...]) -> None:
        self.name, self.text, self.labels, self.buckets = name, text, labels, buckets
        self.values: dict[Labels, list[float]] = {}
        """Per label set: a count for each bucket and one for the rest, then the sum."""

    def observe(self, labels: Labels, value: float, times: int = 1) -> None:
        row = self.values.get(labels)
        if row is None:
            row = self.values.setdefault(_bounded(self.values, labels), [0.0] * (len(self.buckets) + 2))
        row[bisect_left(self.buckets, value)] += times
        row[-1] += value * times


def _bounded(values: dict[Labels, object] | dict[Labels, float] | dict[Labels, list[float]], labels: Labels) -> Labels:
    if labels in values or len(values) < MAX_LABELS:
        return labels
    return ("other",) * len(labels)


class Metrics:
    """Every metric of the server. The attribute names are for us, the first argument for the world."""

    def __init__(self) -> None:
        self.requests = Counter("http_requests", "Requests completed", ("method", "path", "status"))
        self.request_seconds = Histogram("http_request_duration_seconds", "Request latency", ("method", "path"), HTTP)
        self.requests_active = Gauge("http_connections_active", "Requests in flight")
        # What a process counts has the id of the tenant as its label; rendering knows the names.
        queue = ("tenant", "queue")
        self.sent = Counter("queue_messages_sent", "Messages enqueued", queue)
        self.received = Counter("queue_messages_received", "Messages delivered to consumers", queue)
        self.deleted = Counter("queue_messages_deleted", "Messages acknowledged", queue)
        self.redelivered = Counter("queue_messages_redelivered", "Messages delivered more than once", queue)
        self.send_seconds = Histogram("queue_message_send_duration_seconds", "Database send latency", queue, FAST)
        self.receive_seconds = Histogram(
            "queue_message_receive_duration_seconds", "Database receive latency", queue, FAST
        )
        self.delete_seconds = Histogram("queue_message_delete_duration_seconds", "Database delete latency", queue, FAST)
        self.age_seconds = Histogram("queue_message_age_at_receive_seconds", "Age at first delivery", queue, AGE)
        self.delivery_attempts = Counter("queue_delivery_attempts", "Webhook delivery attempts", ("outcome",))
        self.delivery_seconds = Histogram(
            "queue_delivery_attempt_duration_seconds", "Webhook round-trip latency", ("outcome",), WEBHOOK
        )
        self.deliveries_exhausted = Counter("queue_delivery_exhausted", "Deliveries abandoned after all retries")
        self.batch_sizes = Histogram("queue_coalescer_flush_batch_size", "Messages per shared statement", (), SIZES)
        owned = queue
        self.depth = Gauge("queue_depth", "Visible messages", owned, shared=True)
        self.in_flight = Gauge("queue_in_flight", "Messages that were received and not deleted", owned, shared=True)
        self.delayed = Gauge("queue_delayed", "Messages that cannot be received yet", owned, shared=True)
        self.oldest_seconds = Gauge(
            "queue_oldest_message_seconds", "Age of the oldest message", owned, shared=True, highest=True
        )
        self.stored = Gauge("queue_sent_messages", "Messages ever sent, also from SQL", owned, shared=True)
        self.failing_deliveries = Gauge(
            "queue_delivery_failing", "Deliveries that failed at least twice", ("tenant", "endpoint"), shared=True
        )
        self.jobs = Gauge("job_depth", "Jobs by status", ("tenant", "queue", "status"), shared=True)
        self.job_wait_seconds = Gauge(
            "job_oldest_ready_seconds", "Longest wait of a ready job", ("tenant", "queue"), shared=True, highest=True
        )
        self.schedules = Gauge("schedule_count", "Schedules by status", ("status",), shared=True)
        self.schedules_overdue = Gauge("schedule_overdue", "Active schedules that are due and not fired", shared=True)
        self.schedule_lag_seconds = Gauge(
            "schedule_lag_seconds", "How long the first of them has been due", shared=True, highest=True
        )
        self._add_streams()
        self._add_pipelines()
        self.pool_size = Gauge("db_pool_size", "Database connections")
        self.pool_idle = Gauge("db_pool_idle", "Idle database connections")
        self.pool_active = Gauge("db_pool_active", "Database connections in use")
        self.pool_timeouts = Counter("db_pool_acquire_timeouts", "Waits for a database connection that gave up")

    def _add_streams(self) -> None:
        consumer = ("tenant", "stream", "consumer")
        self.consumer_pending = Gauge(
            "stream_consumer_pending_events",
            "Events up to the last tick it has not had",
            consumer,
            shared=True,
        )
        self.consumer_lag_seconds = Gauge(
            "stream_consumer_lag_seconds", "Age of the tick a consumer has reached", consumer, shared=True, highest=True
        )
        self.tick_age_seconds = Gauge(
            "stream_last_tick_age_seconds", "Age of the last tick", ("tenant", "stream"), shared=True, highest=True
        )
        stream = ("tenant", "stream")
        self.nacked = Counter("stream_events_nacked", "Events that consumers failed to handle", stream, shared=True)
        self.ticker_seconds = Histogram("stream_ticker_duration_seconds", "Time of a round of the ticker", (), FAST)
        self.stream_batches = Histogram("stream_batch_events", "Events per batch received over HTTP", stream, SIZES)
        self.event_age_seconds = Histogram(
            "stream_event_age_at_receive_seconds", "Age of events at their first receive over HTTP", stream, AGE
        )

    def _add_pipelines(self) -> None:
        pipeline = ("tenant", "pipeline")
        self.pipelines_running = Gauge("pipeline_running", "Whether the last run is active", pipeline, shared=True)
        self.pipelines_failed = Gauge(
            "pipeline_failed", "Whether the last run failed or was lost", pipeline, shared=True
        )
        self.pipeline_rows = Gauge("pipeline_rows", "Rows of the last run", pipeline, shared=True)
        self.pipeline_lag_events = Gauge(
            "pipeline_lag_events", "Events that the active run has not read", pipeline, shared=True
        )
        self.pipeline_lag_seconds = Gauge(
            "pipeline_lag_seconds", "Age of the oldest of them", pipeline, shared=True, highest=True
        )
        self.pipeline_report_seconds = Gauge(
            "pipeline_report_age_seconds", "Age of the last report of the active run", pipeline, shared=True,
            highest=True,
        )  # fmt: skip

    def __iter__(self) -> Iterator[Counter | Gauge | Histogram]:
        return iter(vars(self).values())

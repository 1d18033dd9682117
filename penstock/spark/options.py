"""Options of `format("penstock")`, and errors about them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

TABLES = (
    "events", "messages", "archive", "dead_letters", "jobs", "attempts", "deliveries", "facts", "insights",
    "findings",
)  # fmt: skip

ALIASES = {
    "groupid": "consumer",
    "groupidprefix": "consumerprefix",
    "maxoffsetspertrigger": "maxeventspertrigger",
    "minoffsetspertrigger": "mineventspertrigger",
    "stream": "subscribe",
    "topic": "subscribe",
}
"""Names that other sources use for the same options."""


class Use(StrEnum):
    """The kinds of reads and writes that options apply to."""

    READ = "a read of events"
    STREAM = "a stream of events"
    TABLE = "a read of a table"
    ARCHIVE = "a stream of the archive"
    WRITE = "a write"


_READS = frozenset({Use.READ, Use.STREAM, Use.TABLE, Use.ARCHIVE})
_EVENTS = frozenset({Use.READ, Use.STREAM})
_STREAM = frozenset({Use.STREAM})
_ONCE = frozenset({Use.READ, Use.TABLE})
_WRITE = frozenset({Use.WRITE})
_ALL = frozenset(Use)

OPTION_USES: dict[str, frozenset[Use]] = {
    "url": _ALL,
    "table": _READS,
    "subscribe": _ALL,
    "subscribePattern": _READS,
    "tenant": _ALL,
    "consumer": _STREAM,
    "consumerPrefix": _STREAM,
    "startingOffsets": _EVENTS | {Use.ARCHIVE},
    "endingOffsets": frozenset({Use.READ}),
    "startingTimestamp": _EVENTS | {Use.TABLE},
    "endingTimestamp": _ONCE,
    "maxEventsPerTrigger": _STREAM,
    "minEventsPerTrigger": _STREAM,
    "maxTriggerDelay": _STREAM,
    "minPartitions": _READS,
    "failOnDataLoss": _EVENTS,
    "includeHeaders": _EVENTS,
    "includeRetries": _EVENTS,
    "eventTypes": _EVENTS,
    "columns": _READS,
    "valueFormat": _EVENTS,
    "ackMode": _STREAM,
    "tickOnAvailableNow": _STREAM,
    "pushDownFilters": _ONCE,
    "exactlyOnce": _WRITE,
    "txnAppId": _WRITE,
    "txnVersion": _WRITE,
    "target": _WRITE,
    "name": _WRITE,
    "deadLetters": _WRITE,
    "checkpointLocation": _ALL,
    "path": _ALL,
    "queryName": _ALL,
}
"""Which uses each option applies to. An option without effect is refused."""
KNOWN = tuple(OPTION_USES)

Offsets = str | dict[str, int]
"""`earliest`, `latest`, `committed`, or a tick for each stream."""


class OptionError(ValueError):
    """An option with a wrong name or value, or without effect."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"option {name}: {problem}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    url: str
    table: str
    streams: tuple[str, ...]
    pattern: str | None
    tenant: str
    owner: str | None
    """Tenant that owns the streams; None when streams are named as in the database, with their prefixes."""
    consumer: str | None
    consumer_prefix: str
    starting: Offsets | None
    ending: Offsets
    starting_at: datetime | None
    ending_at: datetime | None
    max_events: int | None
    min_events: int | None
    max_delay: timedelta
    min_partitions: int | None
    fail_on_data_loss: bool
    headers: bool
    retries: bool
    event_types: tuple[str, ...]
    columns: tuple[str, ...]
    binary: bool
    ack_mode: str
    tick_on_available_now: bool
    push_down: bool


def read_options(options: Mapping[str, str], *, streaming: bool | None = None) -> ReadOptions:
    """`streaming` is None when Spark asks for the schema, before it says how it will read."""
    given = _normal(options)
    table = _one_of(given, "table", TABLES, "events")
    if streaming is not None:
        _refuse_unused(given, _use(table, streaming))
    streams = _names(given.get("subscribe"))
    pattern = given.get("subscribepattern")
    if table == "events" and not streams and pattern is None:
        raise OptionError("subscribe", "name at least one stream, or give subscribePattern")
    if streams and pattern is not None:
        raise OptionError("subscribePattern", "excludes subscribe")
    return ReadOptions(
        url=_required(given, "url"),
        table=table,
        streams=streams,
        pattern=pattern,
        tenant=given.get("tenant", "default"),
        owner=given.get("tenant"),
        consumer=given.get("consumer"),
        consumer_prefix=given.get("consumerprefix", "spark"),
        starting=_offsets(given, "startingOffsets", ("earliest", "latest", "committed")),
        ending=_offsets(given, "endingOffsets", ("latest",)) or "latest",
        starting_at=_moment(given, "startingTimestamp"),
        ending_at=_moment(given, "endingTimestamp"),
        max_events=_count(given, "maxEventsPerTrigger"),
        min_events=_count(given, "minEventsPerTrigger"),
        max_delay=_duration(given, "maxTriggerDelay", timedelta(minutes=15)),
        min_partitions=_count(given, "minPartitions"),
        fail_on_data_loss=_flag(given, "failOnDataLoss", True),
        headers=_flag(given, "includeHeaders", False),
        retries=_flag(given, "includeRetries", False),
        event_types=_names(given.get("eventtypes")),
        columns=_names(given.get("columns")),
        binary=_one_of(given, "valueFormat", ("string", "binary"), "string") == "binary",
        ack_mode=_one_of(given, "ackMode", ("poll", "commit", "none"), "poll"),
        tick_on_available_now=_flag(given, "tickOnAvailableNow", True),
        push_down=_flag(given, "pushDownFilters", True),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    url: str
    target: str
    """`stream`, `queue` or `jobs`."""
    name: str | None
    """Stream or queue; None takes it from the column `name`."""
    tenant: str
    exactly_once: bool
    app_id: str | None
    version: int | None
    dead_letters: str | None = None
    """Where rows go that the target refuses: `table`, `stream:NAME` or `queue:NAME`. None fails the batch."""

    @property
    def one_stream(self) -> str | None:
        """The stream that all rows go to; None for several streams, queues and jobs, which are written by functions."""
        return self.name if self.target == "stream" else None

    @property
    def remembered(self) -> bool:
        """Whether the ledger records what was written."""
        return self.exactly_once or self.app_id is not None


def write_options(options: Mapping[str, str]) -> WriteOptions:
    given = _normal(options)
    _refuse_unused(given, Use.WRITE)
    target = _one_of(given, "target", ("stream", "queue", "jobs"), "stream")
    app_id, version = given.get("txnappid"), given.get("txnversion")
    if (app_id is None) != (version is None):
        raise OptionError("txnAppId", "give txnAppId and txnVersion together")
    return WriteOptions(
        url=_required(given, "url"),
        target=target,
        name=given.get("name") or given.get("subscribe"),
        tenant=given.get("tenant", "default"),
        exactly_once=_flag(given, "exactlyOnce", True),
        app_id=app_id,
        version=_count(given, "txnVersion", least=0),
        dead_letters=_dead_letters(given),
    )


def _dead_letters(given: Mapping[str, str]) -> str | None:
    text = given.get("deadletters")
    if text is None:
        return None
    kind, _, name = text.partition(":")
    if text != "table" and (kind not in ("stream", "queue") or not name):
        raise OptionError("deadLetters", f"{text!r} is none of table, stream:NAME and queue:NAME")
    if not _flag(given, "exactlyOnce", True):
        raise OptionError("deadLetters", "needs exactlyOnce: the driver stores rejected rows with the others")
    return text


def _normal(options: Mapping[str, str]) -> dict[str, str]:
    known = {name.lower() for name in KNOWN} | ALIASES.keys()
    given: dict[str, str] = {}
    for name, value in options.items():
        lower = name.lower()
        if lower not in known:
            raise OptionError(name, f"unknown option; known are {', '.join(KNOWN)}")
        given[ALIASES.get(lower, lower)] = value
    return given


def _use(table: str, streaming: bool) -> Use:
    if table == "events":
        return Use.STREAM if streaming else Use.READ
    if streaming and table != "archive":
        raise OptionError(
            "table", "only events and archive can be read as a stream; join other tables, or use foreachBatch"
        )
    return Use.ARCHIVE if streaming else Use.TABLE


def _refuse_unused(given: Mapping[str, str], use: Use) -> None:
    for name, uses in OPTION_USES.items():
        if name.lower() in given and use not in uses:
            raise OptionError(name, f"does nothing for {use}; it applies to {' and '.join(sorted(uses))}")


def _required(given: Mapping[str, str], name: str) -> str:
    if not given.get(name.lower()):
        raise OptionError(name, "required")
    return given[name.lower()]


def _names(text: str | None) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.strip() for name in (text or "").split(",") if name.strip()))


def _one_of(given: Mapping[str, str], name: str, choices: tuple[str, ...], default: str) -> str:
    value = given.get(name.lower(), default)
    if value not in choices:
        raise OptionError(name, f"{value!r} is not one of {', '.join(choices)}")
    return value


def _count(given: Mapping[str, str], name: str, least: int = 1) -> int | None:
    text = given.get(name.lower())
    if text is None:
        return None
    try:
        value = int(text)
    except ValueError:
        raise OptionError(name, f"{text!r} is not a whole number") from None
    if value < least:
        raise OptionError(name, f"must be at least {least}")
    return value


def _flag(given: Mapping[str, str], name: str, default: bool) -> bool:
    text = given.get(name.lower())
    if text is None:
        return default
    if text.lower() not in ("true", "false"):
        raise OptionError(name, f"{text!r} is neither true nor false")
    return text.lower() == "true"


def _moment(given: Mapping[str, str], name: str) -> datetime | None:
    """ISO 8601, or milliseconds since 1970 as the Kafka source takes them."""
    text = given.get(name.lower())
    if text is None:
        return None
    try:
        if text.lstrip("-").isdigit():
            return datetime.fromtimestamp(int(text) / 1000, UTC)
        moment = datetime.fromisoformat(text)
    except (ValueError, OverflowError, OSError):
        raise OptionError(name, f"{text!r} is neither ISO 8601 nor milliseconds since 1970") from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def _duration(given: Mapping[str, str], name: str, default: timedelta) -> timedelta:
    text = given.get(name.lower())
    if text is None:
        return default
    number = text.rstrip("msh")
    unit = text[len(number) :] or "s"
    try:
        return timedelta(seconds=float(number) * _UNITS[unit])
    except (KeyError, ValueError, OverflowError):
        raise OptionError(name, f"{text!r} is not a duration like 500ms, 30s, 15m or 1h") from None


def _offsets(given: Mapping[str, str], name: str, words: tuple[str, ...]) -> Offsets | None:
    text = given.get(name.lower())
    if text is None:
        return None
    if text in words:
        return text
    try:
        parsed: Any = json.loads(text)
        return {stream: _tick(value) for stream, value in parsed.items()}
    except (ValueError, AttributeError, TypeError, KeyError):
        raise OptionError(
            name, f'{text!r} is neither one of {", ".join(words)} nor JSON such as {{"orders": {{"tick": 5}}}}'
        ) from None


def _tick(value: Any) -> int:
    tick = value["tick"] if isinstance(value, dict) else value
    if isinstance(tick, bool) or not isinstance(tick, int):
        raise TypeError
    return tick

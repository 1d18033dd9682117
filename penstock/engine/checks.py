"""Checks of the callers' input, before anything is changed. The bounds themselves are in `limits`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from penstock import limits
from penstock.errors import Invalid, InvalidName
from penstock.model import Receive, Send

_SETTING_RANGES = {
    "visibility_timeout_s": limits.VISIBILITY_TIMEOUT_S,
    "delay_s": limits.DELAY_S,
    "retention_s": limits.RETENTION_S,
    "receive_wait_s": limits.RECEIVE_WAIT_S,
    "max_message_bytes": limits.MESSAGE_BYTES,
    "max_length": limits.MAX_LENGTH,
    "max_receives": limits.MAX_RECEIVES,
    "dedup_window_s": limits.DEDUP_WINDOW_S,
}


_GOOD_NAMES: set[str] = set()
"""Names that passed, so that the next request need not ask."""
_MOST_NAMES = 10_000


def check_name(name: str, field: str = "name") -> None:
    if name in _GOOD_NAMES:
        return
    if limits.QUEUE_NAME.fullmatch(name) is None:
        raise InvalidName(field=field)
    if len(_GOOD_NAMES) >= _MOST_NAMES:
        _GOOD_NAMES.clear()
    _GOOD_NAMES.add(name)


def check_range(field: str, value: float | None, bounds: tuple[float, float]) -> None:
    if value is not None and not bounds[0] <= value <= bounds[1]:
        raise Invalid(f"{field} must be between {bounds[0]} and {bounds[1]}", field=field)


def check_seconds(field: str, value: float | None, bounds: tuple[float, float]) -> None:
    """A duration in seconds, possibly with a fraction; no store keeps less than a microsecond."""
    check_range(field, value, bounds)
    if value is not None and 0 < value < limits.SHORTEST_S:
        raise Invalid(f"{field} must be 0 or at least {limits.SHORTEST_S}", field=field)


def check_number(field: str, value: int | None) -> None:
    """The number of something stored, such as a task or a batch."""
    check_range(field, value, limits.ID)


def check_moment(field: str, moment: datetime | None) -> None:
    if moment is None:
        return
    if moment.tzinfo is None:
        raise Invalid(f"{field} must have a time zone", field=field)
    earliest, latest = limits.MOMENT
    if not earliest <= moment <= latest:
        raise Invalid(f"{field} must be between {earliest.date()} and {latest.date()}", field=field)


def check_id(field: str, value: str | None) -> None:
    if value is not None and limits.GROUP_ID.fullmatch(value) is None:
        raise Invalid(f"{field} must be 1 to 128 letters, digits and ASCII punctuation", field=field)


def check_send(entry: Send) -> None:
    check_name(entry.queue)
    check_text("message", entry.body)
    if entry.delay_s is not None:
        check_range("delay", entry.delay_s, limits.DELAY_S)
    if entry.priority is not None:
        check_range("priority", entry.priority, limits.PRIORITY)
    if entry.retention_s is not None:
        check_range("retention", entry.retention_s, limits.RETENTION_S)
    if entry.group_id is not None:
        check_id("group_id", entry.group_id)
    if entry.dedup_id is not None:
        check_id("dedup_id", entry.dedup_id)
    if entry.dedup_window_s is not None:
        check_range("dedup_window", entry.dedup_window_s, limits.DEDUP_WINDOW_S)
    if entry.attributes is not None:
        check_text("attributes", entry.attributes)
    if entry.headers is not None:
        check_text("headers", entry.headers)
    if entry.trace is not None:
        check_text("trace", entry.trace)


def check_receive(request: Receive) -> None:
    check_name(request.queue)
    check_range("max", request.limit, limits.RECEIVE_LIMIT)
    check_range("vt", request.visibility_timeout_s, limits.VISIBILITY_TIMEOUT_S)
    if request.max_receives is not None:
        check_range("max_receives", request.max_receives, limits.MAX_RECEIVES)
    target = request.dead_letter_queue
    if target is not None:
        check_name(target, "dead_letter_queue")
        if request.max_receives is None:
            raise Invalid("dead_letter_queue needs max_receives", field="max_receives")
        check_dead_letters(request.queue, target)


def check_dead_letters(queue: str, target: str) -> None:
    """A dead-letter queue must be another queue, FIFO exactly when the queue itself is."""
    if target == queue:
        raise Invalid("dead_letter_queue must differ from the queue", field="dead_letter_queue")
    if target.endswith(".fifo") != queue.endswith(".fifo"):
        raise Invalid("a queue and its dead-letter queue are both .fifo, or neither", field="dead_letter_queue")


def check_length(field: str, text: str | None, bounds: tuple[int, int]) -> None:
    if text is None:
        return
    check_text(field, text)
    if not bounds[0] <= len(text) <= bounds[1]:
        raise Invalid(f"{field} must have {bounds[0]} to {bounds[1]} characters", field=field)


def check_text(field: str, text: str | None) -> None:
    """Refuse what no store can keep: a NUL, or half of a surrogate pair."""
    if text is None:
        return
    if "\0" in text:
        raise Invalid(f"{field} must not contain the character NUL", field=field)
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise Invalid(f"{field} is not valid Unicode", field=field) from None


def check_settings(values: Mapping[str, Any]) -> None:
    for field, bounds in _SETTING_RANGES.items():
        if field in values:
            check_range(field, values[field], bounds)
    target = values.get("dead_letter_queue")
    if target is not None:
        check_name(target, "dead_letter_queue")
    for field in ("tags", "labels"):
        for key, value in (values.get(field) or {}).items():
            check_text(field, key)
            check_text(field, value)

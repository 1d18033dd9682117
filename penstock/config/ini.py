"""The `.ini` configuration file of the simple protocol's servers, read into our settings.

One key per line, `key = value`, with an optional comment after `#` or `;`. Section headers may be there and mean
nothing: a key is known by its name. Everything that is wrong with a file is reported at once.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from penstock import limits

DATABASE = "penstock.db"
"""The SQLite file of a server whose file does not ask for memory."""

_LINE = re.compile(r"(?P<key>[^=]*?)\s*=\s*(?P<value>.*)")
_COMMENT = re.compile(r"(^|\s)[#;].*$")
_SECTION = re.compile(r"\[[^\[\]]*\]")
_SWITCH = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def _number(low: int, high: int | None = None) -> Callable[[str], int]:
    bounds = f"at least {low}" if high is None else f"between {low} and {high}"

    def read(text: str) -> int:
        number = int(text) if re.fullmatch(r"[+-]?[0-9]{1,12}", text) else low - 1
        if number < low or (high is not None and number > high):
            raise ValueError(f"must be a whole number {bounds}")
        return number

    return read


def _switch(text: str) -> bool:
    if text.lower() not in _SWITCH:
        raise ValueError("must be true or false")
    return _SWITCH[text.lower()]


def _host(text: str) -> str:
    if re.fullmatch(r"[A-Za-z0-9._:-]+", text) is None:
        raise ValueError("must be a host name or an address")
    return text


@dataclass(frozen=True, slots=True)
class Key:
    section: str
    default: str
    read: Callable[[str], Any]
    text: str
    setting: str | None = None
    """The setting it becomes; None where several keys make one."""


_longest = limits.VISIBILITY_TIMEOUT_S[1]
KEYS: Mapping[str, Key] = {
    "port": Key("server", "8080", _number(1, 65_535), "Port to listen on, 1-65535."),
    "host": Key("server", "localhost", _host, "Host to listen on."),
    "memory": Key("server", "false", _switch, f"Keep everything in memory; false: in the SQLite file {DATABASE}."),
    "max_queue_length": Key(
        "queue", "5000", _number(1, limits.MAX_LENGTH[1]), "Messages in one queue, >= 1.", "simple_max_queue_length"
    ),
    "max_message_size_kb": Key(
        "queue", "256", _number(1, 10_240), "Size of a message, 1-10240 KB.", "simple_max_message_kb"
    ),
    "max_request_body_size_kb": Key(
        "queue", "1024", _number(1, 102_400), "Size of a request without a message, >= 1 KB.", "simple_max_body_kb"
    ),
    "default_visibility_timeout": Key(
        "queue", "30", _number(0, _longest), f"Seconds, 0-{_longest}.", "default_visibility_timeout_s"
    ),
    "default_max_receives": Key(
        "queue", "4", _number(*limits.MAX_RECEIVES), "Receives before a message is poison, >= 1.", "simple_max_receives"
    ),
    "poison_max_receives": Key(
        "queue", "100", _number(1, 1_000_000), "Receives after which a message is deleted in any case, "
        ">= default_max_receives.", "simple_poison_max_receives"
    ),
    "default_retention_period": Key(
        "queue", "345600", _number(*limits.RETENTION_S), "Seconds, 60-1209600; four days.", "simple_retention_s"
    ),
    "default_wait_time_seconds": Key(
        "queue", "20", _number(*limits.RECEIVE_WAIT_S), "Seconds a receive waits, 0-20.", "simple_wait_s"
    ),
    "default_dedup_time_period": Key(
        "queue", "300", _number(*limits.DEDUP_WINDOW_S), "Seconds, 1-43200; five minutes.", "simple_dedup_window_s"
    ),
    "default_priority": Key("queue", "100", _number(*limits.PRIORITY), "0-1000.", "simple_priority"),
    "poison_cleanup_interval": Key(
        "cleanup", "60", _number(1, 86_400), "Seconds between searches for poison, >= 1.", "simple_poison_interval_s"
    ),
    "retention_cleanup_interval": Key(
        "cleanup", "600", _number(1, 86_400), "Seconds between removals of expired messages, >= 1."
    ),
    "dedup_cleanup_interval": Key(
        "cleanup", "60", _number(1, 86_400),
        "Seconds between removals of expired deduplication ids, >= 1. The shorter of the two holds for both."
    ),
    "reader_pool_size": Key(
        "database", "4", _number(1, 64), "Connections that read a SQLite file, 1-64.", "sqlite_readers"
    ),
}  # fmt: skip


def parse(text: str) -> tuple[dict[str, Any], list[str]]:
    """The settings a file gives, and every problem it has."""
    given: dict[str, Any] = {}
    lines: dict[str, int] = {}
    problems: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        line = _COMMENT.sub("", line).strip()
        if not line or _SECTION.fullmatch(line):
            continue
        found = _LINE.fullmatch(line)
        if found is None:
            problems.append(f"line {number}: expected 'key = value'")
            continue
        key, value = found["key"], found["value"]
        if key not in KEYS:
            problems.append(f"line {number}: {_unknown(key)}")
        elif key in lines:
            problems.append(f"line {number}: duplicate key '{key}'; it is on line {lines[key]} already")
        else:
            lines[key] = number
            try:
                given[key] = KEYS[key].read(value)
            except ValueError as error:
                problems.append(f"line {number}: {key} {error}")
    most = given.get("default_max_receives", int(KEYS["default_max_receives"].default))
    if "poison_max_receives" in given and given["poison_max_receives"] < most:
        problems.append(f"line {lines['poison_max_receives']}: poison_max_receives must be at least {most}")
    return _settings(given), problems


def _unknown(key: str) -> str:
    close = difflib.get_close_matches(key, KEYS, n=1, cutoff=0.5)
    return f"unknown key '{key}'" + (f"; did you mean '{close[0]}'?" if close else "")


def _settings(given: Mapping[str, Any]) -> dict[str, Any]:
    """A file of this kind asks for a server of this kind: the simple protocol, on SQLite."""
    settings: dict[str, Any] = {"simple": True}
    settings |= {"memory": True} if given.get("memory") else {"sqlite": DATABASE}
    if "host" in given or "port" in given:
        host = given.get("host", KEYS["host"].default)
        port = given.get("port", KEYS["port"].default)
        settings["address"] = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    intervals = [given[key] for key in ("retention_cleanup_interval", "dedup_cleanup_interval") if key in given]
    if intervals:
        settings["cleanup_interval_s"] = min(intervals)
    return settings | {
        known.setting: given[key] for key, known in KEYS.items() if key in given and known.setting is not None
    }


def generate() -> str:
    """A file with every key at its default, and what each means."""
    lines = ["# Configuration of a server for the simple JSON protocol: penstock serve --config FILE.ini"]
    section = ""
    for key, known in KEYS.items():
        if known.section != section:
            section = known.section
            lines += ["", f"[{section}]"]
        lines += [f"# {known.text}", f"{key} = {known.default}"]
    return "\n".join(lines) + "\n"

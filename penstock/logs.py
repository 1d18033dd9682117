"""Logs as JSON lines, or as readable text on a terminal; uvicorn and asyncpg use the same format.

All code logs through the standard `logging`, with fields in `extra`; structlog formats the records. It is imported
with the first record, so that a start without log output does not pay for the import.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Mapping, MutableMapping
from typing import Any, TextIO

SECRET_KEYS = frozenset({"authorization", "body", "cookie", "dsn", "message_body", "password", "payload", "secret"})
_SECRETS = (
    (re.compile(r"(?<=://)([^:/?#\s]*):[^\s]*@"), r"\1:***@"),
    (re.compile(r"(?i)\b(password=)[^&\s'\"]+"), r"\1***"),
    (re.compile(r"\b(pst_[0-9a-f]{8}_)[\w-]+"), r"\1***"),
)

_OFF = logging.CRITICAL + 10
_NUMBERS = {"trace": logging.DEBUG, "warn": logging.WARNING, "off": _OFF}


def configure(level: str = "info", style: str = "auto", stream: TextIO | None = None) -> None:
    """Send all records to `stream` (default: standard error). Can be called again."""
    stream = stream or sys.stderr
    as_json = style == "json" or (style == "auto" and not stream.isatty())
    handler = logging.StreamHandler(stream)
    handler.setFormatter(_LateFormatter(as_json=as_json, colours=stream.isatty()))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    # Below warning, these loggers write a record per connection or request, which costs more than the request.
    # `penstock.access=info,info` enables them.
    for name in ("asyncio", "uvicorn", "uvicorn.error", "penstock.access"):
        logging.getLogger(name).setLevel(logging.WARNING)
    for directive in level.split(","):
        name, _, wanted = directive.strip().rpartition("=")
        logging.getLogger(name.replace("::", ".") or None).setLevel(_number(wanted))


def _number(level: str) -> int:
    return _NUMBERS.get(level) or logging.getLevelNamesMapping()[level.upper()]


def scrub(text: str) -> str:
    """Remove passwords in URLs, and API tokens."""
    for pattern, replacement in _SECRETS:
        text = pattern.sub(replacement, text)
    return text


class _LateFormatter(logging.Formatter):
    def __init__(self, *, as_json: bool, colours: bool) -> None:
        super().__init__()
        self._as_json = as_json
        self._colours = colours
        self._formatter: logging.Formatter | None = None

    def format(self, record: logging.LogRecord) -> str:
        if self._formatter is None:
            self._formatter = _formatter(as_json=self._as_json, colours=self._colours)
        return self._formatter.format(record)


def _formatter(*, as_json: bool, colours: bool) -> logging.Formatter:
    import structlog

    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    # The same format for records of the standard library and of structlog loggers.
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    last: list[Any] = [structlog.stdlib.ProcessorFormatter.remove_processors_meta, _drop_colours]
    if as_json:
        last += [structlog.processors.format_exc_info, _redact, structlog.processors.JSONRenderer(default=str)]
    else:
        plain = structlog.dev.plain_traceback
        last += [_redact, structlog.dev.ConsoleRenderer(colors=colours, exception_formatter=plain)]
    return structlog.stdlib.ProcessorFormatter(foreign_pre_chain=shared, processors=last)


def _drop_colours(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    event.pop("color_message", None)  # uvicorn's coloured copy of the message
    return event


def _redact(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> Mapping[str, Any]:
    for key, value in event.items():
        if key.lower() in SECRET_KEYS:
            event[key] = "***"
        elif isinstance(value, str):
            event[key] = scrub(value)
    return event

"""Logs: one rendering for everyone, and nothing secret in it."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from penstock import logs


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    before = root.handlers[:], root.level
    yield io.StringIO()
    root.handlers[:], root.level = before


def lines(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_record_is_one_json_line_with_its_extras(stream: io.StringIO) -> None:
    logs.configure("info", "auto", stream)
    logging.getLogger("penstock.test").info("hello %s", "world", extra={"request_id": "abc"})
    [record] = lines(stream)
    assert record["event"] == "hello world"
    assert (record["level"], record["logger"], record["request_id"]) == ("info", "penstock.test", "abc")
    assert str(record["timestamp"]).endswith("Z")


def test_loggers_of_others_look_the_same(stream: io.StringIO) -> None:
    import structlog

    logs.configure("info", "json", stream)
    logging.getLogger("asyncpg").warning("one")
    structlog.get_logger("another").warning("two", number=3)
    assert [(record["event"], record["level"]) for record in lines(stream)] == [("one", "warning"), ("two", "warning")]
    assert lines(stream)[1]["number"] == 3


def test_an_error_keeps_its_traceback_on_the_same_line(stream: io.StringIO) -> None:
    logs.configure("info", "json", stream)
    try:
        raise RuntimeError("postgresql://user:hunter2@host/d is away")
    except RuntimeError:
        logging.getLogger("test").exception("it failed")
    [record] = lines(stream)
    assert "RuntimeError" in str(record["exception"])
    assert "hunter2" not in stream.getvalue()


@pytest.mark.parametrize("style", ["json", "console"])
def test_no_secret_and_no_payload_is_written(stream: io.StringIO, style: str) -> None:
    logs.configure("info", style, stream)
    token = "pst_0123abcd_" + "s3cret" * 7
    log = logging.getLogger("test")
    log.info("connecting to postgresql://someone:hunter2@host/d as %s", token)
    log.info("sent", extra={"body": "hunter2", "payload": "hunter2", "Authorization": f"Bearer {token}"})
    log.info("parameters", extra={"dsn": "postgresql://u:hunter2@h/d", "note": "host=h password=hunter2"})
    text = stream.getvalue()
    assert text.count("\n") == 3
    assert "hunter2" not in text
    assert "s3cret" not in text
    assert "pst_0123abcd_***" in text


@pytest.mark.parametrize(
    ("level", "written"),
    [
        ("info", ["info", "warning"]),
        ("debug", ["debug", "info", "warning"]),
        ("trace", ["debug", "info", "warning"]),
        ("warn", ["warning"]),
        ("off", []),
        ("beyond_queue=debug,info", ["info", "warning"]),
        ("test.levels=debug,error", ["debug", "info", "warning"]),
        ("test::levels=error,debug", []),
    ],
)
def test_levels(stream: io.StringIO, level: str, written: list[str]) -> None:
    logs.configure(level, "json", stream)
    log = logging.getLogger("test.levels")
    try:
        for name in ("debug", "info", "warning"):
            getattr(log, name)("x")
    finally:
        log.setLevel(logging.NOTSET)
    assert [record["level"] for record in lines(stream)] == written


def test_every_request_is_logged_only_when_asked_for(stream: io.StringIO) -> None:
    logs.configure("info", "json", stream)
    assert not logging.getLogger("penstock.access").isEnabledFor(logging.INFO)
    logs.configure("penstock.access=info,info", "json", stream)
    assert logging.getLogger("penstock.access").isEnabledFor(logging.INFO)
    logs.configure("info", "json", stream)
    assert not logging.getLogger("penstock.access").isEnabledFor(logging.INFO)

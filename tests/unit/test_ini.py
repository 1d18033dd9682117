"""The configuration file of the simple protocol: keys, bounds, and every error at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.config import Settings, SettingsError, ini, read_file


def problems(text: str) -> list[str]:
    return ini.parse(text)[1]


def test_the_generated_file_is_valid_and_holds_every_key_at_its_default() -> None:
    values, wrong = ini.parse(ini.generate())
    settings = Settings.load(values)

    assert wrong == []
    assert set(ini.KEYS) == {line.split(" ")[0] for line in ini.generate().splitlines() if " = " in line}
    assert (settings.address, settings.store, settings.serves_simple) == ("localhost:8080", "sqlite", True)
    changed = {name for name in values if values[name] != getattr(Settings(), name)}
    assert changed == {"simple", "sqlite", "address", "cleanup_interval_s", "sqlite_readers"}


def test_every_key_reaches_its_setting() -> None:
    text = """
    port = 9000   # a comment
    host=0.0.0.0
    memory = YES
    max_queue_length = 1
    max_message_size_kb = 10240
    max_request_body_size_kb = 2
    default_visibility_timeout = 0
    default_max_receives = 5
    poison_max_receives = 5
    default_retention_period = 60
    default_wait_time_seconds = 0
    default_dedup_time_period = 43200
    default_priority = 0
    [cleanup]
    poison_cleanup_interval = 1
    retention_cleanup_interval = 700
    dedup_cleanup_interval = 800
    ; another comment
    reader_pool_size = 64
    """
    values, wrong = ini.parse(text)

    assert wrong == []
    assert values == {
        "simple": True,
        "memory": True,
        "address": "0.0.0.0:9000",
        "simple_max_queue_length": 1,
        "simple_max_message_kb": 10240,
        "simple_max_body_kb": 2,
        "default_visibility_timeout_s": 0,
        "simple_max_receives": 5,
        "simple_poison_max_receives": 5,
        "simple_retention_s": 60,
        "simple_wait_s": 0,
        "simple_dedup_window_s": 43200,
        "simple_priority": 0,
        "simple_poison_interval_s": 1,
        "cleanup_interval_s": 700,
        "sqlite_readers": 64,
    }
    assert Settings.load(values).store == "memory"


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("port = 0", "port must be a whole number between 1 and 65535"),
        ("port = 65536", "port must be a whole number between 1 and 65535"),
        ("port = 80.5", "port must be a whole number between 1 and 65535"),
        ("port =", "port must be a whole number between 1 and 65535"),
        ("host = two words", "host must be a host name or an address"),
        ("memory = maybe", "memory must be true or false"),
        ("max_queue_length = 0", "max_queue_length must be a whole number between 1 and 1000000000"),
        ("max_message_size_kb = 10241", "max_message_size_kb must be a whole number between 1 and 10240"),
        ("max_request_body_size_kb = 0", "max_request_body_size_kb must be a whole number between 1 and 102400"),
        ("default_visibility_timeout = 43201", "default_visibility_timeout must be a whole number between 0 and 43200"),
        ("default_max_receives = 0", "default_max_receives must be a whole number between 1 and 1000"),
        ("poison_max_receives = 3", "poison_max_receives must be at least 4"),
        ("default_retention_period = 59", "default_retention_period must be a whole number between 60 and 1209600"),
        ("default_wait_time_seconds = 21", "default_wait_time_seconds must be a whole number between 0 and 20"),
        ("default_dedup_time_period = 0", "default_dedup_time_period must be a whole number between 1 and 43200"),
        ("default_priority = -1", "default_priority must be a whole number between 0 and 1000"),
        ("poison_cleanup_interval = 0", "poison_cleanup_interval must be a whole number between 1 and 86400"),
        ("reader_pool_size = 65", "reader_pool_size must be a whole number between 1 and 64"),
        ("prot = 1", "unknown key 'prot'; did you mean 'port'?"),
        ("gibberish", "expected 'key = value'"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(line: str, problem: str) -> None:
    assert problems(f"[queue]\n{line}\n") == [f"line 2: {problem}"]


def test_a_key_may_be_there_once_whatever_its_section() -> None:
    assert problems("[server]\nport = 1\n[queue]\nport = 2\n") == [
        "line 4: duplicate key 'port'; it is on line 2 already"
    ]


def test_all_errors_of_a_file_are_told_at_once(tmp_path: Path) -> None:
    path = tmp_path / "queues.ini"
    path.write_text("port = 0\ncolour = blue\nmemory = true\nmemory = true\npoison_max_receives = 1\n")

    with pytest.raises(SettingsError) as caught:
        read_file(path, {})

    assert [problem.removeprefix(f"{path}: ").split(":")[0] for problem in caught.value.problems] == [
        "line 1",
        "line 2",
        "line 4",
        "line 5",
    ]


def test_flags_win_over_the_file_and_choose_another_store(tmp_path: Path) -> None:
    path = tmp_path / "queues.ini"
    path.write_text("port = 8081\nmax_queue_length = 10\n")

    settings = Settings.load(read_file(path, {}), {}, {"simple_max_queue_length": 20, "memory": True})

    assert (settings.address, settings.simple_max_queue_length, settings.store) == ("localhost:8081", 20, "memory")


@pytest.mark.parametrize(
    ("values", "serves"),
    [
        ({}, False),
        ({"memory": True}, True),
        ({"sqlite": "queues.db"}, True),
        ({"memory": True, "simple": False}, False),
        ({"simple": True}, True),
    ],
)
def test_the_simple_protocol_is_served_on_sqlite_unless_said_otherwise(values: dict[str, object], serves: bool) -> None:
    assert Settings.load(values).serves_simple is serves

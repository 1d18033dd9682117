"""Settings: layers, refusals, what may be shown."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.config import (
    Settings,
    SettingsError,
    is_loopback,
    join_address,
    markdown,
    read_file,
    redact,
    shown,
    split_address,
)

DOCUMENTED = [found for found in fields(Settings) if found.metadata]


def problems(**layers: dict[str, object]) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        Settings.load(**layers)  # type: ignore[arg-type]
    return caught.value.problems


def test_nothing_said_gives_the_defaults() -> None:
    settings = Settings.load()
    assert (settings.host, settings.port) == ("127.0.0.1", 9324)
    assert settings.store == "embedded"
    assert settings.auth_mode == "open"
    assert settings.origins == {}


def test_flags_win_over_the_environment_and_that_over_the_file() -> None:
    settings = Settings.load(
        {"linger_ms": 1, "workers": 2, "max_connections": 3},
        {"QUEUE_LINGER_MS": "4", "PENSTOCK_WORKERS": "5"},
        {"linger_ms": 6},
    )
    assert (settings.linger_ms, settings.workers, settings.max_connections) == (6, 5, 3)
    assert settings.origins == {"linger_ms": "flag", "workers": "environment", "max_connections": "file"}


def test_an_absent_value_overwrites_nothing() -> None:
    settings = Settings.load({"linger_ms": 7}, {"QUEUE_LINGER_MS": ""}, {"linger_ms": None})
    assert settings.linger_ms == 7


@pytest.mark.parametrize(
    ("variable", "text", "name", "value"),
    [
        ("DATABASE_URL", "postgres://u:p@h/d", "database_url", "postgres://u:p@h/d"),
        ("QUEUE_ADDRESS", "0.0.0.0:9324", "address", "0.0.0.0:9324"),
        ("QUEUE_DEFAULT_VISIBILITY_TIMEOUT", "45", "default_visibility_timeout_s", 45),
        ("QUEUE_MAX_CONNECTIONS", "20", "max_connections", 20),
        ("LOG_LEVEL", "beyond_queue=debug,info", "log_level", "beyond_queue=debug,info"),
        ("QUEUE_LINGER_MS", "5", "linger_ms", 5),
        ("QUEUE_BASE_URL", "https://queues.example.com/", "base_url", "https://queues.example.com"),
        ("PENSTOCK_DATA", "/tmp/x", "data", Path("/tmp/x")),
        ("PENSTOCK_BATCHING", "off", "batching", False),
    ],
)
def test_variables(variable: str, text: str, name: str, value: object) -> None:
    assert getattr(Settings.load(environment={variable: text}), name) == value


def test_an_unknown_setting_is_answered_with_the_nearest() -> None:
    assert problems(toml={"linger": 1}) == ["unknown setting 'linger'; did you mean 'linger_ms'?"]
    assert problems(toml={"qqqq": 1}) == ["unknown setting 'qqqq'"]


def test_a_slip_in_a_variable_of_ours_is_found_and_strangers_are_left_alone() -> None:
    assert problems(environment={"PENSTOCK_WORKER": "2"}) == [
        "unknown setting 'PENSTOCK_WORKER'; did you mean 'PENSTOCK_WORKERS'?"
    ]
    Settings.load(environment={"PENSTOCK_TEST_DSN": "x", "HOME": "/", "PENSTOCK_CONFIG": "x", "PENSTOCK_TOKEN": "y"})


def test_everything_wrong_is_said_at_once() -> None:
    found = problems(
        toml={"workers": "many", "nothing": 1},
        environment={"QUEUE_LINGER_MS": "-1", "QUEUE_ADDRESS": "nowhere", "PENSTOCK_AUTH": "maybe"},
    )
    assert len(found) == 5
    assert any(line.startswith("QUEUE_LINGER_MS must be a whole number") for line in found)
    assert any(line.startswith("'workers' must be") for line in found)


@pytest.mark.parametrize("value", [True, 1.5, "1.5", "", "1e3", [1], None, 0, 257])
def test_a_number_is_a_whole_number_within_bounds(value: object) -> None:
    assert problems(toml={"workers": value})


def test_a_wrong_database_url_is_refused_without_repeating_it() -> None:
    [line] = problems(environment={"DATABASE_URL": "mysql://user:hunter2@host/db"})
    assert "hunter2" not in line
    assert "postgresql://" in line


@pytest.mark.parametrize("where", ["app:se/cret@h:5432", "app:cret@h:port", "app:cret@h:1:2", "app:cret@[::1:5432"])
def test_a_database_url_with_a_slip_is_refused_without_repeating_it(where: str) -> None:
    [line] = problems(environment={"DATABASE_URL": f"postgresql://{where}/d"})
    assert line.startswith("DATABASE_URL has a port that is no number, or a password in which / is not written as %2F")
    assert "cret" not in line


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://",
        "postgresql:///d?host=/run/postgresql",
        "postgresql://u:p%2F%40%3A@h:5432/d",
        "postgresql://u:p@[::1]:5432/d",
        "postgresql://u@one:5432,two:5433/d?target_session_attrs=primary",
        "postgresql://%2Frun%2Fpostgresql/d",
    ],
)
def test_every_form_of_a_database_url_is_taken(url: str) -> None:
    assert Settings.load(environment={"DATABASE_URL": url}).database_url == url


def test_a_layer_that_names_a_store_means_that_one() -> None:
    environment = {"DATABASE_URL": "postgresql://h/d"}
    assert Settings.load(environment=environment).store == "postgres"
    assert Settings.load(environment=environment, flags={"memory": True}).store == "memory"
    assert Settings.load(environment=environment, flags={"sqlite": "q.db"}).store == "sqlite"
    assert Settings.load(environment=environment, flags={"data": "here"}).store == "embedded"
    assert Settings.load({"sqlite": "q.db"}, environment).store == "postgres"
    assert Settings.load(environment=environment, flags={"memory": False}).store == "postgres"


def test_two_stores_in_one_breath_are_refused() -> None:
    [line] = problems(flags={"memory": True, "sqlite": "q.db"})
    assert line == "--sqlite and --memory exclude each other: choose one store"


def test_workers_need_postgresql() -> None:
    for store in ({"memory": True}, {"sqlite": "q.db"}):
        [line] = problems(flags={"workers": 2, **store})
        assert "need PostgreSQL" in line


@pytest.mark.parametrize(
    ("address", "auth"), [("127.0.0.1:1", "open"), ("[::1]:1", "open"), ("localhost:1", "open"), ("0.0.0.0:1", "token")]
)
def test_authentication_follows_the_address(address: str, auth: str) -> None:
    assert Settings.load(flags={"address": address}).auth_mode == auth


def test_an_open_public_address_must_be_asked_for_by_flag() -> None:
    public = {"address": "0.0.0.0:9324"}
    assert Settings.load(flags={**public, "auth": "open"}).auth_mode == "open"
    [line] = problems(environment={"PENSTOCK_AUTH": "open"}, flags=dict(public))
    assert "refusing" in line
    assert problems(toml={"auth": "open"}, flags=dict(public))


@pytest.mark.parametrize("text", ["", "host", "host:", "host:x", "host:65536", "::1:80", "a b:1", "[::1]"])
def test_addresses_that_are_none(text: str) -> None:
    with pytest.raises(ValueError, match="must be"):
        split_address(text)


@given(st.sampled_from(["127.0.0.1", "::1", "fe80::1%eth0", "localhost", "a.b-c"]), st.integers(0, 65_535))
def test_an_address_survives_the_round_trip(host: str, port: int) -> None:
    assert split_address(join_address(host, port)) == (host, port)


def test_no_host_means_every_interface_and_that_is_not_loopback() -> None:
    host, port = split_address(":9324")
    assert (host, port) == ("0.0.0.0", 9324)
    assert not is_loopback(host)
    assert not is_loopback("localhost.example.com")


@given(st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=8).filter(lambda text: "*" not in text))
def test_a_password_is_never_shown(password: str) -> None:
    assert password not in redact(f"postgresql://user:{password}@host:5432/database")


def test_settings_do_not_show_their_secrets() -> None:
    settings = Settings.load(environment={"DATABASE_URL": "postgresql://u:hunter2@h/d?sslpassword=hunter2"})
    assert "hunter2" not in repr(settings)
    assert "hunter2" not in str(shown(settings))
    assert ("database_url", "postgresql://u:***@h/d?sslpassword=***", "environment") in shown(settings)
    assert redact("postgresql:///d?host=/run&password=hunter2") == "postgresql:///d?host=/run&password=***"


def test_settings_pass_to_another_process() -> None:
    settings = Settings.load(
        {"sqlite": "a.db", "batching": False}, {"LOG_LEVEL": "debug"}, {"address": "[::1]:0", "auth": "open"}
    )
    again = Settings.load(flags=settings.as_plain())
    assert replace(again, origins={}) == replace(settings, origins={})


def test_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert read_file(None, {}) == {}
    (tmp_path / "penstock.toml").write_text("workers = 3\n")
    assert read_file(None, {}) == {"workers": 3}
    (tmp_path / "other.toml").write_text("workers = 4\n")
    assert read_file(None, {"PENSTOCK_CONFIG": "other.toml"}) == {"workers": 4}
    assert read_file(Path("other.toml"), {"PENSTOCK_CONFIG": "penstock.toml"}) == {"workers": 4}
    with pytest.raises(SettingsError, match=r"cannot read absent\.toml"):
        read_file(Path("absent.toml"), {})
    (tmp_path / "bad.toml").write_text("workers =\n")
    with pytest.raises(SettingsError, match="is not TOML"):
        read_file(Path("bad.toml"), {})


def test_every_setting_is_documented_and_has_a_variable_of_its_own() -> None:
    assert {found.name for found in fields(Settings)} - {found.name for found in DOCUMENTED} == {"origins"}
    table = markdown()
    for found in DOCUMENTED:
        assert f"| `{found.name}` | `{found.metadata['env']}` |" in table
        assert found.metadata["text"].endswith(".")
    assert len({found.metadata["env"] for found in DOCUMENTED}) == len(DOCUMENTED)

"""Settings: layers, variables and aliases, errors, and what is displayed."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.config import (
    Settings,
    SettingsError,
    describe,
    is_loopback,
    join_address,
    markdown,
    read_file,
    redact,
    shown,
    split_address,
    variable_value,
)
from penstock.config.settings import KNOWN

BEYOND_QUEUE = {
    "DATABASE_URL",
    "LOG_LEVEL",
    "QUEUE_ADDRESS",
    "QUEUE_BASE_URL",
    "QUEUE_DEFAULT_VISIBILITY_TIMEOUT",
    "QUEUE_HTTP_DELIVERY_BATCH_SIZE",
    "QUEUE_HTTP_DELIVERY_ENABLED",
    "QUEUE_HTTP_DELIVERY_POLL_MS",
    "QUEUE_HTTP_DELIVERY_TIMEOUT_SECS",
    "QUEUE_LINGER_MS",
    "QUEUE_MAX_CONNECTIONS",
    "QUEUE_SCHEDULE_BATCH_SIZE",
    "QUEUE_SCHEDULE_ENABLED",
    "QUEUE_SCHEDULE_LIST_MAX",
    "QUEUE_SCHEDULE_POLL_MS",
    "QUEUE_SCHEDULE_PREVIEW_COUNT",
}
"""The variables that beyond-queue documents and we implement."""


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
    assert {name: origin.layer for name, origin in settings.origins.items()} == {
        "linger_ms": "flag",
        "workers": "environment",
        "max_connections": "file",
    }


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
        ("QUEUE_BASE_URL", "http://queues.localhost:80/", "base_url", "http://queues.localhost:80"),
        ("PENSTOCK_DATA", "/tmp/x", "data", Path("/tmp/x")),
        ("PENSTOCK_BATCHING", "off", "batching", False),
    ],
)
def test_variables(variable: str, text: str, name: str, value: object) -> None:
    assert getattr(Settings.load(environment={variable: text}), name) == value
    assert getattr(Settings.load(environment={f"PENSTOCK_{name.upper()}": text}), name) == value


def test_the_aliases_are_the_variables_of_beyond_queue() -> None:
    assert {found.alias for found in KNOWN.values() if found.alias} >= BEYOND_QUEUE


def test_a_variable_and_its_alias_may_agree() -> None:
    settings = Settings.load(environment={"PENSTOCK_SCHEDULE_ENABLED": "false", "QUEUE_SCHEDULE_ENABLED": "0"})

    assert settings.schedule_enabled is False
    assert settings.origins["schedule_enabled"].name == "PENSTOCK_SCHEDULE_ENABLED"


def test_a_variable_and_its_alias_may_not_differ() -> None:
    assert problems(environment={"PENSTOCK_LINGER_MS": "1", "QUEUE_LINGER_MS": "2"}) == [
        "PENSTOCK_LINGER_MS and QUEUE_LINGER_MS have different values: set only one of them"
    ]
    [line] = problems(
        environment={
            "PENSTOCK_DATABASE_URL": "postgresql://u:hunter2@a/d",
            "DATABASE_URL": "postgresql://u:hunter2@b/d",
        }
    )
    assert line.startswith("PENSTOCK_DATABASE_URL and DATABASE_URL have different values")
    assert "hunter2" not in line


def test_an_error_names_the_variable_that_was_set() -> None:
    assert problems(environment={"QUEUE_LINGER_MS": "x"})[0].startswith("QUEUE_LINGER_MS must be")
    assert problems(environment={"PENSTOCK_LINGER_MS": "x"})[0].startswith("PENSTOCK_LINGER_MS must be")


def test_the_value_of_a_variable_can_be_looked_up() -> None:
    assert variable_value("address", {}) is None
    assert variable_value("address", {"QUEUE_ADDRESS": ":1"}) == ":1"
    assert variable_value("address", {"QUEUE_ADDRESS": "", "PENSTOCK_ADDRESS": ":2"}) == ":2"


def test_an_unknown_setting_is_answered_with_the_nearest() -> None:
    assert problems(toml={"linger": 1}) == ["unknown setting 'linger'; did you mean 'linger_ms'?"]
    assert problems(toml={"qqqq": 1}) == ["unknown setting 'qqqq'"]


@pytest.mark.parametrize(
    ("variable", "meant"),
    [
        ("PENSTOCK_WORKER", "PENSTOCK_WORKERS"),
        ("PENSTOCK_DRAIN", "PENSTOCK_DRAIN_S"),
        ("PENSTOCK_REQUEST_TIMEOUT", "PENSTOCK_REQUEST_TIMEOUT_S"),
        ("PENSTOCK_HTTP_DELIVERY_TIMEOUT_SECS", "PENSTOCK_HTTP_DELIVERY_TIMEOUT_S"),
    ],
)
def test_a_misspelt_variable_is_an_error(variable: str, meant: str) -> None:
    assert problems(environment={variable: "2"}) == [f"unknown setting '{variable}'; did you mean '{meant}'?"]


def test_unrelated_variables_are_ignored() -> None:
    others = ["PENSTOCK_TEST_DSN", "HOME", "PENSTOCK_CONFIG", "PENSTOCK_TOKEN", "PENSTOCK_URL", "PENSTOCK_SERVICE_HOST"]
    Settings.load(environment=dict.fromkeys([*others, "PENSTOCK_PORT_9324_TCP_ADDR", "QUEUE_NAME"], "x"))


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
    assert line.startswith("DATABASE_URL has a port that is not a number, or a password with special")
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
        assert "require PostgreSQL" in line


@pytest.mark.parametrize(
    ("address", "auth"), [("127.0.0.1:1", "open"), ("[::1]:1", "open"), ("localhost:1", "open"), ("0.0.0.0:1", "token")]
)
def test_authentication_follows_the_address(address: str, auth: str) -> None:
    assert Settings.load(flags={"address": address}).auth_mode == auth


@pytest.mark.parametrize("base", ["https://queues.example.com", "http://10.0.0.7:9324", "http://queues"])
def test_an_open_server_behind_a_public_base_url_must_be_allowed(base: str) -> None:
    [line] = problems(flags={"base_url": base})
    assert line == (
        f"refusing to serve {base} without authentication: set auth to token or sigv4, "
        "use a loopback address and base URL, or allow it with --allow-open or PENSTOCK_ALLOW_OPEN=1"
    )
    assert problems(environment={"QUEUE_BASE_URL": base, "PENSTOCK_AUTH": "open"})
    for auth in ("token", "sigv4"):
        assert Settings.load(flags={"base_url": base, "auth": auth}).auth_mode == auth
    assert Settings.load(flags={"base_url": base, "allow_open": True}).open_to_others
    assert Settings.load(environment={"QUEUE_BASE_URL": base, "PENSTOCK_ALLOW_OPEN": "1"}).open_to_others


@pytest.mark.parametrize(
    "base", ["http://localhost:9324", "http://queues.localhost", "https://127.0.0.2", "http://[::1]:1"]
)
def test_a_base_url_of_this_machine_may_be_open(base: str) -> None:
    settings = Settings.load(flags={"base_url": base})
    assert settings.auth_mode == "open"
    assert not settings.open_to_others


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


@given(st.text(st.characters(min_codepoint=33, max_codepoint=126)))
def test_a_password_is_never_shown(password: str) -> None:
    assert redact(f"postgresql://user:{password}@host:5432/database") == "postgresql://user:***@host:5432/database"


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
    with pytest.raises(SettingsError, match="is not valid TOML"):
        read_file(Path("bad.toml"), {})


def test_every_setting_is_documented_with_its_variable_flag_and_default() -> None:
    assert {found.name for found in fields(Settings)} - KNOWN.keys() == {"origins"}
    for name, found in KNOWN.items():
        [row] = [line for line in markdown().splitlines() if line.startswith(f"| `{name}` |")]
        _, _, variables, flag, default, meaning, _ = (cell.strip() for cell in row.split("|"))
        assert f"`PENSTOCK_{name.upper()}`" in variables
        assert found.alias is None or f"`{found.alias}`" in variables
        assert flag == (f"`{found.flag}`" if found.flag else "")
        assert default
        assert meaning.endswith(".")
    names = [variable for found in KNOWN.values() for variable in found.variables]
    assert len(set(names)) == len(names)


def test_a_flag_is_described_with_its_default() -> None:
    assert describe("workers") == "Server processes; more than one requires PostgreSQL. Default: 1."
    assert describe("linger_ms").endswith("Default: 0 ms.")
    assert describe("auth").endswith("Default: open on a loopback address, token on any other.")

"""The settings, and how they are combined from the file, the environment and the flags; the later one wins.

A layer that does not mention a setting does not change it. All problems are reported together.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from penstock import limits
from penstock.config import ini, readers
from penstock.config.readers import Reader, SettingsError, is_loopback, split_address

STORES = ("database_url", "sqlite", "memory", "data")


class Origin(NamedTuple):
    """Where a value comes from: the layer, and the setting's name in that layer."""

    layer: str
    name: str


def setting(
    default: Any,
    read: Reader,
    meaning: str,
    *,
    alias: str | None = None,
    flag: str | None = None,
    unit: str = "",
    unset: str = "",
    secret: bool = False,
) -> Any:
    """One setting. `alias` is a second environment variable, `unset` describes what None stands for."""
    about = {
        "read": read,
        "text": meaning,
        "alias": alias,
        "flag": flag,
        "unit": unit,
        "unset": unset,
        "secret": secret,
    }
    return field(default=default, repr=not secret, metadata=about)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """All settings of a server. Only `server` and `cli` read them; other packages receive plain arguments."""

    database_url: str | None = setting(
        None,
        readers.database_url,
        "URL of the PostgreSQL database.",
        alias="DATABASE_URL",
        flag="--database-url",
        unset="embedded PostgreSQL",
        secret=True,
    )
    sqlite: Path | None = setting(
        None, readers.path, "SQLite file to use instead of PostgreSQL.", flag="--sqlite", unset="not used"
    )
    memory: bool = setting(
        False, readers.switch, "Keep all data in memory; it is lost when the server stops.", flag="--memory"
    )
    data: Path | None = setting(
        None,
        readers.path,
        "Data directory of the embedded PostgreSQL.",
        flag="--data",
        unset="`/var/lib/penstock` for root, `~/.local/share/penstock` for other users",
    )
    address: str = setting(
        "127.0.0.1:9324",
        readers.address,
        "Address to listen on, `host:port`; port 0 picks a free port.",
        alias="QUEUE_ADDRESS",
        flag="--address",
    )
    base_url: str | None = setting(
        None,
        readers.base_url,
        "URL under which clients reach the server, for example behind a proxy.",
        alias="QUEUE_BASE_URL",
        flag="--base-url",
        unset="`http://` and the address",
    )
    auth: str | None = setting(
        None,
        readers.choice("open", "token", "sigv4"),
        "`open` accepts any Authorization header, `token` requires an API token, "
        "`sigv4` accepts API tokens and AWS signatures.",
        flag="--auth",
        unset="`open` on a loopback address, `token` on any other",
    )
    allow_open: bool = setting(
        False,
        readers.switch,
        "Allow `open` authentication although the address or the base URL is not a loopback one.",
        flag="--allow-open",
    )
    ready_file: Path | None = setting(
        None,
        readers.path,
        "File that holds the server's URL while it serves, for scripts; it is removed when the server stops.",
        flag="--ready-file",
        unset="none",
    )
    strict: bool = setting(
        False,
        readers.switch,
        "Enforce the SQS limits of AWS: one minute between delete and re-create or between purges, "
        "and a maximum number of messages in flight.",
        flag="--strict",
    )
    auto_confirm: bool = setting(
        False, readers.switch, "Confirm HTTP and email subscriptions of SNS without asking the endpoint."
    )
    simple: bool | None = setting(
        None,
        readers.switch,
        "Serve the simple JSON protocol.",
        flag="--simple",
        unset="yes on SQLite, no on PostgreSQL",
    )
    simple_max_queue_length: int = setting(
        5000,
        readers.number(*limits.MAX_LENGTH),
        "Maximum number of messages in a queue that the simple protocol creates.",
        flag="--max-queue-length",
    )
    simple_max_message_kb: int = setting(
        256,
        readers.number(1, limits.MESSAGE_BYTES[1] // 1024),
        "Maximum size of a message of the simple protocol.",
        flag="--max-message-size",
        unit="KiB",
    )
    simple_max_body_kb: int = setting(
        1024,
        readers.number(1, 102_400),
        "Maximum size of a request of the simple protocol that carries no message.",
        unit="KiB",
    )
    simple_max_receives: int = setting(
        4,
        readers.number(*limits.MAX_RECEIVES),
        "Receives before a message is poison, for receives of the simple protocol without `max_receives`.",
    )
    simple_poison_max_receives: int = setting(
        100,
        readers.number(1, 1_000_000),
        "Receives after which a message is deleted from a queue that the simple protocol created.",
    )
    simple_poison_interval_s: int = setting(
        60, readers.number(1, 86_400), "Time between two searches for such messages.", unit="s"
    )
    simple_retention_s: int = setting(
        345_600, readers.number(*limits.RETENTION_S), "Retention of queues that the simple protocol creates.", unit="s"
    )
    simple_wait_s: int = setting(
        20,
        readers.number(*limits.RECEIVE_WAIT_S),
        "Wait of receives of the simple protocol without `wait_time_seconds`.",
        unit="s",
    )
    simple_dedup_window_s: int = setting(
        300,
        readers.number(*limits.DEDUP_WINDOW_S),
        "Deduplication window of queues that the simple protocol creates.",
        unit="s",
    )
    simple_priority: int = setting(
        limits.DEFAULT_PRIORITY,
        readers.number(*limits.PRIORITY),
        "Priority of messages sent over the simple protocol without one.",
    )
    cleanup_interval_s: int = setting(
        0, readers.number(0, 86_400), "Time between two removals of expired rows; 0 adapts it to the work.", unit="s"
    )
    sqlite_readers: int = setting(1, readers.number(1, 64), "Connections that read a SQLite file.")
    default_visibility_timeout_s: int = setting(
        30,
        readers.number(*limits.VISIBILITY_TIMEOUT_S),
        "Visibility timeout of queues that have none of their own.",
        alias="QUEUE_DEFAULT_VISIBILITY_TIMEOUT",
        unit="s",
    )
    max_connections: int = setting(
        10,
        readers.number(1, 1000),
        "Maximum number of PostgreSQL connections per process.",
        alias="QUEUE_MAX_CONNECTIONS",
    )
    workers: int = setting(
        1, readers.number(1, 256), "Server processes; more than one requires PostgreSQL.", flag="--workers"
    )
    batching: bool = setting(
        True, readers.switch, "Combine requests that arrive together into one SQL statement.", flag="--batching"
    )
    linger_ms: int = setting(
        0,
        readers.number(0, 10_000),
        "Time a send waits for other sends to share its statement.",
        alias="QUEUE_LINGER_MS",
        flag="--linger-ms",
        unit="ms",
    )
    log_level: str = setting(
        "info",
        readers.log_level,
        "Lowest level to log; `logger=level` sets the level of one logger, as in `asyncpg=debug,info`.",
        alias="LOG_LEVEL",
        flag="--log-level",
    )
    log_format: str = setting(
        "auto",
        readers.choice("auto", "json", "console"),
        "Log format; `auto` is `console` on a terminal and `json` elsewhere.",
        flag="--log-format",
    )
    max_header_bytes: int = setting(
        32_768, readers.number(1024, 1_048_576), "Maximum size of all headers of a request.", unit="bytes"
    )
    max_headers: int = setting(100, readers.number(8, 10_000), "Maximum number of headers of a request.")
    request_timeout_s: int = setting(
        30,
        readers.number(1, 3600),
        "Time limit for receiving a body, and for answering a request; long polls get their wait time on top.",
        unit="s",
    )
    keep_alive_s: int = setting(60, readers.number(1, 3600), "Time an idle client connection stays open.", unit="s")
    max_client_connections: int = setting(
        10_000, readers.number(1, 1_000_000), "Maximum number of open client connections per process."
    )
    max_requests_in_flight: int = setting(
        8_000, readers.number(1, 1_000_000), "Maximum number of concurrent requests per process; more are answered 503."
    )
    http_delivery_enabled: bool = setting(
        True, readers.switch, "Deliver webhooks from this process.", alias="QUEUE_HTTP_DELIVERY_ENABLED"
    )
    http_delivery_poll_ms: int = setting(
        1000,
        readers.number(10, 60_000),
        "Interval between checks for due deliveries.",
        alias="QUEUE_HTTP_DELIVERY_POLL_MS",
        unit="ms",
    )
    http_delivery_timeout_s: int = setting(
        5,
        readers.number(1, 60),
        "Time limit for an endpoint's answer.",
        alias="QUEUE_HTTP_DELIVERY_TIMEOUT_SECS",
        unit="s",
    )
    http_delivery_batch_size: int = setting(
        50,
        readers.number(1, 1000),
        "Maximum number of concurrent deliveries per process.",
        alias="QUEUE_HTTP_DELIVERY_BATCH_SIZE",
    )
    http_delivery_per_endpoint: int = setting(
        10, readers.number(1, 1000), "Maximum number of concurrent deliveries to one endpoint per process."
    )
    http_delivery_delays: str = setting(
        "10,30,60,300",
        readers.delays,
        "Delays before the retries of a delivery; after the last one fails, the delivery is exhausted.",
        unit="s",
    )
    http_delivery_pause_s: int = setting(
        10, readers.number(0, 3600), "Pause of deliveries to an endpoint after five failures in a row.", unit="s"
    )
    http_delivery_private: bool = setting(
        False, readers.switch, "Allow endpoints at private, loopback and other non-public addresses."
    )
    http_delivery_retention_s: int = setting(
        86_400, readers.number(0, 31_536_000), "Time the records of successful deliveries are kept.", unit="s"
    )
    job_retention_s: int = setting(
        604_800,
        readers.number(86_400, 31_536_000),
        "Time completed, cancelled and dead jobs are kept, rounded to whole days.",
        unit="s",
    )
    rate_per_token: int = setting(
        0,
        readers.number(0, 1_000_000),
        "Maximum requests per second to the jobs API with one token, on all nodes together; 0 means unlimited.",
    )
    rate_per_tenant: int = setting(
        0,
        readers.number(0, 1_000_000),
        "Maximum requests per second to the jobs API from one tenant, on all nodes together; 0 means unlimited.",
    )
    drain_s: int = setting(
        10, readers.number(0, 600), "Time a stopping server gives running requests to finish.", unit="s"
    )
    schedule_enabled: bool = setting(
        True, readers.switch, "Fire schedules from this server.", alias="QUEUE_SCHEDULE_ENABLED"
    )
    schedule_poll_ms: int = setting(
        1000,
        readers.number(10, 60_000),
        "Maximum interval between checks for due schedules; known fire times are met exactly.",
        alias="QUEUE_SCHEDULE_POLL_MS",
        unit="ms",
    )
    schedule_batch_size: int = setting(
        32,
        readers.number(1, 10_000),
        "Maximum number of schedules fired in one transaction.",
        alias="QUEUE_SCHEDULE_BATCH_SIZE",
    )
    schedule_preview_count: int = setting(
        5,
        readers.number(0, 100),
        "Number of next fire times shown with a schedule and in a preview.",
        alias="QUEUE_SCHEDULE_PREVIEW_COUNT",
    )
    schedule_list_max: int = setting(
        1000, readers.number(1, 100_000), "Maximum number of schedules in one list.", alias="QUEUE_SCHEDULE_LIST_MAX"
    )
    dashboard_read_only: bool = setting(
        False, readers.switch, "Serve a dashboard that shows everything and changes nothing."
    )
    dashboard_payloads: bool = setting(True, readers.switch, "Show the contents of messages and jobs on the dashboard.")
    otlp_enabled: bool = setting(
        False,
        readers.switch,
        "Export traces over OTLP/HTTP. Requires the extra `otel`.",
        alias="OTLP_ENABLED",
    )
    otlp_endpoint: str = setting(
        "http://localhost:4318",
        readers.base_url,
        "URL of the OTLP/HTTP receiver; `/v1/traces` is added unless the URL has a path.",
        alias="OTLP_ENDPOINT",
    )
    otlp_protocol: str = setting(
        "http/protobuf",
        readers.otlp_protocol,
        "Protocol of the receiver: `http/protobuf`. gRPC is not supported.",
        alias="OTLP_PROTOCOL",
    )
    otlp_sample_rate: float = setting(
        1.0,
        readers.fraction,
        "Fraction of traces to export, 0 to 1. A caller that sampled its trace decides for this server.",
        alias="OTLP_SAMPLE_RATE",
    )
    origins: Mapping[str, Origin] = field(default_factory=dict, repr=False, compare=False)
    """Where the value of each setting comes from; settings with their default are absent."""

    @classmethod
    def load(
        cls,
        toml: Mapping[str, Any] | None = None,
        environment: Mapping[str, str] | None = None,
        flags: Mapping[str, Any] | None = None,
    ) -> Settings:
        """Combine the three layers. A flag of None was not given."""
        problems: list[str] = []
        values: dict[str, Any] = {}
        origins: dict[str, Origin] = {}
        for layer in (
            _from_file(toml or {}, problems),
            _from_environment(environment or {}, problems),
            _from_flags(flags or {}),
        ):
            _choose_store(layer, values, origins)
            for name, (raw, origin) in layer.items():
                try:
                    values[name] = KNOWN[name].read(raw)
                except ValueError as error:
                    problems.append(f"{origin.name} {error}")
                origins[name] = origin
        if not problems:
            settings = cls(**values, origins=origins)
            problems = settings._contradictions()
        if problems:
            raise SettingsError(problems)
        return settings

    @property
    def host(self) -> str:
        return split_address(self.address)[0]

    @property
    def port(self) -> int:
        return split_address(self.address)[1]

    @property
    def serves_simple(self) -> bool:
        return self.store in ("memory", "sqlite") if self.simple is None else self.simple

    @property
    def store(self) -> str:
        """`memory`, `sqlite`, `postgres` or `embedded`."""
        if self.memory:
            return "memory"
        if self.sqlite is not None:
            return "sqlite"
        return "postgres" if self.database_url is not None else "embedded"

    @property
    def auth_mode(self) -> str:
        return self.auth or ("open" if is_loopback(self.host) else "token")

    @property
    def open_to_others(self) -> bool:
        """Whether other machines can be expected to reach this server without authentication."""
        public = self.base_url is not None and not is_loopback(urlsplit(self.base_url).hostname or "")
        return self.auth_mode == "open" and (public or not is_loopback(self.host))

    @property
    def _auth_is_a_flag(self) -> bool:
        origin = self.origins.get("auth")
        return origin is not None and origin.layer == "flag"

    def as_plain(self) -> dict[str, Any]:
        """The settings that were set, as JSON values for another process. Contains secrets."""
        return {
            name: str(value) if isinstance(value, Path) else value
            for name, value in asdict(self).items()
            if name in self.origins
        }

    def _contradictions(self) -> list[str]:
        problems = []
        stores = [name for name in ("database_url", "sqlite", "memory") if getattr(self, name)]
        if len(stores) > 1:
            named = " and ".join(self.origins[name].name for name in stores)
            problems.append(f"{named} exclude each other: choose one store")
        elif self.workers > 1 and self.store in ("sqlite", "memory"):
            problems.append(f"{self.workers} workers require PostgreSQL: only one process can use a SQLite store")
        grpc = urlsplit(self.otlp_endpoint).netloc.endswith(":4317")
        if self.otlp_enabled and grpc and "otlp_protocol" not in self.origins:
            problems.append(
                f"{self.origins['otlp_endpoint'].name} has the port 4317, at which receivers expect gRPC: use 4318, "
                "the port of OTLP/HTTP, or set OTLP_PROTOCOL=http/protobuf if this receiver speaks HTTP at 4317"
            )
        if self.open_to_others and not self.allow_open and not self._auth_is_a_flag:
            where = self.address if not is_loopback(self.host) else self.base_url
            problems.append(
                f"refusing to serve {where} without authentication: set auth to token or sigv4, "
                "use a loopback address and base URL, or allow it with --allow-open or PENSTOCK_ALLOW_OPEN=1"
            )
        return problems


class Known(NamedTuple):
    """A setting as the other functions of this package need it."""

    name: str
    default: Any
    read: Reader
    text: str
    alias: str | None
    flag: str | None
    unit: str
    unset: str
    secret: bool

    @property
    def variable(self) -> str:
        """The environment variable; `alias` is accepted too."""
        return f"PENSTOCK_{self.name.upper()}"

    @property
    def variables(self) -> tuple[str, ...]:
        return (self.variable,) if self.alias is None else (self.variable, self.alias)


KNOWN = {
    found.name: Known(found.name, found.default, **found.metadata)
    for found in fields(Settings)
    if found.metadata and found.default is not MISSING
}

Layer = dict[str, tuple[Any, Origin]]


def _from_file(toml: Mapping[str, Any], problems: list[str]) -> Layer:
    problems += [_unknown(name) for name in toml if name not in KNOWN]
    return {name: (value, Origin("file", f"'{name}'")) for name, value in toml.items() if name in KNOWN}


def _from_flags(flags: Mapping[str, Any]) -> Layer:
    return {
        name: (value, Origin("flag", KNOWN[name].flag or f"--{name.replace('_', '-')}"))
        for name, value in flags.items()
        if value is not None
    }


def _from_environment(environment: Mapping[str, str], problems: list[str]) -> Layer:
    ours = {found.variable for found in KNOWN.values()}
    for variable in environment:
        # Kubernetes and our own clients set other PENSTOCK_ variables, so only near misses are errors.
        if variable.startswith("PENSTOCK_") and variable not in ours:
            problems += [
                f"unknown setting '{variable}'; did you mean '{close}'?"
                for close in difflib.get_close_matches(variable, ours, n=1, cutoff=0.9)
            ]
    layer: Layer = {}
    for name, found in KNOWN.items():
        given = [variable for variable in found.variables if environment.get(variable)]
        if len(given) > 1 and _differ(found.read, *(environment[variable] for variable in given)):
            problems.append(f"{' and '.join(given)} have different values: set only one of them")
        elif given:
            layer[name] = (environment[given[0]], Origin("environment", given[0]))
    return layer


def _differ(read: Reader, first: str, second: str) -> bool:
    try:
        return bool(read(first) != read(second))
    except ValueError:
        return first != second


def _unknown(name: str) -> str:
    close = difflib.get_close_matches(name, KNOWN, n=1, cutoff=0.5)
    return f"unknown setting '{name}'" + (f"; did you mean '{close[0]}'?" if close else "")


def _choose_store(layer: Layer, values: dict[str, Any], origins: dict[str, Origin]) -> None:
    """When a layer chooses a store, forget the store settings of earlier layers."""
    if any(name in layer and layer[name][0] not in (None, False) for name in STORES):
        for name in STORES:
            values.pop(name, None)
            origins.pop(name, None)


def variable_value(name: str, environment: Mapping[str, str] = os.environ) -> str | None:
    """The text of a setting in the environment, unchecked."""
    return next((environment[found] for found in KNOWN[name].variables if environment.get(found)), None)


def read_file(path: Path | None, environment: Mapping[str, str] = os.environ) -> dict[str, Any]:
    """Read the given file, or the one that `PENSTOCK_CONFIG` names, or `./penstock.toml` if it exists.

    A file whose name ends in `.ini` has the keys of the simple protocol's configuration.
    """
    named = path or (Path(environment["PENSTOCK_CONFIG"]) if environment.get("PENSTOCK_CONFIG") else None)
    found = named or Path("penstock.toml")
    if named is None and not found.is_file():
        return {}
    import tomllib

    try:
        text = found.read_text()
        if found.suffix == ".ini":
            values, problems = ini.parse(text)
            if problems:
                raise SettingsError([f"{found}: {problem}" for problem in problems])
            return values
        return tomllib.loads(text)
    except OSError as error:
        raise SettingsError([f"cannot read {found}: {error.strerror}"]) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError([f"{found} is not valid TOML: {error}"]) from None

"""Settings: what a server can be told, from a file, the environment and flags; the later one wins.

A layer that does not mention a setting says nothing about it: no layer overwrites another with a default. All
that is wrong is reported at once.
"""

from __future__ import annotations

import difflib
import ipaddress
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, cast

from penstock import limits

Reader = Callable[[Any], Any]
"""Turns what a layer holds, text or a TOML value, into the value of a setting; `ValueError` says why not."""

STORES = ("database_url", "sqlite", "memory", "data")
LEVELS = ("trace", "debug", "info", "warning", "warn", "error", "critical", "off")


class SettingsError(ValueError):
    """Every problem found, one per line."""

    def __init__(self, problems: list[str]) -> None:
        self.problems = problems
        super().__init__("\n".join(problems))


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError("must be a text")
    return value


def _path(value: Any) -> Path:
    if isinstance(value, Path):
        return value
    return Path(_text(value)).expanduser()


def _switch(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    known = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
    if isinstance(value, str) and value.lower() in known:
        return known[value.lower()]
    raise ValueError("must be true or false")


def _number(low: int, high: int) -> Reader:
    def read(value: Any) -> int:
        if isinstance(value, str) and re.fullmatch(r"[+-]?[0-9]{1,18}", value.strip()):
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise ValueError(f"must be a whole number from {low} to {high}")
        return value

    return read


def _choice(*choices: str) -> Reader:
    def read(value: Any) -> str:
        if isinstance(value, str) and value.lower() in choices:
            return value.lower()
        raise ValueError(f"must be one of {', '.join(choices)}")

    return read


def _level(value: Any) -> str:
    """A level, or the form `name=level,level` that says more or less about one part."""
    text = _text(value).lower()
    for directive in text.split(","):
        if directive.rpartition("=")[2].strip() not in LEVELS:
            raise ValueError(f"must be one of {', '.join(LEVELS)}, or like 'asyncpg=debug,info'")
    return text


def _address(value: Any) -> str:
    host, port = split_address(_text(value))
    return join_address(host, port)


def _database(value: Any) -> str:
    text = _text(value)
    # Not repeated in the message, nor any part of it: it may hold a password.
    if not text.startswith(("postgresql://", "postgres://")):
        raise ValueError("must start with postgresql://")
    hosts = re.split(r"[/?#]", text.partition("://")[2], maxsplit=1)[0].rpartition("@")[2]
    if not all(re.fullmatch(r"(\[[^\[\]]*\]|[^:\[\]]*)(:[0-9]{0,5})?", host) for host in hosts.split(",")):
        raise ValueError(
            "has a port that is no number, or a password in which / is not written as %2F, @ as %40, # as %23, "
            "? as %3F or % as %25"
        )
    return text


def _delays(value: Any) -> str:
    text = _text(value).replace(" ", "")
    if not re.fullmatch(r"[0-9]{1,5}(,[0-9]{1,5}){0,19}", text):
        raise ValueError("must be up to 20 whole numbers of seconds, like 10,30,60,300")
    return text


def _base_url(value: Any) -> str:
    text = _text(value).rstrip("/")
    if not re.fullmatch(r"https?://[^\s/?#@]+(/[^\s?#]*)?", text):
        raise ValueError("must be like https://queues.example.com")
    return text


def split_address(text: str) -> tuple[str, int]:
    """`host:port`, `[v6]:port` or `:port` (every interface) in two."""
    host, colon, port = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    host = host[1:-1] if bracketed else host
    if not colon or not re.fullmatch(r"[0-9]{1,5}", port) or int(port) > 65_535 or (":" in host and not bracketed):
        raise ValueError("must be like 127.0.0.1:9324 or [::1]:9324")
    if not re.fullmatch(r"[A-Za-z0-9._:%-]*", host):
        raise ValueError("must be like 127.0.0.1:9324 or [::1]:9324")
    return host or "0.0.0.0", int(port)  # noqa: S104


def join_address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _about(env: str, read: Reader, text: str, *, unit: str = "", secret: bool = False) -> dict[str, Any]:
    return {"env": env, "read": read, "text": text, "unit": unit, "secret": secret}


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Everything a server can be told. Only the composition root and the command line read it."""

    database_url: str | None = field(
        default=None,
        repr=False,
        metadata=_about(
            "DATABASE_URL", _database, "PostgreSQL to use, as a URL; unset starts an embedded one.", secret=True
        ),
    )
    sqlite: Path | None = field(
        default=None, metadata=_about("PENSTOCK_SQLITE", _path, "SQLite file to use instead of PostgreSQL.")
    )
    memory: bool = field(
        default=False,
        metadata=_about("PENSTOCK_MEMORY", _switch, "Keep everything in memory: gone when the server stops."),
    )
    data: Path | None = field(
        default=None,
        metadata=_about(
            "PENSTOCK_DATA", _path, "Directory of the embedded PostgreSQL; unset: one in the user's data directory."
        ),
    )
    address: str = field(
        default="127.0.0.1:9324",
        metadata=_about("QUEUE_ADDRESS", _address, "Where to listen, `host:port`; port 0 picks a free one."),
    )
    base_url: str | None = field(
        default=None,
        metadata=_about(
            "QUEUE_BASE_URL", _base_url, "The URL clients reach this server at, when it is not its address."
        ),
    )
    auth: str | None = field(
        default=None,
        metadata=_about(
            "PENSTOCK_AUTH",
            _choice("open", "token", "sigv4"),
            "`token` asks for an API token, `sigv4` also lets AWS SDKs in by their signatures, "
            "`open` asks for any Authorization header; unset: `open` on a loopback address, `token` on any other.",
        ),
    )
    strict: bool = field(
        default=False,
        metadata=_about(
            "PENSTOCK_STRICT",
            _switch,
            "Answer SQS calls as AWS does to the letter: a minute's pause after a delete or a purge, "
            "a limit of messages in flight.",
        ),
    )
    auto_confirm: bool = field(
        default=False,
        metadata=_about(
            "PENSTOCK_AUTO_CONFIRM",
            _switch,
            "Take HTTP and mail subscriptions of SNS as confirmed at once, without asking the endpoint.",
        ),
    )
    default_visibility_timeout_s: int = field(
        default=30,
        metadata=_about(
            "QUEUE_DEFAULT_VISIBILITY_TIMEOUT",
            _number(*limits.VISIBILITY_TIMEOUT_S),
            "How long a received message stays hidden, on queues created without a timeout of their own.",
            unit="s",
        ),
    )
    max_connections: int = field(
        default=10,
        metadata=_about("QUEUE_MAX_CONNECTIONS", _number(1, 1000), "PostgreSQL connections per process, at most."),
    )
    workers: int = field(
        default=1,
        metadata=_about("PENSTOCK_WORKERS", _number(1, 256), "Server processes; more than one needs PostgreSQL."),
    )
    batching: bool = field(
        default=True,
        metadata=_about("PENSTOCK_BATCHING", _switch, "Let requests that arrive together share one statement."),
    )
    linger_ms: int = field(
        default=0,
        metadata=_about(
            "QUEUE_LINGER_MS", _number(0, 10_000), "How long a send waits for others to share its statement.", unit="ms"
        ),
    )
    log_level: str = field(
        default="info",
        metadata=_about("LOG_LEVEL", _level, "Least important record to log; `name=level` sets one part's own."),
    )
    log_format: str = field(
        default="auto",
        metadata=_about(
            "PENSTOCK_LOG_FORMAT", _choice("auto", "json", "console"), "`auto`: console on a terminal, else JSON."
        ),
    )
    max_header_bytes: int = field(
        default=32_768,
        metadata=_about(
            "PENSTOCK_MAX_HEADER_BYTES",
            _number(1024, 1_048_576),
            "Headers of one request together; larger ones are answered 431.",
            unit="bytes",
        ),
    )
    max_headers: int = field(
        default=100, metadata=_about("PENSTOCK_MAX_HEADERS", _number(8, 10_000), "Headers of one request, at most.")
    )
    request_timeout_s: int = field(
        default=30,
        metadata=_about(
            "PENSTOCK_REQUEST_TIMEOUT",
            _number(1, 3600),
            "How long a body may take to arrive, and a request to be answered; a long poll's wait comes on top.",
            unit="s",
        ),
    )
    keep_alive_s: int = field(
        default=60,
        metadata=_about("PENSTOCK_KEEP_ALIVE", _number(1, 3600), "How long an idle connection is kept.", unit="s"),
    )
    max_client_connections: int = field(
        default=10_000,
        metadata=_about(
            "PENSTOCK_MAX_CLIENT_CONNECTIONS",
            _number(1, 1_000_000),
            "Open client connections per process, at most.",
        ),
    )
    max_requests_in_flight: int = field(
        default=8_000,
        metadata=_about(
            "PENSTOCK_MAX_REQUESTS_IN_FLIGHT",
            _number(1, 1_000_000),
            "Requests under way per process, at most; more are answered 503.",
        ),
    )
    http_delivery: bool = field(
        default=True,
        metadata=_about("QUEUE_HTTP_DELIVERY_ENABLED", _switch, "Make webhook deliveries in this process."),
    )
    http_delivery_poll_ms: int = field(
        default=1000,
        metadata=_about(
            "QUEUE_HTTP_DELIVERY_POLL_MS", _number(10, 60_000), "How often to look for due deliveries.", unit="ms"
        ),
    )
    http_delivery_timeout_s: int = field(
        default=5,
        metadata=_about(
            "QUEUE_HTTP_DELIVERY_TIMEOUT_SECS", _number(1, 60), "How long an endpoint may take to answer.", unit="s"
        ),
    )
    http_delivery_batch_size: int = field(
        default=50,
        metadata=_about(
            "QUEUE_HTTP_DELIVERY_BATCH_SIZE", _number(1, 1000), "Deliveries under way per process, at most."
        ),
    )
    http_delivery_per_endpoint: int = field(
        default=10,
        metadata=_about(
            "PENSTOCK_HTTP_DELIVERY_PER_ENDPOINT",
            _number(1, 1000),
            "Of them, deliveries to one endpoint, at most.",
        ),
    )
    http_delivery_delays: str = field(
        default="10,30,60,300",
        metadata=_about(
            "PENSTOCK_HTTP_DELIVERY_DELAYS",
            _delays,
            "How long after each failure a delivery is tried again; after the last it is exhausted.",
            unit="s",
        ),
    )
    http_delivery_rest_s: int = field(
        default=10,
        metadata=_about(
            "PENSTOCK_HTTP_DELIVERY_REST",
            _number(0, 3600),
            "How long an endpoint is left alone after five failures in a row.",
            unit="s",
        ),
    )
    http_delivery_private: bool = field(
        default=False,
        metadata=_about(
            "PENSTOCK_HTTP_DELIVERY_PRIVATE",
            _switch,
            "Let endpoints be at private, loopback and other addresses that are not public.",
        ),
    )
    http_delivery_retention_s: int = field(
        default=86_400,
        metadata=_about(
            "PENSTOCK_HTTP_DELIVERY_RETENTION",
            _number(0, 31_536_000),
            "How long deliveries that were made are kept to be looked at.",
            unit="s",
        ),
    )
    job_retention_s: int = field(
        default=604_800,
        metadata=_about(
            "PENSTOCK_JOB_RETENTION",
            _number(86_400, 31_536_000),
            "How long jobs that are completed, cancelled or dead are kept, in whole days.",
            unit="s",
        ),
    )
    rate_per_token: int = field(
        default=0,
        metadata=_about(
            "PENSTOCK_RATE_PER_TOKEN",
            _number(0, 1_000_000),
            "Requests a second to the jobs API with one token, over all nodes; 0 for no limit.",
        ),
    )
    rate_per_tenant: int = field(
        default=0,
        metadata=_about(
            "PENSTOCK_RATE_PER_TENANT",
            _number(0, 1_000_000),
            "The same for all tokens of one tenant together.",
        ),
    )
    drain_s: int = field(
        default=10,
        metadata=_about(
            "PENSTOCK_DRAIN", _number(0, 600), "How long a stopping server finishes what is under way.", unit="s"
        ),
    )
    schedule_enabled: bool = field(
        default=True,
        metadata=_about("QUEUE_SCHEDULE_ENABLED", _switch, "Fire schedules from this server."),
    )
    schedule_poll_ms: int = field(
        default=1000,
        metadata=_about(
            "QUEUE_SCHEDULE_POLL_MS",
            _number(10, 60_000),
            "How often to look for schedules that are due, at least; a known next one is waited for exactly.",
            unit="ms",
        ),
    )
    schedule_batch_size: int = field(
        default=32,
        metadata=_about(
            "QUEUE_SCHEDULE_BATCH_SIZE", _number(1, 10_000), "Schedules fired in one transaction, at most."
        ),
    )
    schedule_preview_count: int = field(
        default=5,
        metadata=_about(
            "QUEUE_SCHEDULE_PREVIEW_COUNT", _number(0, 100), "Next fires shown with a schedule and in a preview."
        ),
    )
    schedule_list_max: int = field(
        default=1000,
        metadata=_about("QUEUE_SCHEDULE_LIST_MAX", _number(1, 100_000), "Schedules that one listing shows, at most."),
    )
    origins: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    """Which layer each setting came from, of those that were set."""

    @classmethod
    def load(
        cls,
        toml: Mapping[str, Any] | None = None,
        environment: Mapping[str, str] | None = None,
        flags: Mapping[str, Any] | None = None,
    ) -> Settings:
        """The settings that the three layers give together. A flag of None was not given."""
        problems: list[str] = []
        layers = {
            "file": _known(toml or {}, problems),
            "environment": _from_environment(environment or {}, problems),
            "flag": {name: value for name, value in (flags or {}).items() if value is not None},
        }
        values: dict[str, Any] = {}
        origins: dict[str, str] = {}
        for origin, layer in layers.items():
            _choose_store(layer, values, origins)
            for name, raw in layer.items():
                try:
                    values[name] = _by_name()[name].metadata["read"](raw)
                except ValueError as error:
                    problems.append(f"{_call(name, origin)} {error}")
                origins[name] = origin
        if not problems:
            settings = cls(**values, origins=origins)
            problems = settings._disagreements()
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

    def as_plain(self) -> dict[str, Any]:
        """What was set, as JSON can carry it to another process. Holds secrets."""
        return {
            name: str(value) if isinstance(value, Path) else value
            for name, value in asdict(self).items()
            if name in self.origins
        }

    def _disagreements(self) -> list[str]:
        problems = []
        stores = [name for name in ("database_url", "sqlite", "memory") if getattr(self, name)]
        if len(stores) > 1:
            named = " and ".join(_call(name, self.origins.get(name, "flag")) for name in stores)
            problems.append(f"{named} exclude each other: choose one store")
        elif self.workers > 1 and self.store in ("sqlite", "memory"):
            problems.append(f"{self.workers} workers need PostgreSQL: a SQLite store belongs to one process")
        if self.auth == "open" and not is_loopback(self.host) and self.origins.get("auth") != "flag":
            problems.append(
                f"refusing to serve {self.address} without authentication: "
                "use token or sigv4 authentication, a loopback address, or say --auth open on the command line"
            )
        return problems


def _by_name() -> dict[str, Field[Any]]:
    return {found.name: found for found in fields(Settings) if found.metadata}


def _call(name: str, origin: str) -> str:
    """A setting, called as the layer it came from calls it."""
    if origin == "environment":
        return cast(str, _by_name()[name].metadata["env"])
    return f"--{name.replace('_', '-')}" if origin == "flag" else f"'{name}'"


def _choose_store(layer: Mapping[str, Any], values: dict[str, Any], origins: dict[str, str]) -> None:
    """A layer that names a store means that one: what lower layers said about stores is void."""
    if any(layer.get(name) not in (None, False) for name in STORES):
        for name in STORES:
            values.pop(name, None)
            origins.pop(name, None)


def _known(layer: Mapping[str, Any], problems: list[str]) -> dict[str, Any]:
    known = _by_name()
    for name in layer:
        if name not in known:
            problems.append(_unknown(name, known))
    return {name: value for name, value in layer.items() if name in known}


def _unknown(name: str, known: Mapping[str, Any]) -> str:
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f"unknown setting '{name}'" + (f"; did you mean '{close[0]}'?" if close else "")


def _from_environment(environment: Mapping[str, str], problems: list[str]) -> dict[str, Any]:
    names = {found.metadata["env"]: found.name for found in _by_name().values()}
    for variable in environment:
        # Other programs have variables of their own; only what looks like a slip of ours is an error.
        if variable.startswith("PENSTOCK_") and variable not in names:
            close = difflib.get_close_matches(variable, names, n=1, cutoff=0.9)
            if close:
                problems.append(f"unknown setting '{variable}'; did you mean '{close[0]}'?")
    return {name: environment[variable] for variable, name in names.items() if environment.get(variable)}


def read_file(path: Path | None, environment: Mapping[str, str] = os.environ) -> dict[str, Any]:
    """The settings file: the one named, or `PENSTOCK_CONFIG`, or `penstock.toml` here when there is one."""
    named = path or (Path(environment["PENSTOCK_CONFIG"]) if environment.get("PENSTOCK_CONFIG") else None)
    found = named or Path("penstock.toml")
    if named is None and not found.is_file():
        return {}
    import tomllib

    try:
        return tomllib.loads(found.read_text())
    except OSError as error:
        raise SettingsError([f"cannot read {found}: {error.strerror}"]) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError([f"{found} is not TOML: {error}"]) from None


_PASSWORD = re.compile(r"(?<=://)([^:/?#\s]*):(.*)@(?=[^@]*$)")
_PASSWORD_PARAMETER = re.compile(r"(?i)\b(password|sslpassword)=[^&\s]*")


def redact(url: str) -> str:
    """A database URL that may be shown."""
    return _PASSWORD_PARAMETER.sub(r"\1=***", _PASSWORD.sub(r"\1:***@", url))


def shown(settings: Settings) -> list[tuple[str, str, str]]:
    """Name, value and origin of every setting, without secrets."""
    rows = []
    for name, found in _by_name().items():
        value = getattr(settings, name)
        text = "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
        rows.append((name, redact(text) if found.metadata["secret"] else text, settings.origins.get(name, "default")))
    return rows


def markdown() -> str:
    """The reference table of all settings."""
    lines = ["| setting | environment | default | unit | meaning |", "|---|---|---|---|---|"]
    for name, found in _by_name().items():
        default = found.default
        assert default is not MISSING
        text = "" if default is None else f"`{str(default).lower() if isinstance(default, bool) else default}`"
        about = found.metadata
        lines.append(f"| `{name}` | `{about['env']}` | {text} | {about['unit']} | {about['text']} |")
    return "\n".join(lines) + "\n"

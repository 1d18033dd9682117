"""Readers turn the text or TOML value of a setting into its Python value; a `ValueError` says what is wrong."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

Reader = Callable[[Any], Any]

LEVELS = ("trace", "debug", "info", "warning", "warn", "error", "critical", "off")


class SettingsError(ValueError):
    """All problems found in the settings, one per line."""

    def __init__(self, problems: list[str]) -> None:
        self.problems = problems
        super().__init__("\n".join(problems))


def text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError("must be a non-empty string")
    return value


def path(value: Any) -> Path:
    if isinstance(value, Path):
        return value
    return Path(text(value)).expanduser()


def switch(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    known = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
    if isinstance(value, str) and value.lower() in known:
        return known[value.lower()]
    raise ValueError("must be true or false")


def number(low: int, high: int) -> Reader:
    def read(value: Any) -> int:
        if isinstance(value, str) and re.fullmatch(r"[+-]?[0-9]{1,18}", value.strip()):
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise ValueError(f"must be a whole number from {low} to {high}")
        return value

    return read


def fraction(value: Any) -> float:
    try:
        found = float(value) if not isinstance(value, bool) else -1.0
    except (TypeError, ValueError):
        found = -1.0
    if not 0.0 <= found <= 1.0:
        raise ValueError("must be a number from 0 to 1")
    return found


def choice(*choices: str) -> Reader:
    def read(value: Any) -> str:
        if isinstance(value, str) and value.lower() in choices:
            return value.lower()
        raise ValueError(f"must be one of {', '.join(choices)}")

    return read


def log_level(value: Any) -> str:
    """A level, or a comma-separated list of `logger=level` and a default level."""
    directives = text(value).lower()
    for directive in directives.split(","):
        if directive.rpartition("=")[2].strip() not in LEVELS:
            raise ValueError(f"must be one of {', '.join(LEVELS)}, or a list such as 'asyncpg=debug,info'")
    return directives


def address(value: Any) -> str:
    host, port = split_address(text(value))
    return join_address(host, port)


def database_url(value: Any) -> str:
    url = text(value)
    # The messages repeat no part of the URL: it may hold a password.
    if not url.startswith(("postgresql://", "postgres://")):
        raise ValueError("must start with postgresql://")
    hosts = re.split(r"[/?#]", url.partition("://")[2], maxsplit=1)[0].rpartition("@")[2]
    if not all(re.fullmatch(r"(\[[^\[\]]*\]|[^:\[\]]*)(:[0-9]{0,5})?", host) for host in hosts.split(",")):
        raise ValueError(
            "has a port that is not a number, or a password with special characters: "
            "write / as %2F, @ as %40, # as %23, ? as %3F and % as %25"
        )
    return url


def delays(value: Any) -> str:
    numbers = text(value).replace(" ", "")
    if not re.fullmatch(r"[0-9]{1,5}(,[0-9]{1,5}){0,19}", numbers):
        raise ValueError("must be up to 20 comma-separated whole numbers of seconds, such as 10,30,60,300")
    return numbers


def base_url(value: Any) -> str:
    url = text(value).rstrip("/")
    if not re.fullmatch(r"https?://[^\s/?#@]+(/[^\s?#]*)?", url):
        raise ValueError("must be a URL such as https://queues.example.com")
    return url


def otlp_protocol(value: Any) -> str:
    if text(value) == "http/protobuf":
        return "http/protobuf"
    raise ValueError(
        "must be http/protobuf: traces are exported over HTTP, to port 4318 of most receivers, never over gRPC"
    )


def split_address(address: str) -> tuple[str, int]:
    """Split `host:port`, `[v6]:port` or `:port` (all interfaces) into host and port."""
    host, colon, port = address.rpartition(":")
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
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False

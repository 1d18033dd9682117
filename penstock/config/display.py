"""Settings as text: for `penstock config`, for `--help` and for the reference page."""

from __future__ import annotations

import re
from typing import Any

from penstock.config.settings import KNOWN, Known, Settings

_PASSWORD = re.compile(r"(?<=://)([^:/?#\s]*):(.*)@(?=[^@]*$)")
_PASSWORD_PARAMETER = re.compile(r"(?i)\b(password|sslpassword)=[^&\s]*")


def redact(url: str) -> str:
    """Remove the password from a database URL."""
    return _PASSWORD_PARAMETER.sub(r"\1=***", _PASSWORD.sub(r"\1:***@", url))


def shown(settings: Settings) -> list[tuple[str, str, str]]:
    """Name, value and origin of every setting, without secrets."""
    rows = []
    for name, found in KNOWN.items():
        text = _plain(getattr(settings, name))
        origin = settings.origins[name].layer if name in settings.origins else "default"
        rows.append((name, redact(text) if found.secret else text, origin))
    return rows


def describe(name: str) -> str:
    """Meaning and default of a setting, as help for its flag."""
    found = KNOWN[name]
    return f"{found.text} Default: {_default(found)}.".replace("`", "")


def markdown() -> str:
    """The table of all settings in docs/reference.md."""
    lines = ["| setting | variable | flag | default | meaning |", "|---|---|---|---|---|"]
    for name, found in KNOWN.items():
        variables = " or ".join(f"`{variable}`" for variable in found.variables)
        flag = f"`{found.flag}`" if found.flag else ""
        lines.append(f"| `{name}` | {variables} | {flag} | {_default(found)} | {found.text} |")
    return "\n".join(lines) + "\n"


def _default(found: Known) -> str:
    return found.unset if found.default is None else f"`{_plain(found.default)}` {found.unit}".strip()


def _plain(value: Any) -> str:
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)

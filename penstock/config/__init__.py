"""Server settings from `penstock.toml`, environment variables and command-line flags."""

from penstock.config.display import describe, markdown, redact, shown
from penstock.config.ini import generate as generate_ini
from penstock.config.readers import SettingsError, is_loopback, join_address, split_address
from penstock.config.settings import Settings, read_file, variable_value

__all__ = [
    "Settings",
    "SettingsError",
    "describe",
    "generate_ini",
    "is_loopback",
    "join_address",
    "markdown",
    "read_file",
    "redact",
    "shown",
    "split_address",
    "variable_value",
]

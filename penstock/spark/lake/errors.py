"""What goes wrong with a lake."""

from __future__ import annotations


class LakeError(Exception):
    """A lake's table that cannot be read or written like this."""

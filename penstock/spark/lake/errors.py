"""Errors of the lake."""

from __future__ import annotations


class LakeError(Exception):
    """A table of the lake cannot be read or written as asked."""

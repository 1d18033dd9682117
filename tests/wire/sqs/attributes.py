"""Attributes of messages as SDKs of SQS write them."""

from __future__ import annotations

from typing import Any


def attribute(value: str | bytes, kind: str | None = None) -> dict[str, Any]:
    if isinstance(value, bytes):
        return {"DataType": kind or "Binary", "BinaryValue": value}
    return {"DataType": kind or "String", "StringValue": value}

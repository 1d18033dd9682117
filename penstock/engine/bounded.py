"""A cache bounded by the bytes it holds, not by the number of its entries."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")

ENTRY_BYTES = 200
"""What an entry takes beside its content."""


class BoundedCache(Generic[Key, Value]):
    """Forgets its oldest entries when it is full. An entry larger than a tenth of the room is not kept."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._entries: dict[Key, tuple[int, Value]] = {}
        self.bytes = 0

    def get(self, key: Key) -> Value | None:
        found = self._entries.get(key)
        return found[1] if found is not None else None

    def pop(self, key: Key) -> Value | None:
        found = self._entries.pop(key, None)
        if found is None:
            return None
        self.bytes -= found[0]
        return found[1]

    def put(self, key: Key, value: Value, size: int) -> None:
        self.pop(key)
        size += ENTRY_BYTES
        if size > self._most_bytes // 10:
            return
        self._entries[key] = (size, value)
        self.bytes += size
        while self.bytes > self._most_bytes:
            self.pop(next(iter(self._entries)))

    def __len__(self) -> int:
        return len(self._entries)

"""What the operator of a server decides about the simple protocol. The defaults are those its clients expect."""

from __future__ import annotations

from dataclasses import dataclass

from penstock import limits
from penstock.model import QueueSettings

KIB = 1024
ENVELOPE = 16 * KIB
"""Bytes of a request beside its messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimpleSettings:
    max_queue_length: int = 5000
    max_message_bytes: int = 256 * KIB
    max_body_bytes: int = 1024 * KIB
    """Of requests that carry no message."""
    max_receives: int = 4
    retention_s: int = 345_600
    wait_s: int = 20
    dedup_window_s: int = 300
    priority: int = limits.DEFAULT_PRIORITY

    @property
    def send_body_bytes(self) -> int:
        """Twice the message: JSON writes a quote or a line break as two characters."""
        return 2 * self.max_message_bytes + ENVELOPE

    @property
    def batch_body_bytes(self) -> int:
        return 10 * self.max_message_bytes + ENVELOPE

    def new_queue(self, name: str) -> dict[str, object]:
        """Settings of a queue that its first use creates."""
        chosen: dict[str, object] = {
            "max_length": self.max_queue_length,
            "max_message_bytes": self.max_message_bytes,
            "retention_s": self.retention_s,
            "dedup_window_s": self.dedup_window_s,
        }
        return chosen | {"lifo": name.endswith("_lifo"), "labels": {LABEL: _joined(chosen.values())}}

    def outdated(self, settings: QueueSettings) -> bool:
        """Whether the queue still has what an earlier start of the server chose for it, and this one chose otherwise.

        What anyone has changed since, over another protocol, is theirs to keep.
        """
        kept = (
            settings.max_length,
            settings.max_message_bytes,
            settings.retention_s,
            settings.dedup_window_s,
        )
        chosen = (
            self.max_queue_length,
            self.max_message_bytes,
            self.retention_s,
            self.dedup_window_s,
        )
        return kept != chosen and settings.labels.get(LABEL) == _joined(kept)


LABEL = "simple"
"""A queue's label that notes the settings it was given."""


def _joined(values: object) -> str:
    return " ".join(map(str, values))  # type: ignore[call-overload]

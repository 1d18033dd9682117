"""The settings of a queue as a form: which fields there are, and how they are read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.errors import Invalid
from penstock.model.queues import DedupScope, ThroughputLimit
from penstock.web.forms import whole_number


@dataclass(frozen=True, slots=True)
class NumberField:
    name: str
    label: str
    unit: str
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Switch:
    name: str
    label: str
    fifo: bool | None = None
    """True: only of FIFO queues; False: only of others."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Only of FIFO queues."""

    name: str
    label: str
    options: type[DedupScope] | type[ThroughputLimit]


NUMBERS = (
    NumberField("visibility_timeout_s", "Visibility timeout", "s"),
    NumberField("delay_s", "Delay", "s"),
    NumberField("retention_s", "Retention", "s"),
    NumberField("receive_wait_s", "Wait of a receive", "s"),
    NumberField("max_message_bytes", "Largest message", "bytes"),
    NumberField("max_length", "Most messages", "empty: unlimited", optional=True),
    NumberField("max_receives", "Receives before dead letter", "empty: unlimited", optional=True),
    NumberField("dedup_window_s", "Deduplication window", "s"),
)
CHOICES = (
    Choice("dedup_scope", "Deduplicate within", DedupScope),
    Choice("throughput_limit", "Throughput limit per", ThroughputLimit),
)
SWITCHES = (
    Switch("lifo", "Newest first (LIFO)", fifo=False),
    Switch("archive", "Keep a copy of deleted messages in the archive"),
    Switch("content_dedup", "Deduplicate by content", fifo=True),
)


def read_settings(form: Mapping[str, str], *, fifo: bool) -> dict[str, Any]:
    """Every setting of the form. A switch that is off is not sent, so a missing one is off."""
    changes: dict[str, Any] = {}
    for number in NUMBERS:
        value = whole_number(form, number.name)
        if value is not None or number.optional:
            changes[number.name] = value
    for switch in SWITCHES:
        if switch.fifo is None or switch.fifo == fifo:
            changes[switch.name] = form.get(switch.name) == "yes"
    for choice in CHOICES:
        if fifo and choice.name in form:
            if form[choice.name] not in list(choice.options):
                raise Invalid(f"{choice.name} is one of {', '.join(choice.options)}", field=choice.name)
            changes[choice.name] = choice.options(form[choice.name])
    changes["dead_letter_queue"] = form.get("dead_letter_queue", "").strip() or None
    return changes

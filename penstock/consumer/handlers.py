"""Which function handles which type of message, and under what terms."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from penstock.consumer.messages import Message, RateLimit

Function = TypeVar("Function", bound=Callable[..., Any])

EVERYTHING = "*"
KEYS = ("extra1", "extra2", "extra3", "extra4", "type")
"""What messages may be ordered by."""


@dataclass(frozen=True, slots=True)
class Handler:
    call: Callable[..., Any]
    transactional: bool = False
    ordered_by: str | None = None
    rate_limit: RateLimit | None = None


class Handlers:
    def __init__(self) -> None:
        self._by_type: dict[str, Handler] = {}

    def on(
        self,
        type: str = EVERYTHING,
        *,
        transactional: bool = False,
        ordered_by: str | None = None,
        rate_limit: RateLimit | None = None,
    ) -> Callable[[Function], Function]:
        """As `Worker.on` says."""
        if ordered_by is not None and ordered_by not in KEYS:
            raise ValueError(f"ordered_by must be one of {', '.join(KEYS)}, not {ordered_by!r}")

        def register(function: Function) -> Function:
            if type in self._by_type:
                raise ValueError(f"messages of type {type!r} have a handler already")
            self._by_type[type] = Handler(function, transactional, ordered_by, rate_limit)
            return function

        return register

    def find(self, message: Message) -> Handler | None:
        return self._by_type.get(message.type) or self._by_type.get(EVERYTHING)

    def __iter__(self) -> Iterator[Handler]:
        return iter(self._by_type.values())

    def limits(self) -> set[RateLimit]:
        return {handler.rate_limit for handler in self if handler.rate_limit is not None}

    def limit(self, message: Message) -> RateLimit | None:
        handler = self.find(message)
        return handler.rate_limit if handler is not None else None

    def key(self, message: Message) -> tuple[str, str] | None:
        """What a message is ordered by: column and value; None when nothing waits for it."""
        handler = self.find(message)
        if handler is None or handler.ordered_by is None:
            return None
        value = getattr(message, handler.ordered_by)
        return None if value is None else (handler.ordered_by, value)

    def sequences(self, messages: list[Message]) -> list[list[Message]]:
        """Messages that must follow each other, together; any other alone. Lanes in order of their first message."""
        sequences: dict[object, list[Message]] = {}
        for message in messages:
            sequences.setdefault(self.key(message) or message.msg_id, []).append(message)
        return list(sequences.values())

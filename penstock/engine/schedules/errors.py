"""What the readers of schedules say about a text they cannot read. Pure."""

from __future__ import annotations


class ScheduleTextError(ValueError):
    """What could be read of a text, what could not, and what may have been meant."""

    def __init__(self, why: str, *, understood: str = "", rest: str = "", suggestion: str | None = None) -> None:
        self.why = why
        self.understood = understood
        self.rest = rest
        self.suggestion = suggestion
        super().__init__(self.sentence)

    @property
    def sentence(self) -> str:
        parts = [self.why]
        if self.understood:
            parts.append(f"understood '{self.understood}'")
        if self.rest:
            parts.append(f"not understood: '{self.rest}'")
        if self.suggestion:
            parts.append(f"did you mean '{self.suggestion}'?")
        return "; ".join(parts)

"""Evaluates alert rules of Prometheus over scraped text: the expressions that deploy/generate.py writes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

Labels = frozenset[tuple[str, str]]
Series = dict[tuple[str, Labels], float]

AGGREGATED = re.compile(r'(max|sum)(?: by \(([\w, ]*)\))? \((\w+)(?:\{(\w+)="([^"]*)"\})?\) > ([\d.e+]+)')
SELECTED = re.compile(r'(\w+)\{(\w+)="([^"]*)"\} == ([\d.]+)')
UNITS = {"s": 1, "m": 60, "h": 3600}


def scraped(job: str, pages: Mapping[str, str | None]) -> Series:
    """What Prometheus stores after a scrape of each instance; None is an instance that does not answer."""
    found: Series = {}
    for instance, text in pages.items():
        target = {("job", job), ("instance", instance)}
        found["up", frozenset(target)] = float(text is not None)
        for family in text_string_to_metric_families(text or ""):
            for sample in family.samples:
                found[sample.name, frozenset({*sample.labels.items(), *target})] = sample.value
    return found


def evaluate(expression: str, series: Series) -> dict[Labels, float]:
    """The values for which the expression holds, by their labels. `and` keeps those whose labels are on both sides."""
    if " and " in expression:
        left, right = (evaluate(part, series) for part in expression.split(" and "))
        return {labels: value for labels, value in left.items() if labels in right}
    if (matched := AGGREGATED.fullmatch(expression)) is not None:
        function, names, metric, label, wanted, above = matched.groups()
        kept = {name.strip() for name in (names or "").split(",") if name.strip()}
        groups: dict[Labels, list[float]] = {}
        for (name, labels), value in series.items():
            if name == metric and (label is None or (label, wanted) in labels):
                group = frozenset(pair for pair in labels if pair[0] in kept)
                groups.setdefault(group, []).append(value)
        values = {labels: (max if function == "max" else sum)(found) for labels, found in groups.items()}
        return {labels: value for labels, value in values.items() if value > float(above)}
    matched = SELECTED.fullmatch(expression)
    assert matched is not None, f"the evaluator does not know {expression!r}"
    metric, label, wanted, equal = matched.groups()
    return {
        labels: value
        for (name, labels), value in series.items()
        if name == metric and (label, wanted) in labels and value == float(equal)
    }


@dataclass
class Alertmanager:
    """Rules and the moments since which their expressions hold."""

    rules: list[dict[str, Any]]
    _since: dict[tuple[str, Labels], float] = field(default_factory=dict)

    def look(self, at: float, series: Series) -> Iterator[tuple[str, dict[str, str], str]]:
        """The alerts that fire at this moment: name, labels and summary."""
        holding: dict[tuple[str, Labels], float] = {}
        for rule in self.rules:
            for labels, value in evaluate(rule["expr"], series).items():
                key = (rule["alert"], labels)
                holding[key] = self._since.get(key, at)
                if at - holding[key] >= seconds(rule["for"]):
                    yield rule["alert"], dict(labels), rendered(rule["annotations"]["summary"], dict(labels), value)
        self._since = holding


def seconds(text: str) -> int:
    return int(text[:-1]) * UNITS[text[-1]]


def rendered(template: str, labels: Mapping[str, str], value: float) -> str:
    text = re.sub(r"\{\{ \$labels\.(\w+) \}\}", lambda found: labels[found[1]], template)
    text = re.sub(r"\{\{ \$value(?: \| humanizeDuration)? \}\}", f"{value:g}", text)
    assert "{{" not in text, text
    return text

"""Bar charts as SVG, without a library."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

WIDTH = 920
LABELS = 190
"""Where the bars of the first column begin; the names of the contenders end before."""
BARS = 230
"""The longest bar of a column; its figure stands behind it."""
ROW, SECTION, TOP, BOTTOM = 24, 34, 66, 34

INK, FAINT, OURS, THEIRS = "#1a202c", "#4a5568", "#2b6cb0", "#a0aec0"

Spread = tuple[float, float, float]
"""The lowest round, the median, the highest."""


@dataclass(frozen=True)
class Column:
    caption: str
    sections: dict[str, dict[str, Spread]]
    """By measure, then by contender. Each measure has a scale of its own."""


def draw(title: str, note: str, columns: Sequence[Column], path: Path) -> None:
    """One row for each contender, with a bar in each column: its median, and a line from the lowest to the highest."""
    sections = columns[0].sections
    height = TOP + sum(SECTION + ROW * len(found) for found in sections.values()) + BOTTOM
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"',
        ' font-family="DejaVu Sans, Helvetica, Arial, sans-serif" font-size="13">',
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        _text(12, 26, title, size=17, weight="bold"),
        _text(12, height - 12, note, size=11, fill=FAINT),
    ]
    step = (WIDTH - LABELS) // len(columns)
    starts = [LABELS + number * step for number in range(len(columns))]
    parts += [_text(start, 52, column.caption, fill=FAINT) for start, column in zip(starts, columns, strict=True)]
    y = TOP
    for measure, found in sections.items():
        parts.append(_text(12, y + 20, measure, weight="bold"))
        y += SECTION
        for number, name in enumerate(found):
            parts.append(_text(LABELS - 10, y + ROW * number + 14, name, anchor="end"))
        for start, column in zip(starts, columns, strict=True):
            parts += _bars(start, y, column.sections[measure])
        y += ROW * len(found)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([*parts, "</svg>", ""]))


def _bars(start: int, y: int, values: dict[str, Spread]) -> list[str]:
    most = max(high for _, _, high in values.values()) or 1.0
    parts = []
    for number, (name, spread) in enumerate(values.items()):
        top = y + ROW * number
        low, median, high = (start + value / most * BARS for value in spread)
        colour = OURS if name.startswith("penstock") else THEIRS
        parts += [
            f'<rect x="{start}" y="{top}" width="{max(median - start, 1):.1f}" height="18" fill="{colour}"/>',
            f'<path d="M{low:.1f} {top + 9}H{high:.1f}M{low:.1f} {top + 5}v8M{high:.1f} {top + 5}v8" stroke="{INK}"/>',
            _text(high + 8, top + 14, _number(spread[1])),
        ]
    return parts


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}"


def _text(
    x: float, y: float, text: str, *, fill: str = INK, size: int = 13, weight: str = "normal", anchor: str = "start"
) -> str:
    style = f'fill="{fill}" font-size="{size}" font-weight="{weight}" text-anchor="{anchor}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{escape(text)}</text>'

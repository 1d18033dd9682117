"""Bar charts as SVG, without a library."""

from __future__ import annotations

from html import escape
from pathlib import Path

WIDTH, LABEL, ROW, TOP = 760, 250, 30, 46


def bars(title: str, unit: str, values: dict[str, tuple[float, float, float]], path: Path) -> None:
    """One bar for each name: its median, with a line from the lowest to the highest round."""
    height = TOP + ROW * len(values) + 12
    most = max(high for _, _, high in values.values()) or 1.0
    room = WIDTH - LABEL - 110
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif"',
        ' font-size="13">',
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text x="12" y="24" font-size="15" fill="#1a202c">{escape(title)} ({escape(unit)})</text>',
    ]
    for number, (name, (low, median, high)) in enumerate(values.items()):
        y = TOP + number * ROW
        colour = "#2b6cb0" if name.startswith("penstock") else "#a0aec0"
        left, wide = LABEL + low / most * room, (high - low) / most * room
        parts += [
            f'<text x="{LABEL - 10}" y="{y + 15}" text-anchor="end" fill="#1a202c">{escape(name)}</text>',
            f'<rect x="{LABEL}" y="{y}" width="{median / most * room:.1f}" height="20" fill="{colour}"/>',
            f'<rect x="{left:.1f}" y="{y + 9}" width="{wide:.1f}" height="2" fill="#1a202c"/>',
            f'<text x="{LABEL + high / most * room + 8:.1f}" y="{y + 15}" fill="#1a202c">{median:,.0f}</text>',
        ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([*parts, "</svg>", ""]))

"""`/stats`: the requests this process has answered, as a page."""

from __future__ import annotations

from collections.abc import Collection
from html import escape

from penstock.engine.metrics import Metrics
from penstock.wire.http.messages import Response

HTML = b"text/html; charset=utf-8"
HEADERS = (
    (
        b"content-security-policy",
        b"default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
)

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Requests - Penstock</title>
<link rel="stylesheet" href="/static/penstock.css">
</head>
<body>
<main>
<h1>Requests</h1>
<p>Version {version}. Requests this process has answered since it started.</p>
<table>
<thead><tr><th>Method</th><th>Path</th><th>Status</th><th>Requests</th></tr></thead>
<tbody>
{rows}
</tbody>
</table>
</main>
</body>
</html>
"""


def stats_page(metrics: Metrics, paths: Collection[str], version: str) -> Response:
    counted = sorted(
        (path, method, status, count)
        for (method, path, status), count in metrics.requests.values.items()
        if path in paths
    )
    rows = [_row(method, path, status, f"{count:.0f}") for path, method, status, count in counted]
    text = _PAGE.format(version=escape(version), rows="\n".join(rows) or _row("", "none yet", "", "0"))
    return Response(200, text.encode(), HTML, HEADERS)


def _row(*cells: str) -> str:
    return f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"

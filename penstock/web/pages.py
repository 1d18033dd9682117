"""The pages themselves, rendered on the server under a policy that allows nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from penstock.auth import EVERYONE, Authenticator, Mode, Principal
from penstock.engine import Engine
from penstock.errors import Forbidden, PenstockError
from penstock.model import QueueCounts, Scope
from penstock.web.reference import sections

SHOWN = 500
"""Rows of the dashboard; more say nothing to a reader."""

_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}
_STATIC = {"penstock.css": "text/css", "penstock.svg": "image/svg+xml"}


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    visible: int
    in_flight: int
    delayed: int
    age: str
    bar: tuple[int, int, int]
    """Widths of the three parts in a bar of one hundred."""


class Pages:
    def __init__(self, engine: Engine, authenticator: Authenticator, document: Callable[[], Mapping[str, Any]]) -> None:
        self._engine = engine
        self._authenticator = authenticator
        self._document = document
        self._templates = Environment(
            loader=PackageLoader("penstock.web"), autoescape=select_autoescape(), undefined=StrictUndefined
        )
        self._templates.filters["thousands"] = lambda number: f"{number:,}".replace(",", "\N{NARROW NO-BREAK SPACE}")

    def routes(self) -> list[Route]:
        return [
            Route("/", self.dashboard),
            Route("/dashboard", self.dashboard),
            Route("/docs", self.docs),
            Route("/static/{name}", self.static),
        ]

    async def dashboard(self, request: Request) -> Response:
        try:
            principal = await self._reader(request)
        except Forbidden as error:
            return self._page("token.html", 403, title="Penstock", reason=error.message)
        try:
            counted = await self._engine.queues.all_counts(principal.tenant)
        except PenstockError as error:
            return self._page("trouble.html", 503, title="Penstock", reason=error.message)
        counts = sorted((item for _, item in counted if principal.reaches(item.queue)), key=lambda item: item.queue)
        now = self._engine.clock.now()
        rows = [_row(item, now) for item in counts[:SHOWN]]
        totals = {part: sum(getattr(item, part) for item in counts) for part in ("visible", "in_flight", "delayed")}
        return self._page(
            "dashboard.html", 200, title="Queues", rows=rows, queues=len(counts), totals=totals, at=now, refresh=5
        )

    async def docs(self, request: Request) -> Response:
        document = self._document()
        return self._page("docs.html", 200, title="API", info=document["info"], sections=sections(document))

    async def static(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in _STATIC:
            return self.missing()
        body = files("penstock.web").joinpath("static", name).read_bytes()
        return Response(body, media_type=_STATIC[name], headers={"cache-control": "max-age=3600"})

    def missing(self) -> Response:
        return self._page("trouble.html", 404, title="Not found", reason="There is nothing at this address.")

    async def _reader(self, request: Request) -> Principal:
        if self._authenticator.mode is Mode.OPEN:
            return EVERYONE
        principal = await self._authenticator.principal(request.headers.get("authorization"))
        principal.require(Scope.READ)
        return principal

    def _page(self, template: str, status: int, **values: Any) -> Response:
        text = self._templates.get_template(template).render({"refresh": None, **values})
        return HTMLResponse(text, status, headers=_HEADERS)


def build(engine: Engine, authenticator: Authenticator, document: Callable[[], Mapping[str, Any]]) -> Starlette:
    pages = Pages(engine, authenticator, document)

    async def missing(request: Request, error: Exception) -> Response:
        return pages.missing()

    return Starlette(routes=pages.routes(), exception_handlers={404: missing})


def _row(counts: QueueCounts, now: datetime) -> Row:
    parts = (counts.visible, counts.in_flight, counts.delayed)
    total = max(sum(parts), 1)
    first, second = round(100 * parts[0] / total), round(100 * parts[1] / total)
    bar = (first, second, 100 - first - second) if sum(parts) else (0, 0, 0)
    return Row(counts.queue, *parts, _age(counts.oldest_sent_at, now), bar)


def _age(moment: datetime | None, now: datetime) -> str:
    if moment is None:
        return "–"
    seconds = max(int((now - moment).total_seconds()), 0)
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"

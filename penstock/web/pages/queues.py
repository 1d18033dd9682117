"""The list of queues: search, sort, create."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

from starlette.routing import Route

from penstock.errors import Invalid
from penstock.model import Scope
from penstock.web.forms import audited
from penstock.web.pages.queue_rows import QueueRow, QueueRows
from penstock.web.site import Call, Page, Site, path_of

ROWS = 100
"""Rows of one page."""

SORTS: dict[str, Callable[[QueueRow], Any]] = {
    "name": lambda row: row.name,
    "visible": lambda row: -row.visible,
    "in_flight": lambda row: -row.in_flight,
    "delayed": lambda row: -row.delayed,
    "oldest": lambda row: -(row.oldest_s or 0.0),
    "sent": lambda row: -row.sent,
}


class QueueList:
    def __init__(self, site: Site) -> None:
        self._site = site
        self._rows = QueueRows(site.engine, site.shared)

    def routes(self) -> list[Route]:
        return [
            Route("/ui/queues", self._site.page(self.show)),
            Route("/ui/queues/new/create", self._site.action(self.create, self.show), methods=["POST"]),
        ]

    async def show(self, call: Call) -> Page:
        search = call.query.get("search", "").strip()
        sort = call.query.get("sort", "name")
        if sort not in SORTS:
            raise Invalid(f"queues are sorted by {', '.join(SORTS)}", field="sort")
        rows = await self._rows.rows(call.principal)
        found = sorted((row for row in rows if search.lower() in row.name.lower()), key=SORTS[sort])
        first = _first(call.query.get("from", "0"), len(found))
        values = {
            "rows": found[first : first + ROWS],
            "first": first,
            "found": len(found),
            "queues": len(rows),
            "search": search,
            "sort": sort,
            "link": lambda **changes: _link({"search": search, "sort": sort, "from": 0} | changes),
            "page": ROWS,
            "may_create": call.may(Scope.MANAGE),
        }
        return Page("queues.html", "Queues", values)

    async def create(self, call: Call) -> str:
        name = call.form.get("name", "").strip()
        call.principal.require(Scope.MANAGE, name)
        await self._site.engine.queues.create(call.principal.tenant, name, {})
        await audited(self._site.engine, call, "queue created", name)
        return path_of("queues", name)


def _first(text: str, most: int) -> int:
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
    return number if number < most else 0


def _link(query: dict[str, Any]) -> str:
    usual = {"search": "", "sort": "name", "from": 0}
    kept = {name: value for name, value in query.items() if value != usual[name]}
    return "/ui/queues" + (f"?{urlencode(kept)}" if kept else "")

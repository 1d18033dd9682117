"""For administrators: tokens, tenants and the audit log."""

from __future__ import annotations

from starlette.routing import Route

from penstock.auth import in_force
from penstock.errors import Forbidden
from penstock.model import Scope
from penstock.web.site import Call, Page, Site

ACTS = 100


class AdminPages:
    def __init__(self, site: Site) -> None:
        self._site = site

    def routes(self) -> list[Route]:
        return [Route("/ui/admin", self._site.page(self.show))]

    async def show(self, call: Call) -> Page:
        """Operators see all tenants, other administrators their own."""
        principal, engine = call.principal, self._site.engine
        principal.require(Scope.ADMIN)
        if principal.queues != "*":
            raise Forbidden("this token does not reach every queue, so it does not administer the tenant")
        tenant = None if principal.operates else principal.tenant
        before = call.query.get("before", "")
        number = int(before) if before.isascii() and before.isdigit() and len(before) < 19 else None
        acts = await engine.audit.list(tenant, before=number, limit=ACTS)
        now = engine.clock.now()
        values = {
            "tokens": [(token, in_force(token, now)) for token in await engine.tenants.list_tokens(tenant)],
            "tenants": await engine.tenants.list() if tenant is None else [],
            "acts": acts,
            "next": acts[-1].id if len(acts) == ACTS else None,
        }
        return Page("admin.html", "Admin", values)

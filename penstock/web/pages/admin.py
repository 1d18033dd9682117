"""For administrators: tokens, tenants, limits and the audit log."""

from __future__ import annotations

from datetime import timedelta

from starlette.routing import Route

from penstock.auth import Principal, in_force
from penstock.errors import Forbidden, Invalid, TokenNotFound
from penstock.model import Scope, TenantId, Token
from penstock.web.forms import actor_of, check_typed_name, whole_number
from penstock.web.site import Call, Page, Site, path_of

ACTS = 100
LONGEST_DAYS = 3650
DONE = {"revoked": "The token was revoked. It stops working within two seconds."}


class AdminPages:
    def __init__(self, site: Site) -> None:
        self._site = site
        self._tenants = site.engine.tenants

    def routes(self) -> list[Route]:
        site = self._site
        return [
            Route("/ui/admin", site.page(self.show)),
            Route("/ui/admin/tokens/create", site.action(self.create_token, self.show), methods=["POST"]),
            Route("/ui/admin/tokens/revoke", site.action(self.revoke_token, self.show), methods=["POST"]),
        ]

    async def show(self, call: Call) -> Page:
        """Operators see all tenants, other administrators their own."""
        principal, engine = _administrator(call), self._site.engine
        tenant = None if principal.operates else principal.tenant
        before = call.query.get("before", "")
        number = int(before) if before.isascii() and before.isdigit() and len(before) < 19 else None
        acts = await engine.audit.list(tenant, before=number, limit=ACTS)
        now = engine.clock.now()
        values = {
            "tokens": [(token, in_force(token, now)) for token in await self._tenants.list_tokens(tenant)],
            "tenants": await self._tenants.list() if tenant is None else [],
            "nodes": await engine.nodes.list() if tenant is None else [],
            "acts": acts,
            "next": acts[-1].id if len(acts) == ACTS else None,
            "scopes": [scope.value for scope in Scope if principal.operates or scope is not Scope.OPERATOR],
            "store": engine.store.kind,
            "pool": engine.store.pool_numbers(),
            "rates": engine.rates.limits,
            "settings": self._site.settings,
            "mode": self._site.authenticator.mode.value,
            "secret": None,
            "notice": call.notice(DONE),
        }
        return Page("admin.html", "Admin", values)

    async def create_token(self, call: Call) -> Page:
        """The page with the new token. Its text is in no address, and no later page has it."""
        principal, form = _administrator(call), call.form
        given = form.get("scopes", "").split("\n")
        if not set(given) <= {scope.value for scope in Scope} or not any(given):
            raise Invalid("choose at least one scope", field="scopes")
        days = whole_number(form, "days")
        if days is not None and not 1 <= days <= LONGEST_DAYS:
            raise Invalid(f"a token lasts 1 to {LONGEST_DAYS} days", field="days")
        made, text = await self._tenants.create_token(
            await self._tenant(principal, form.get("tenant", "").strip()),
            form.get("name", "").strip(),
            frozenset(Scope(scope) for scope in given),
            queues=form.get("queues", "").strip() or "*",
            lasts=None if days is None else timedelta(days=days),
            actor=actor_of(principal),
        )
        page = await self.show(call)
        return Page(page.template, page.title, {**page.values, "secret": text, "made": made, "live": False, "form": {}})

    async def revoke_token(self, call: Call) -> str:
        found = await self._reached(call)
        check_typed_name(call, found.name or found.prefix)
        await self._tenants.revoke_token(found.id, actor=actor_of(call.principal))
        return f"{path_of('admin')}?done=revoked"

    async def _tenant(self, principal: Principal, name: str) -> TenantId:
        """The tenant of a new token: of operators any that exists, of others their own."""
        if not name:
            return principal.tenant
        known = {one.name: one.id for one in await self._tenants.list()} if principal.operates else {}
        if name not in known:
            raise Invalid(f"there is no tenant {name}", field="tenant")
        return known[name]

    async def _reached(self, call: Call) -> Token:
        principal = _administrator(call)
        number = whole_number(call.form, "id")
        tenant = None if principal.operates else principal.tenant
        found = next((one for one in await self._tenants.list_tokens(tenant) if one.id == number), None)
        if found is None:
            raise TokenNotFound()
        return found


def _administrator(call: Call) -> Principal:
    call.principal.require(Scope.ADMIN)
    if call.principal.queues != "*":
        raise Forbidden("this token cannot access every queue, so it cannot administer the tenant")
    return call.principal

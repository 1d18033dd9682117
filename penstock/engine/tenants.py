"""Tenants and their API tokens."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timedelta

from penstock import auth, limits
from penstock.clock import Clock
from penstock.engine.audit import OPERATOR, Audit
from penstock.engine.checks import check_number, check_text
from penstock.errors import Invalid, TokenNotFound
from penstock.model import DEFAULT_TENANT, Scope, Tenant, TenantId, Token
from penstock.store import Store

HOME_REGION = "us-east-1"
REGION = re.compile(r"[a-z0-9-]{1,32}")
MOST_REGIONS = 100


class Tenants:
    def __init__(self, store: Store, clock: Clock, audit: Audit) -> None:
        self._store = store
        self._clock = clock
        self._audit = audit
        self._regions: dict[tuple[TenantId, str], TenantId] = {}

    async def create(self, name: str, *, actor: str = OPERATOR) -> Tenant:
        if not 1 <= len(name) <= 80:
            raise Invalid("a tenant name has 1 to 80 characters", field="tenant")
        if "@" in name:
            raise Invalid("a tenant name has no @: that marks a tenant's regions", field="tenant")
        check_text("tenant", name)
        made = await self._store.create_tenant(name, self._clock.now())
        await self._audit.note(made.id, actor, "tenant created", name)
        return made

    async def list(self) -> Sequence[Tenant]:
        return await self._store.list_tenants()

    async def in_region(self, tenant: TenantId, region: str) -> TenantId:
        """The part of a tenant that lives in a region: queues of one name in two regions are two queues.

        The home region is the tenant itself; any other is a tenant of its own, made when first asked for.
        """
        if region == HOME_REGION:
            return tenant
        known = self._regions.get((tenant, region))
        if known is None:
            if REGION.fullmatch(region) is None:
                raise Invalid("a region has 1 to 32 lower-case letters, digits and hyphens", field="region")
            if sum(1 for owner, _ in self._regions if owner == tenant) >= MOST_REGIONS:
                raise Invalid(f"a tenant may use {MOST_REGIONS} regions", field="region")
            part = await self._store.create_tenant(f"{tenant}@{region}", self._clock.now())
            known = self._regions[(tenant, region)] = part.id
        return known

    async def create_token(
        self,
        tenant: TenantId,
        name: str,
        scopes: frozenset[Scope],
        *,
        queues: str = "*",
        lasts: timedelta | None = None,
        aws: bool = False,
        actor: str = OPERATOR,
    ) -> tuple[Token, str]:
        """The token, and its text: this is the only time anyone sees it.

        An AWS access key's id is the token's prefix, its secret the text.
        """
        if not scopes:
            raise Invalid("a token needs at least one scope", field="scopes")
        if Scope.OPERATOR in scopes and tenant != DEFAULT_TENANT:
            raise Invalid("only tokens of the default tenant may have the scope operator", field="scopes")
        check_text("name", name)
        text, prefix, sha256 = auth.new_aws_secret() if aws else auth.new_secret()
        now = self._clock.now()
        expires_at = None if lasts is None else _later(now, "expires", lasts)
        kept = text if aws else None
        token = await self._store.add_token(tenant, name, prefix, sha256, scopes, queues, now, expires_at, kept)
        await self._audit.note(tenant, actor, "token created", str(token.id), name=name, scopes=sorted(scopes))
        return token, text

    async def list_tokens(self, tenant: TenantId | None = None) -> Sequence[Token]:
        return await self._store.list_tokens(tenant)

    async def find_tokens(self, prefix: str) -> Sequence[Token]:
        return await self._store.find_tokens(prefix)

    async def saw_token(self, token_id: int) -> None:
        await self._store.saw_token(token_id, self._clock.now())

    async def revoke_token(self, token_id: int, *, actor: str = OPERATOR) -> Token:
        check_number("token_id", token_id)
        ended = await self._store.end_token(token_id, self._clock.now())
        await self._audit.note(ended.tenant, actor, "token revoked", str(token_id), name=ended.name)
        return ended

    async def rotate_token(
        self, token_id: int, overlap: timedelta = timedelta(0), *, actor: str = OPERATOR
    ) -> tuple[Token, str]:
        """A new token of the old one's kind, powers and lifetime; the old one ends after `overlap`."""
        old = next((token for token in await self._store.list_tokens(None) if token.id == token_id), None)
        if old is None:
            raise TokenNotFound()
        ends_at = _later(self._clock.now(), "overlap", overlap)
        lasts = old.expires_at - old.created_at if old.expires_at is not None else None
        aws = old.aws_secret is not None
        replacement = await self.create_token(
            old.tenant, old.name, old.scopes, queues=old.queues, lasts=lasts, aws=aws, actor=actor
        )
        await self._store.end_token(token_id, ends_at)
        overlap_s = int(overlap.total_seconds())
        await self._audit.note(
            old.tenant, actor, "token rotated", str(token_id), by=replacement[0].id, overlap_s=overlap_s
        )
        return replacement


def _later(now: datetime, field: str, duration: timedelta) -> datetime:
    if duration > limits.MOMENT[1] - now:
        raise Invalid(f"{field} must be before {limits.MOMENT[1].date()}", field=field)
    return now + duration

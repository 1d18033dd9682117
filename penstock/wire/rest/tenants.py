"""Native REST: tenants, their tokens, and the audit log.

An administrator manages the tokens of their own tenant. An operator, who is an administrator of the default tenant with
access to all queues, manages those of all tenants, and the tenants themselves.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from penstock.auth import Principal
from penstock.engine import Engine
from penstock.errors import Conflict, Forbidden, NotFound, TokenNotFound
from penstock.model import Scope, TenantId
from penstock.model import tenants as model
from penstock.wire.http.bodies import read_body, read_query
from penstock.wire.http.messages import NO_CONTENT, Request, Response
from penstock.wire.openapi import Operation
from penstock.wire.rest.types import Moment, NoQuery, Strict, path_number

_TENANTS = "/v1/tenants"
_TOKENS = "/v1/tokens"
_TOKEN = "/v1/tokens/{id}"  # noqa: S105
LONGEST_S = 315_360_000
"""A lifetime or an overlap of ten years."""

_encode = msgspec.json.Encoder().encode


class NewTenant(Strict):
    name: Annotated[str, Meta(description="1 to 80 characters, without @.")]


class Tenant(Struct, kw_only=True):
    id: int
    name: str
    created_at: Moment


class NewToken(Strict, kw_only=True):
    name: Annotated[str, Meta(description="A description.")] = ""
    tenant: Annotated[str, Meta(description="Of operators: the tenant it is for; else the caller's.")] | None = None
    scopes: Annotated[list[Scope], Meta(min_length=1, description="Default: admin.")] = msgspec.field(
        default_factory=lambda: [Scope.ADMIN]
    )
    queues: Annotated[str, Meta(description="A glob over the queues it reaches.")] = "*"
    lifetime: Annotated[int, Meta(ge=0, le=LONGEST_S, description="Seconds; null for no end.")] | None = None
    aws: Annotated[bool, Meta(description="An AWS access key instead of a token.")] = False


class Token(Struct, kw_only=True, omit_defaults=False):
    id: int
    tenant: str
    name: str
    kind: Annotated[str, Meta(description="token or aws.")]
    prefix: Annotated[str, Meta(description="How it begins; of an AWS access key, its id.")]
    scopes: list[str]
    queues: str
    created_at: Moment
    expires_at: Moment | None
    revoked_at: Moment | None
    last_seen_at: Moment | None
    token: Annotated[str, Meta(description="Shown once.")] | UnsetType = UNSET
    access_key_id: str | UnsetType = UNSET
    secret_access_key: Annotated[str, Meta(description="Shown once.")] | UnsetType = UNSET


class Rotation(Strict):
    overlap: Annotated[int, Meta(ge=0, le=LONGEST_S, description="Seconds the old one remains valid.")] = 0


class TokensQuery(Strict):
    tenant: Annotated[str, Meta(description="Of operators: only this tenant's.")] | None = None


class AuditQuery(Strict):
    tenant: Annotated[str, Meta(description="Of operators: only this tenant's.")] | None = None
    before: Annotated[int, Meta(ge=1, description="Ids before this one: the last of the page before.")] | None = None
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100


class Act(Struct, kw_only=True):
    id: int
    at: Moment
    tenant: str | None
    actor: str
    act: str
    subject: str
    detail: Annotated[str, Meta(description="A JSON object as text.")]


_new_tenant = msgspec.json.Decoder(NewTenant)
_new_token = msgspec.json.Decoder(NewToken)
_rotation = msgspec.json.Decoder(Rotation)


class TenantRoutes:
    def __init__(self, engine: Engine) -> None:
        self._tenants = engine.tenants
        self._audit = engine.audit
        self._clock = engine.clock

    def operations(self) -> list[Operation]:
        tag, admin = "tenants", Scope.ADMIN
        return [
            Operation(
                method="POST", path=_TENANTS, handler=self.create, tag=tag, scope=admin, summary="Create a tenant",
                body=NewTenant, answers={201: Tenant},
            ),
            Operation(
                method="GET", path=_TENANTS, handler=self.list, tag=tag, scope=admin, summary="List tenants",
                answers={200: list[Tenant]},
            ),
            Operation(
                method="POST", path=_TOKENS, handler=self.create_token, tag=tag, scope=admin,
                summary="Create a token, shown once", body=NewToken, body_required=False, answers={201: Token},
                errors=(NotFound,),
            ),
            Operation(
                method="GET", path=_TOKENS, handler=self.list_tokens, tag=tag, scope=admin,
                summary="List tokens, without their secrets", query=TokensQuery, answers={200: list[Token]},
                errors=(NotFound,),
            ),
            Operation(
                method="POST", path=f"{_TOKEN}/rotate", handler=self.rotate, tag=tag, scope=admin,
                summary="Replace a token with a new one", body=Rotation, body_required=False, answers={201: Token},
                errors=(TokenNotFound, Conflict),
            ),
            Operation(
                method="DELETE", path=_TOKEN, handler=self.revoke, tag=tag, scope=admin, summary="Revoke a token",
                answers={204: None}, errors=(TokenNotFound,),
            ),
            Operation(
                method="GET", path="/v1/audit", handler=self.acts, tag=tag, scope=admin,
                summary="Administrative actions, newest first", query=AuditQuery, answers={200: list[Act]},
                errors=(NotFound,),
            ),
        ]  # fmt: skip

    # Tenants

    async def create(self, request: Request) -> Response:
        _operator(request.principal)
        given = read_body(_new_tenant, request.body)
        made = await self._tenants.create(given.name, actor=_actor(request.principal))
        return Response(201, _encode(_tenant(made)))

    async def list(self, request: Request) -> Response:
        """An operator's answer has all tenants, an administrator's only their own."""
        principal = _administrator(request.principal)
        if request.query:
            read_query(NoQuery, request.query)
        found = await self._tenants.list()
        return Response(
            200, _encode([_tenant(one) for one in found if principal.operates or one.id == principal.tenant])
        )

    # Tokens

    async def create_token(self, request: Request) -> Response:
        principal = _administrator(request.principal)
        given = read_body(_new_token, request.body or b"{}")
        tenant = await self._tenant(principal, given.tenant)
        made, text = await self._tenants.create_token(
            principal.tenant if tenant is None else tenant,
            given.name,
            frozenset(given.scopes),
            queues=given.queues,
            lasts=None if given.lifetime is None else timedelta(seconds=given.lifetime),
            aws=given.aws,
            actor=_actor(principal),
        )
        return Response(201, _encode(_token(made, text)))

    async def list_tokens(self, request: Request) -> Response:
        principal = _administrator(request.principal)
        query = read_query(TokensQuery, request.query)
        tenant = await self._tenant(principal, query.tenant)
        own = None if principal.operates else principal.tenant
        found = await self._tenants.list_tokens(own if tenant is None else tenant)
        return Response(200, _encode([_token(one) for one in found]))

    async def rotate(self, request: Request) -> Response:
        found = await self._reach(request)
        given = read_body(_rotation, request.body or b"{}")
        if found.revoked_at is not None and found.revoked_at <= self._clock.now():
            raise Conflict("the token is revoked; create a new one", field="id")
        made, text = await self._tenants.rotate_token(
            found.id, timedelta(seconds=given.overlap), actor=_actor(request.principal)
        )
        return Response(201, _encode(_token(made, text)))

    async def revoke(self, request: Request) -> Response:
        found = await self._reach(request)
        await self._tenants.revoke_token(found.id, actor=_actor(request.principal))
        return NO_CONTENT

    async def acts(self, request: Request) -> Response:
        principal = _administrator(request.principal)
        query = read_query(AuditQuery, request.query)
        tenant = await self._tenant(principal, query.tenant)
        own = None if principal.operates else principal.tenant
        found = await self._audit.list(own if tenant is None else tenant, before=query.before, limit=query.limit)
        return Response(
            200,
            _encode(
                [
                    Act(
                        id=one.id,
                        at=one.at,
                        tenant=one.tenant,
                        actor=one.actor,
                        act=one.act,
                        subject=one.subject,
                        detail=one.detail,
                    )
                    for one in found
                ]
            ),
        )

    async def _tenant(self, principal: Principal, name: str | None) -> TenantId | None:
        """The tenant of this name; None when none is given."""
        if name is None:
            return None
        for found in await self._tenants.list():
            if found.name == name and (principal.operates or found.id == principal.tenant):
                return found.id
        raise NotFound(f"tenant '{name}' does not exist", field="tenant")

    async def _reach(self, request: Request) -> model.Token:
        """The token that the path names. Those of other tenants do not exist for an administrator."""
        principal = _administrator(request.principal)
        if request.query:
            read_query(NoQuery, request.query)
        number = path_number(request.arguments[0], "id")
        for found in await self._tenants.list_tokens(None if principal.operates else principal.tenant):
            if found.id == number:
                return found
        raise TokenNotFound(field="id")


def _administrator(principal: Principal) -> Principal:
    """A token for some queues may not create one for all, so it manages no tokens."""
    principal.require(Scope.ADMIN)
    if principal.queues != "*":
        raise Forbidden("this token cannot access every queue")
    return principal


def _operator(principal: Principal) -> None:
    _administrator(principal)
    if not principal.operates:
        raise Forbidden("only an administrator of the default tenant may do this")


def _actor(principal: Principal) -> str:
    return principal.name or "anyone"


def _tenant(found: model.Tenant) -> Tenant:
    return Tenant(id=found.id, name=found.name, created_at=found.created_at)


def _token(found: model.Token, text: str | None = None) -> Token:
    aws = found.aws_secret is not None
    return Token(
        id=found.id,
        tenant=found.tenant_name,
        name=found.name,
        kind="aws" if aws else "token",
        prefix=found.prefix if aws else f"pst_{found.prefix}",
        scopes=sorted(found.scopes),
        queues=found.queues,
        created_at=found.created_at,
        expires_at=found.expires_at,
        revoked_at=found.revoked_at,
        last_seen_at=found.last_seen_at,
        token=UNSET if text is None or aws else text,
        access_key_id=found.prefix if text is not None and aws else UNSET,
        secret_access_key=text if text is not None and aws else UNSET,
    )

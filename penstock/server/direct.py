"""The REST and jobs API on a database, in this process and without a server: for commands."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from urllib.parse import quote, urlencode

from penstock.auth import Authenticator, Mode, Principal
from penstock.config import Settings
from penstock.engine import Engine
from penstock.errors import Invalid, NotFound, Unsupported
from penstock.model import Scope, TenantId
from penstock.server.neighbours import Neighbours
from penstock.server.stores import database, describe, opened, pending_migrations, require_files
from penstock.server.versions import version
from penstock.wire.http.messages import Request, Response
from penstock.wire.http.router import Router
from penstock.wire.jobs.door import JobsDoor
from penstock.wire.rest.door import Rest

ACTOR = "operator"
"""The audit log's name for the user of a command that works on the database."""


class _Known(Authenticator):
    """Lets in one caller, who needs no token: the database's password was proof enough."""

    def __init__(self, engine: Engine, principal: Principal) -> None:
        super().__init__(Mode.TOKEN, engine.clock, engine.tenants.find_tokens, engine.tenants.saw_token)
        self._principal = principal

    def remembered(self, header: str | None) -> Principal:
        return self._principal


class Direct:
    """Answers requests as a server does to an administrator of one tenant."""

    def __init__(self, engine: Engine, tenant: TenantId) -> None:
        self._engine = engine
        self._principal = Principal(tenant, frozenset(Scope), name=ACTOR)
        authenticator = _Known(engine, self._principal)
        rest = Rest(engine, authenticator, version=version(), peers=Neighbours().numbers, others=())
        jobs = JobsDoor(engine, authenticator)
        self._router = Router([*rest.routes(), *jobs.routes()], ())

    async def answer(self, method: str, path: str, query: Mapping[str, str], body: bytes | None) -> tuple[int, bytes]:
        """Status and body."""
        request = Request(method, path, urlencode(query, quote_via=quote).encode(), [], True)
        request.body = body or b""
        request.principal = self._principal
        self._router.match(request)
        if request.route is None:
            raise NotFound(f"{method} {path} is not served")
        try:
            answer = request.route.handler(request)
            response = answer if isinstance(answer, Response) else await answer
        except Exception as error:
            response = request.route.fault(error, "")
        return response.status, bytes(response.body)

    async def work(self) -> None:
        """Do once what a server does by itself: move messages, and tick streams."""
        await self._engine.queues.run_moves()
        if self._engine.store.has_streams:
            await self._engine.streams.tick()


@asynccontextmanager
async def open_direct(settings: Settings, tenant: str, *, creates: bool) -> AsyncIterator[Direct]:
    """Open the store of the settings. Unless `creates`, it must exist and be up to date, and nothing is migrated."""
    if settings.store == "memory":
        raise Invalid(
            "this command cannot reach an in-memory store: it exists only inside the server process; use --url"
        )
    if not creates:
        require_files(settings)
    with database(settings) as found:
        if not creates and (missing := await pending_migrations(settings, found.dsn)):
            raise Unsupported(f"{describe(settings)} is not up to date ({len(missing)} missing); run: penstock migrate")
        async with opened(settings, found.dsn) as engine:
            yield Direct(engine, await _tenant(engine, tenant))


async def _tenant(engine: Engine, name: str) -> TenantId:
    for found in await engine.tenants.list():
        if found.name == name:
            return found.id
    raise NotFound(f"tenant '{name}' does not exist; create it with: penstock tenant create {name}")

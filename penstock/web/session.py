"""Login with a token, and logout."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from penstock.auth import Mode
from penstock.errors import Forbidden, PenstockError
from penstock.model import Scope
from penstock.web import security
from penstock.web.site import Site


class Session:
    """The session is the token itself, in a cookie that scripts cannot read: a revoked token ends it everywhere."""

    def __init__(self, site: Site) -> None:
        self._site = site

    async def login_page(self, request: Request) -> Response:
        if self._site.authenticator.mode is Mode.OPEN:
            return RedirectResponse("/", 303)
        return self._site.login_page(request, "", request.query_params.get("next", "/"))

    async def login(self, request: Request) -> Response:
        site = self._site
        try:
            form = await site.read_form(request)
        except PenstockError as error:
            return site.trouble(error)
        target, token = form.get("next", "/"), form.get("token", "").strip()
        try:
            if not token.isascii() or not token.isprintable():
                raise Forbidden("the token is unknown, expired or revoked")
            principal = await site.authenticator.principal(f"Bearer {token}")
            principal.require(Scope.READ)
        except Forbidden as error:
            return site.login_page(request, error.message, target)
        except PenstockError as error:
            return site.trouble(error)
        response = RedirectResponse(security.local_path(target), 303, headers=security.HEADERS)
        if site.authenticator.mode is not Mode.OPEN:
            security.start_session(response, token, secure=site.settings.secure_cookie)
        return response

    async def logout(self, request: Request) -> Response:
        try:
            await self._site.read_form(request)
        except PenstockError as error:
            return self._site.trouble(error)
        response = RedirectResponse("/", 303, headers=security.HEADERS)
        security.end_session(response, secure=self._site.settings.secure_cookie)
        return response
